import { createHmac, generateKeyPairSync, type JsonWebKey, randomUUID, sign } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ServiceAccounts } from '../../../agent/src/content/volume-mounts/service-accounts.ts';
import { AdminToken } from '../../../agent/src/local-api/server/token.ts';
import { filesInMemory } from '../../../agent/src/machine/_mounted-files.ts';
import { memoryTokens } from '../../../agent/src/state/_tokens.ts';
import { type Identity, newIdentity, newKey } from '../../../agent/src/state/identity.ts';
import { signingKey, signToken } from '../../../agent/src/state/token.ts';
import { makeView } from '../../../agent/src/supervise/plan/_util.ts';
import { storedNode } from '../../../testing/stored.ts';

import { temporaryFolder } from '../../../testing/temporary-folder.ts';

import { NODE_TOKEN_ISSUER, TOKEN_AUDIENCE } from '../../api/names.ts';
import type { KubeClient } from '../../kube/mod.ts';
import { silentLog } from '../../lib/log.ts';
import { NODE_TOKEN } from '../../wire/node-token.ts';
import { fill, keyOf, makeClock, makeKey, startReplica } from '../_util.ts';
import { createSealedPositions } from './sealed-position.ts';

/** What a token is made for: a node whose key also signs everything that its agent signs, which is the worst that agents do. */
interface Subject {
  uuid: string;
  identity: Identity;
  /** Unix ms */
  now: number;
}

const base64url = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;

/** A token as the cluster issues it for a ServiceAccount. */
function clusterToken({ uuid, now }: Subject, audience: string, sub = `system:serviceaccount:skerry:${uuid}`): string {
  const iat = Math.floor(now / 1000);
  const claims = { aud: [audience], iat, nbf: iat, exp: iat + 600, iss: NODE_TOKEN_ISSUER, jti: randomUUID(), sub };
  const signed = `${base64url({ alg: 'RS256', kid: 'k' })}.${base64url(claims)}`;
  return `${signed}.${sign('sha256', Buffer.from(signed), rsa).toString('base64url')}`;
}

/** An access token of a person, as the controller or another provider issues it, whose subject is the node. */
function accessToken({ uuid, now }: Subject): string {
  const iat = Math.floor(now / 1000);
  const claims = {
    iss: 'https://skerry.example/oidc',
    aud: 'controller',
    sub: uuid,
    iat,
    exp: iat + 900,
    groups: ['admin'],
  };
  const signed = `${base64url({ alg: 'RS256', kid: 'k' })}.${base64url({ ...claims, token_use: 'access' })}`;
  return `${signed}.${sign('sha256', Buffer.from(signed), rsa).toString('base64url')}`;
}

/** A token that the key of the node signs for something else than the controller. */
function agentToken({ uuid, identity, now }: Subject, claims: { aud: string[]; tokenUse?: string }): string {
  const all = { sub: uuid, iss: NODE_TOKEN_ISSUER, ...(claims as { aud: string[]; tokenUse: string }) };
  return signToken(signingKey(identity.localKey), all, Math.floor(now / 1000), NODE_TOKEN.lifetime);
}

function adminToken({ identity, now }: Subject): string {
  const folder = temporaryFolder();
  const path = join(folder, 'token');
  const clock = { now: () => now, wall: () => now };
  new AdminToken(path, { identity, tokens: memoryTokens(identity, clock) }).write();
  return readFileSync(path, 'utf8').trim();
}

function workloadToken({ identity, now }: Subject): string {
  const files = filesInMemory();
  const clock = { now: () => now, wall: () => now, after: () => () => {} };
  const view = makeView({ serviceAccount: { name: 'web', rules: [] } });
  const tokens = memoryTokens(identity, clock);
  const deps = { files, clock, tokens, log: silentLog, identity: () => identity, authority: () => undefined };
  new ServiceAccounts(deps).apply([view]);
  return files.read(`serviceaccounts/${view.uuid}`)?.get('token')?.toString() ?? '';
}

/** Every token that the product issues or accepts, besides the node token. */
const TOKENS: Record<string, (subject: Subject) => string> = {
  'the admin token of the local API': adminToken,
  'the token of a workload for the local API': workloadToken,
  ...Object.fromEntries(
    ['agentapi', 'edgeletapi', 'serviceaccount', 'edgeguard', 'Controller', ''].map((tokenUse) => [
      `a token with the subject of the node for the use "${tokenUse}"`,
      (subject: Subject) => agentToken(subject, { aud: ['http://controller'], tokenUse }),
    ]),
  ),
  ...Object.fromEntries(
    [
      'skerry-agent://api/v1',
      NODE_TOKEN_ISSUER,
      `${NODE_TOKEN_ISSUER}.:54321/v1`,
      'https://EDGELET.default.svc.bridge.local',
      '',
    ].map((audience) => [
      `a token with the subject of the node, without a use, for the audience "${audience}"`,
      (subject: Subject) => agentToken(subject, { aud: ['http://controller', audience] }),
    ]),
  ),
  'the token of a user or of the service account of one': (subject) => clusterToken(subject, TOKEN_AUDIENCE),
  'a token of the cluster that has the uuid of the node as subject': (subject) =>
    clusterToken(subject, 'https://kubernetes.default.svc', subject.uuid),
  'an access token of a person': accessToken,
  'the cookie of a step of a login': () => createHmac('sha256', 'key').update('uid').digest('base64url'),
  'a code of a second factor': () => '492039',
  'the token of a replica for its leader and for relays': (subject) => clusterToken(subject, 'skerry-replicas'),
  'a provisioning key': () => randomUUID(),
  'the sealed position of the node': ({ uuid }) =>
    createSealedPositions('key').seal(uuid, { epoch: 1, id: '00000000', sequenceNumber: 1 }),
  'the fingerprint of a Secret': () => createHmac('sha256', 'key').update('text').digest('hex'),
  'the id of a session': () => randomUUID(),
  'the digest of a section': () => '0123456789abcdef',
  'the private key of the node': ({ identity }) => base64url(identity.localKey as object),
  'a token that the node signed with HMAC and its public key': ({ uuid, identity, now }) => {
    const iat = Math.floor(now / 1000);
    const signed = `${base64url({ alg: 'HS256', typ: 'JWT' })}.${base64url({ sub: uuid, iat, exp: iat + 60, jti: randomUUID() })}`;
    return `${signed}.${createHmac('sha256', identity.localKey.x).update(signed).digest('base64url')}`;
  },
};

/** A replica with a node, whose key the agent uses for all that it signs. */
async function start() {
  const clock = makeClock();
  const node = storedNode('edge-1');
  const identity: Identity = {
    ...newIdentity(),
    localKey: newKey(),
    node: { uuid: node.spec.uuid ?? '', namespace: 'default', controllerUrl: 'http://controller' },
  };
  const client = { list: async () => ({ items: [], resourceVersion: '1' }), find: async () => undefined };
  const replica = await startReplica({ clock, client: client as unknown as KubeClient });
  onTestFinished(() => replica[Symbol.asyncDispose]());
  const privateKey = signingKey(identity.localKey);
  const { x = '' } = privateKey.export({ format: 'jwk' }) as JsonWebKey;
  const key = { ...makeKey(), privateKey, publicKey: { kty: 'OKP', crv: 'Ed25519', x } as const };
  fill(replica.stores, { nodes: [node], secrets: [keyOf(node, key)] });
  await clock.advance(1_000, { timers: 0 });
  return { replica, subject: { uuid: node.spec.uuid ?? '', identity, now: clock.wall() } };
}

test('no other token that the product issues or accepts passes for a node token, although one key signs them', async () => {
  const { replica, subject } = await start();
  const passed = async (token: string) =>
    (await replica.call('GET', '/config', { headers: { authorization: `Bearer ${token}` } })).status;
  for (const [what, make] of Object.entries(TOKENS)) {
    const token = make(subject);
    expect(token, what).not.toBe('');
    expect(await passed(token), what).toBe(401);
  }
  const good = agentToken(subject, { aud: ['http://controller'], tokenUse: NODE_TOKEN.use });
  expect(await passed(good)).toBe(200);
});

const NODE_TOKENS = 'node tokens alone';
const REGISTRY = 'the credentials of a registry, which are not of this product';

/** Files that issue or accept a credential, and which of TOKENS it is. */
const FILES: Record<string, string> = {
  'agent/src/link/client.ts': NODE_TOKENS,
  'agent/src/local-api/client.ts': 'the admin token of the local API',
  'agent/src/local-api/server/authenticate.ts': 'the admin token of the local API',
  'agent/src/local-api/server/token.ts': 'the admin token of the local API',
  'agent/src/content/registries/client.ts': REGISTRY,
  'agent/src/state/token.ts': NODE_TOKENS,
  'agent/src/state/local-tokens.ts': 'the admin token of the local API',
  'agent/src/content/volume-mounts/service-accounts.ts': 'the token of a workload for the local API',
  'cli/src/commands/provision.ts': 'a provisioning key',
  'cli/src/context/controller.ts': 'the token of a user or of the service account of one',
  'cli/src/context/login.ts': 'an access token of a person',
  'cli/src/context/token.ts': 'the token of a user or of the service account of one',
  'src/replicas/internal-verifier.ts': 'the token of a replica for its leader and for relays',
  'src/replicas/leader-client.ts': 'the token of a replica for its leader and for relays',
  'src/agents/pipeline/authenticate.ts': NODE_TOKENS,
  'src/agents/pipeline/sealed-position.ts': 'the sealed position of the node',
  'src/agents/pipeline/token.ts': NODE_TOKENS,
  'src/agents/routes/provision.ts': 'a provisioning key',
  'src/agents/server.ts': NODE_TOKENS,
  'src/datastore/provisioning-keys.ts': 'a provisioning key',
  'src/desired/rules/revision.ts': 'the fingerprint of a Secret',
  'src/external-issuer/verify.ts': 'an access token of a person',
  'src/identity/jwt.ts': 'an access token of a person',
  'src/identity/step-cookie.ts': 'the cookie of a step of a login',
  'src/login-pages/browser/main.ts': 'an access token of a person',
  'src/subjects/identity/routes/own-account.ts': 'an access token of a person',
  'src/subjects/identity/rules/totp.ts': 'a code of a second factor',
  'src/kube/service-account.ts': 'the token of a replica for its leader and for relays',
  'src/rest/access/reviews.ts': 'the token of a user or of the service account of one',
  'src/sessions/relay.ts': 'the token of a replica for its leader and for relays',
  'src/sessions/upgrades.ts': 'the token of a user or of the service account of one',
  'src/datastore/lookups.ts': 'the fingerprint of a Secret',
};

const ISSUES_OR_ACCEPTS =
  /sign(?:Token|Claims)\(|tokens\.(?:issue|verify)\(|Bearer \$\{|'TokenRequest'|'TokenReview'|bearerOf\(|nodeTokenOf\(|createHmac\(|provisioningKeyName\(|SignJWT\(|jwtVerify\(/;

test('each file that issues or accepts a credential names the token that is tried in place of a node token', () => {
  const files = globSync('{src,agent/src,cli/src}/**/*.ts')
    .filter((file) => !/\.test\.ts$|\/_/.test(file) && ISSUES_OR_ACCEPTS.test(readFileSync(file, 'utf8')))
    .sort();
  expect(files).toEqual(Object.keys(FILES).sort());
  for (const token of Object.values(FILES)) expect([...Object.keys(TOKENS), NODE_TOKENS, REGISTRY]).toContain(token);
});
