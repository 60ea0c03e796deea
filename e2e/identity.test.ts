import { generateKeyPairSync } from 'node:crypto';
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { MemoryEngine } from '../agent/src/engines/memory/_engine.ts';
import { signingKey } from '../agent/src/state/token.ts';
import { freePort } from '../hack/ports.ts';
import { API_VERSION } from '../src/api/names.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { startLocalAgent } from './_agent.ts';
import {
  type ForeignIdentity,
  type ForeignReply,
  foreignCall,
  foreignProvision,
  foreignToken,
  type TokenChanges,
} from './_foreign.ts';
import { type ControllerProcess, createStack, readyOf, until, untilReady, webApplication } from './_stack.ts';

/**
 * Authentication of agents, over HTTP against two replicas of a real controller: an invalid credential is refused with the
 * code of its reason, and neither a refusal nor a duplicate identity removes a workload.
 */
/** the URL that replica b requires as the audience of tokens; replica a accepts any audience */
const PUBLIC_URL = 'http://controller.example:51121';
const SECOND = 1000;

let node: ForeignIdentity;
let other: ForeignIdentity;
const started = new AsyncDisposableStack();

const makeNode = (name: string) =>
  stack.apply({ apiVersion: API_VERSION, kind: 'EdgeNode', metadata: { name }, spec: {} });

async function provision(name: string): Promise<ForeignIdentity> {
  await makeNode(name);
  return foreignProvision(a.url, await stack.provisioningKey(name, a));
}
const home = temporaryFolder();

const stack = await createStack();
const a = await stack.startController({ env: { POD_NAME: 'a' } });
const b = await stack.startController({ env: { POD_NAME: 'b', CONTROLLER_PUBLIC_URL: PUBLIC_URL } });
[node, other] = [await provision('who-1'), await provision('who-2')];
const agent = await stack.startAgent('who-3', a);
afterAll(() => started.disposeAsync(), 60_000);

const send = (token: string | undefined, replica = a): Promise<ForeignReply> =>
  foreignCall(replica.url, 'GET', '/agent/changes', { token });
const now = () => Math.floor(Date.now() / SECOND);
const tokenOf = (changes: TokenChanges = {}, identity = node) => foreignToken(identity, PUBLIC_URL, changes);
const stranger = generateKeyPairSync('ed25519').privateKey;

describe('a token', () => {
  const refused: Record<string, { token: () => string | undefined; code: string; status?: number }> = {
    'that is missing': { token: () => undefined, code: 'AGENT_AUTH_HEADER_INVALID' },
    'that is no JWT': { token: () => 'none', code: 'AGENT_JWT_MALFORMED' },
    'that is longer than the limit': {
      token: () => tokenOf({ claims: { more: 'x'.repeat(4000) } }),
      code: 'AGENT_JWT_MALFORMED',
    },
    'with alg none and no signature': {
      token: () => tokenOf({ header: { alg: 'none' }, signature: '' }),
      code: 'AGENT_JWT_MALFORMED',
    },
    'with alg none and a good signature': {
      token: () => tokenOf({ header: { alg: 'none' } }),
      code: 'AGENT_JWT_MALFORMED',
    },
    'with another algorithm': { token: () => tokenOf({ header: { alg: 'HS256' } }), code: 'AGENT_JWT_MALFORMED' },
    'with critical extensions': { token: () => tokenOf({ header: { crit: ['b64'] } }), code: 'AGENT_JWT_MALFORMED' },
    'without a signature': { token: () => tokenOf({ signature: '' }), code: 'AGENT_JWT_SIGNATURE_INVALID' },
    'signed with an unknown key': { token: () => tokenOf({ key: stranger }), code: 'AGENT_JWT_SIGNATURE_INVALID' },
    'signed by another node': { token: () => tokenOf({ key: other.key }), code: 'AGENT_JWT_SIGNATURE_INVALID' },
    'without a subject': { token: () => tokenOf({ claims: { sub: undefined } }), code: 'AGENT_JWT_MISSING_SUBJECT' },
    'of a node that does not exist': {
      token: () => tokenOf({ claims: { sub: '00000000-0000-4000-8000-000000000000' } }),
      code: 'AGENT_NODE_NOT_FOUND',
    },
    'that has expired': {
      token: () => tokenOf({ claims: { iat: now() - 100, nbf: now() - 100, exp: now() - 11 } }),
      code: 'AGENT_JWT_EXPIRED',
    },
    'whose times are in the future': {
      token: () => tokenOf({ claims: { iat: now() + 60, nbf: now() + 60, exp: now() + 120 } }),
      code: 'AGENT_JWT_EXPIRED',
    },
    'with too long a lifetime': { token: () => tokenOf({ claims: { exp: now() + 700 } }), code: 'AGENT_JWT_MALFORMED' },
    'without times': { token: () => tokenOf({ claims: { iat: undefined } }), code: 'AGENT_JWT_MALFORMED' },
    'without an id': { token: () => tokenOf({ claims: { jti: undefined } }), code: 'AGENT_JWT_MALFORMED' },
    'for another use': { token: () => tokenOf({ claims: { tokenUse: 'local' } }), code: 'AGENT_JWT_MALFORMED' },
    'without a use, for something else than a controller': {
      token: () => tokenOf({ claims: { tokenUse: undefined, aud: ['local-api'] } }),
      code: 'AGENT_JWT_MALFORMED',
    },
    'that may have been used before the controller started': {
      token: () => tokenOf({ claims: { iat: now() - 500, nbf: now() - 500, exp: now() + 60 } }),
      code: 'CONTROLLER_AUTH_VERIFICATION_FAILED',
      status: 503,
    },
  };
  for (const [name, { token, code, status = 401 }] of Object.entries(refused))
    test(`${name} is refused: ${code}`, async () => {
      const sent = token();
      for (const replica of [a, b]) {
        const { body, retryAfter, ...reply } = await send(sent, replica);
        expect({ status: reply.status, ...body }).toMatchObject({ status, code, retryable: status === 503 });
        expect(body).toMatchObject({
          name: expect.any(String),
          message: expect.any(String),
          error: expect.any(String),
        });
        expect(retryAfter !== null).toBe(status === 503);
        if (sent && sent.length > 20) expect(JSON.stringify(body)).not.toContain(sent.slice(-20));
      }
    });

  test.each([
    ['of another issuer', { iss: 'https://elsewhere' }],
    ['without a use', { tokenUse: undefined }],
  ])('%s is accepted, as agents of other makes have it', async (_, claims) => {
    expect((await send(tokenOf({ claims }), b)).status).toBe(200);
  });

  test('for another audience is refused by a replica with a configured URL, and accepted by a replica without', async () => {
    const aud = { claims: { aud: ['http://elsewhere.example'] } };
    expect(await send(tokenOf(aud), b)).toMatchObject({ status: 401, body: { code: 'AGENT_JWT_MALFORMED' } });
    expect((await send(tokenOf(aud), a)).status).toBe(200);
  });

  test('is refused for a node without a provisioned agent: AGENT_PUBLIC_KEY_NOT_FOUND', async () => {
    await makeNode('who-nobody');
    const uuid = await until('its uuid', async () => (await stack.node('who-nobody'))?.status?.uuid);
    const { status, body } = await send(tokenOf({}, { uuid, key: stranger }));
    expect({ status, code: body.code }).toEqual({ status: 401, code: 'AGENT_PUBLIC_KEY_NOT_FOUND' });
  });

  test('is refused after its use, at once by the same replica and soon by the other one', async () => {
    const token = tokenOf();
    expect((await send(token)).status).toBe(200);
    expect(await send(token)).toMatchObject({
      status: 401,
      body: { code: 'AGENT_JWT_ALREADY_USED', retryable: false },
    });
    // Each check needs a token of its own: a token that is accepted is used up.
    await until('the other replica to have heard of it', async () => {
      const another = tokenOf();
      await send(another);
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return (await send(another, b)).body.code === 'AGENT_JWT_ALREADY_USED';
    });
  });

  test('is accepted at most once by each of two replicas to which it is sent twenty times at once', async () => {
    const token = tokenOf();
    const replies = await Promise.all(Array.from({ length: 20 }, (_, i) => send(token, i % 2 ? a : b)));
    const accepted = replies.filter(({ status }) => status === 200).length;
    expect(accepted).toBeGreaterThanOrEqual(1);
    expect(accepted).toBeLessThanOrEqual(2);
    for (const { status, body } of replies) if (status !== 200) expect(body.code).toBe('AGENT_JWT_ALREADY_USED');
  });

  test("signed with the key of the agent's local API is refused, and one signed with the node's key is accepted", async () => {
    const identity = JSON.parse(readFileSync(join(agent.dir, 'data', 'identity.json'), 'utf8'));
    const with_ = (key: unknown) => tokenOf({}, { uuid: identity.node.uuid, key: signingKey(key as never) });
    const { status, body } = await send(with_(identity.localKey));
    expect({ status, code: body.code }).toEqual({ status: 401, code: 'AGENT_JWT_SIGNATURE_INVALID' });
    expect((await send(with_(identity.nodeKey))).status).toBe(200);
  });
});

test('exactly one of eight agents that use one provisioning key at once at two replicas is provisioned', async () => {
  await makeNode('who-many');
  const key = await stack.provisioningKey('who-many', a);
  const keys = Array.from({ length: 8 }, () => {
    const { x } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
    return { kty: 'OKP', crv: 'Ed25519', x };
  });
  const show = (publicKey: unknown, replica: ControllerProcess) =>
    foreignCall(replica.url, 'POST', '/agent/provision', { body: { key, type: 1, publicKey } });
  const replies = await Promise.all(keys.map((publicKey, i) => show(publicKey, i % 2 ? a : b)));
  const winner = replies.findIndex(({ status }) => status === 200);
  expect(replies.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404, 404, 404, 404, 404]);
  for (const { status, body } of replies)
    if (status !== 200) expect(body).toMatchObject({ code: 'INVALID_PROVISIONING_KEY', retryable: false });
  // An agent that did not receive the response asks again, at either replica.
  for (const replica of [a, b]) expect((await show(keys[winner], replica)).body).toEqual(replies[winner]?.body);
});

test('one identity on two machines sets the condition DuplicateAgent, and neither machine stops its containers', async () => {
  const wanted = webApplication('twins', 'who-3', await stack.image('twins'), await freePort());
  await stack.apply(wanted);
  await untilReady(stack, 'twins');
  const uuid = (await stack.application('twins'))?.status?.microservices?.[0]?.uuid ?? '-';
  const own = async () => (await stack.containers()).find((one) => one.state === 'running' && one.name.includes(uuid));
  const before = await own();

  // As from a copied disk image: the identity of a machine that runs.
  cpSync(join(agent.dir, 'data', 'identity.json'), join(home, 'data', 'identity.json'));
  const engine = new MemoryEngine({ anyImage: true });
  {
    await using twin = startLocalAgent({ home, engine: () => engine });
    await until('the twin to run it', async () => (await engine.containers()).some(({ state }) => state === 'running'));
    // Both agents get a change, and so both report. Without a change it takes the time of one more long poll.
    const [entry] = wanted.spec.microservices;
    await stack.apply({ ...wanted, spec: { microservices: [Object.assign({ config: { rate: 5 } }, entry)] } });
    const duplicate = await until('the condition', async () => {
      const { conditions = [] } = (await stack.node('who-3'))?.status ?? {};
      return conditions.find(({ type, status }) => type === 'DuplicateAgent' && status === 'True');
    });
    expect(duplicate.message).toContain('2 installations');
    expect(readyOf(await stack.node('who-3'))).toMatchObject({ status: 'False', reason: 'DuplicateAgent' });
    expect(twin.agent.connection.state).toBe('OK');
    expect((await agent.cli('status')).stdout).not.toContain('UNAUTHORIZED');
  }
  expect((await engine.containers()).filter(({ state }) => state === 'running')).toHaveLength(1);
  expect((await own())?.id).toBe(before?.id);
}, 240_000);
