import { createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { atEnd } from '../../../testing/at-end.ts';
import { plainView } from '../_web.ts';
import { until } from '../engines/_contract.ts';
import { newKey, type PrivateKey, publicKeyObject } from '../state/identity.ts';
import { revocationListSchema } from '../state/revocations.ts';
import { openRows } from '../state/rows.ts';
import { signClaims, signingKey, signToken } from '../state/token.ts';
import { openControl } from './_control.ts';
import { LocalAgent } from './_local-agent.ts';
import { openText } from './_text-client.ts';
import { localApi } from './routes.ts';
import { onAllListeners, WAYS } from './server/_listeners.ts';

/** Tokens of the local API: what counts for none on any listener, and what was revoked. */

const [web, db] = [randomUUID(), randomUUID()];
const rules = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }];
const account = (uuid: string, name: string) =>
  plainView({ uuid, name, serviceAccount: { name, rules, roleRef: { kind: 'Role', name: 'all' } } });
const local = await LocalAgent.start();
atEnd(() => local[Symbol.asyncDispose]());
await local.provision(account(web, 'web'), account(db, 'db'));
const ask = await onAllListeners(local, localApi({ agent: local.agent } as never));
const adminToken = () => readFileSync(local.config.tokenFile, 'utf8').trim();

beforeEach(() => {
  // A test may have revoked the one before.
  local.token = adminToken();
});

const tokenOf = (uuid: string) =>
  Buffer.from(local.files.read(`serviceaccounts/${uuid}`)?.get('token') ?? '').toString();
const seconds = () => Math.floor(Date.now() / 1000);
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const ISSUER = 'https://skerry-agent.default.svc.bridge.local';

const CLAIMS = {
  sub: 'system:serviceaccount:shop:web',
  iss: ISSUER,
  aud: [ISSUER],
  tokenUse: 'serviceaccount',
  'agent.skerry.dev': { microservice: { application: 'shop', name: 'web', uuid: web } },
};
const ADMIN = { sub: 'system:agentadmin:bootstrap', iss: ISSUER, aud: ['skerry-agent://api/v1'], tokenUse: 'agentapi' };

/** Tokens that look like valid ones of these claims. */
const FORGERIES: Record<string, (claims: typeof CLAIMS | typeof ADMIN, key: PrivateKey) => string> = {
  'without a signature': (claims) => `${encode({ alg: 'none' })}.${encode({ ...claims, exp: seconds() + 60 })}.`,
  'with the algorithm none and the signature of another token': (claims, key) => {
    const [, , signature] = signToken(signingKey(key), claims, seconds(), 60).split('.');
    return `${encode({ alg: 'none' })}.${encode({ ...claims, exp: seconds() + 60 })}.${signature}`;
  },
  'signed with the public key as a shared secret': (claims, key) => {
    const text = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ ...claims, exp: seconds() + 60 })}`;
    const secrets = [key.x, publicKeyObject(key).export({ type: 'spki', format: 'pem' })];
    return `${text}.${createHmac('sha256', secrets[1] as string)
      .update(text)
      .digest('base64url')}`;
  },
  'signed with another key': (claims) => signToken(signingKey(newKey()), claims, seconds(), 60),
  'of the controller': (claims) =>
    signToken(
      signingKey(local.agent.identity.nodeKey ?? newKey()),
      { ...claims, tokenUse: 'controller' },
      seconds(),
      60,
    ),
  'for the controller, signed with the local key': (claims, key) =>
    signToken(signingKey(key), { ...claims, tokenUse: 'controller' }, seconds(), 60),
  'of another issuer': (claims, key) =>
    signToken(signingKey(key), { ...claims, iss: 'https://other.example' }, seconds(), 60),
  'for another audience': (claims, key) => signToken(signingKey(key), { ...claims, aud: ['other'] }, seconds(), 60),
  'with the audience as a text': (claims, key) =>
    signToken(signingKey(key), { ...claims, aud: claims.aud[0] as never }, seconds(), 60),
  'that has expired': (claims, key) => signToken(signingKey(key), claims, seconds() - 120, 60),
  'that is not valid yet': (claims, key) => signToken(signingKey(key), claims, seconds() + 600, 60),
  'that never expires': (claims, key) => {
    const { exp: _, ...rest } = { ...claims, exp: 0, iat: seconds(), nbf: seconds(), jti: randomUUID() };
    return signClaims(signingKey(key), rest as never);
  },
};

const CONFIG = '/v1/microservices/config';
const WHO = '/v1/auth/whoami';

describe('a token', () => {
  for (const [name, forge] of Object.entries(FORGERIES))
    test(`${name} counts for none on any listener`, async () => {
      const key = local.agent.tokens.key;
      for (const way of WAYS)
        for (const claims of [CLAIMS, ADMIN]) {
          const token = forge(claims, key);
          for (const path of [CONFIG, WHO, '/v1/system/status'])
            expect([way, path, (await ask(way, 'GET', path, { token })).status]).toEqual([way, path, 401]);
        }
    });

  test('is served on every listener until it is revoked by its id', async () => {
    const token = tokenOf(web);
    const { jti } = local.agent.tokens.verify(token) ?? {};
    for (const way of WAYS) expect((await ask(way, 'GET', WHO, { token })).status).toBe(200);
    expect((await local.ask('POST', '/v1/auth/tokens/revoke', { jti })).status).toBe(200);
    for (const way of WAYS)
      for (const path of [WHO, CONFIG, '/v1/nonsense'])
        expect((await ask(way, 'GET', path, { token })).status).toBe(401);
    // The container has another one at once, and the other microservice its own.
    for (const present of [tokenOf(web), tokenOf(db)])
      expect((await ask('bridge', 'GET', WHO, { token: present })).status).toBe(200);
  });
});

const revoke = (body: object) => local.ask('POST', '/v1/auth/tokens/revoke', body);
const status = async (token: string) => (await local.ask('GET', WHO, undefined, token)).status;

describe('a revocation', () => {
  test('by subject ends all its tokens that were made until then, and no later one', async () => {
    const older = tokenOf(web);
    const { jti } = local.agent.tokens.verify(older) ?? {};
    await revoke({ jti });
    const newer = tokenOf(web);
    await revoke({ subject: CLAIMS.sub });
    await revoke({ subject: CLAIMS.sub });
    expect([await status(older), await status(newer), await status(tokenOf(web)), await status(tokenOf(db))]).toEqual([
      401, 401, 200, 200,
    ]);
  });

  test('by subject holds whatever the clock says', async () => {
    const token = tokenOf(web);
    await revoke({ subject: CLAIMS.sub });
    const { key } = local.agent.tokens;
    // The same token as an agent would have made it when its clock was a day ahead, or a minute behind.
    for (const at of [seconds() + 5, seconds() - 30])
      expect(await status(signToken(signingKey(key), CLAIMS, at, 3600))).toBe(401);
    expect(await status(token)).toBe(401);
  });

  test('needs an id or a subject', async () => {
    for (const body of [{}, { jti: '' }, { subject: '' }, { jti: 'x y' }, { token: 'x' }])
      expect((await revoke(body)).status).toBe(400);
    expect((await revoke({})).body.error?.message).toBe('jti: give jti, subject, or both');
    expect((await revoke({ token: 'x' })).body.error?.message).toBe('token is no member of this body');
    const twice = { token: local.token, body: '{"jti":"aaaaaaaa","subject":"s","jti":"bbbbbbbb"}' };
    const answer = await ask('socket', 'POST', '/v1/auth/tokens/revoke', twice);
    expect([answer.status, answer.body.error?.message]).toEqual([400, 'the body has the member "jti" twice']);
  });

  test('leaves the command line a way where it ends the admin token: another one is written at once', async () => {
    const { jti } = local.agent.tokens.verify(local.token) ?? {};
    const { body } = await revoke({ jti });
    expect(body.data).toEqual({ status: 'ok', adminTokenRenewed: true, keyReplaced: false });
    expect(await status(local.token)).toBe(401);
    expect(await local.cli('status')).toMatchObject({ code: 0 });
  });

  test('leaves the command line a way where it ends all admin tokens', async () => {
    await revoke({ subject: `system:agentadmin:${local.agent.identity.node?.uuid}` });
    await revoke({ subject: 'system:agentadmin:bootstrap' });
    expect(await status(local.token)).toBe(401);
    expect(await local.cli('status')).toMatchObject({ code: 0 });
  });

  test('ends the open connections of its token, and no others', async () => {
    const [mine, other] = [await openControl(local.port, tokenOf(web)), await openControl(local.port, tokenOf(db))];
    const { jti } = local.agent.tokens.verify(tokenOf(web)) ?? {};
    await revoke({ jti });
    await until('the end', () => mine.isClosed);
    other.ping();
    await until('an answer', () => other.received.length > 0);
    expect(other.isClosed).toBe(false);
    // A microservice whose connection ended opens another one with its new token.
    expect((await openControl(local.port, tokenOf(web))).isClosed).toBe(false);
  });

  test('ends the exec session, the log stream and the followed log of the admin', async () => {
    const where = { socket: local.config.socket, token: local.token };
    const { body } = await local.ask('POST', '/v1/ms/web/exec/sessions', { command: ['cat'] });
    const { wsUrl } = body.data as { wsUrl: string };
    const sockets = [await openText(where, wsUrl), await openText(where, '/v1/system/logs:stream')];
    const headers = { authorization: `Bearer ${local.token}` };
    const asked = request({ socketPath: local.config.socket, path: '/v1/system/logs?follow=true', headers }).end();
    const [lines] = (await once(asked, 'response')) as [IncomingMessage];
    const ended = new Promise((resolve) =>
      lines
        .on('close', resolve)
        .on('error', () => {})
        .resume(),
    );
    for (const name of [`${local.agent.identity.node?.uuid}`, 'bootstrap'])
      await local.ask('POST', '/v1/auth/tokens/revoke', { subject: `system:agentadmin:${name}` }, adminToken());
    await Promise.all([...sockets.map(({ closed }) => closed), ended]);
    await until('the end of the program', () => local.engine.programs.every(({ hasEnded }) => hasEnded));
    expect(await local.cli('status')).toMatchObject({ code: 0 });
  });

  test('ends a request whose body is still on its way', async () => {
    const token = tokenOf(web);
    const head = ['POST /v1/ms/nobody/kill HTTP/1.1', 'host: localhost', `authorization: Bearer ${token}`];
    const socket = connect({ host: '127.0.0.1', port: local.port });
    atEnd(() => socket.destroy());
    let said = '';
    socket.on('data', (piece: Buffer) => {
      said += piece.toString();
    });
    socket.write(
      `${[...head, 'content-type: application/json', 'content-length: 2', 'expect: 100-continue'].join('\r\n')}\r\n\r\n`,
    );
    await until('the agent to wait for the body', () => said.includes('100 Continue'));
    const { jti } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    expect((await local.ask('POST', '/v1/auth/tokens/revoke', { jti })).status).toBe(200);
    socket.write('{}');
    await until('the answer', () => said.includes('HTTP/1.1 401'));
  });

  test('shows in the list of tokens, which has no token', async () => {
    const token = tokenOf(web);
    const { jti } = local.agent.tokens.verify(token) ?? {};
    const unknown = randomUUID();
    await revoke({ jti });
    await revoke({ jti: unknown });
    const { body } = await local.ask('GET', '/v1/auth/tokens');
    const items = (body.data as { items: Record<string, unknown>[] }).items;
    expect(items.find((item) => item.jti === jti)).toMatchObject({
      ...{ id: jti, tokenUse: 'serviceaccount', principalType: 'serviceAccount', subject: CLAIMS.sub, alg: 'EdDSA' },
      ...{ microserviceUuid: web, applicationName: 'shop', serviceAccountName: 'web', rbacVersion: 'v1' },
      roleRef: { kind: 'Role', name: 'all' },
      rulesByGroup: { '*': [{ resources: ['*'], verbs: ['*'] }] },
      ...{ issuer: ISSUER, audience: [ISSUER], revokedAt: expect.stringMatching(/^20.*Z$/) },
    });
    expect(items.find((item) => item.rotatedFromJti === jti)).toMatchObject({ microserviceUuid: web });
    expect(items.find((item) => item.principalType === 'admin')).toMatchObject({
      subject: expect.stringMatching(/^system:agentadmin:/),
    });
    expect(items.find((item) => item.jti === unknown)).toEqual({
      id: unknown,
      jti: unknown,
      revokedAt: expect.any(String),
    });
    expect(JSON.stringify(body)).not.toContain(token.split('.')[2]);
  });

  test('cannot be made by a microservice, whatever its role', async () => {
    const answer = await local.ask('POST', '/v1/auth/tokens/revoke', { jti: randomUUID() }, tokenOf(web));
    expect(answer.status).toBe(403);
    expect((await local.ask('GET', '/v1/auth/tokens', undefined, tokenOf(web))).status).toBe(403);
  });
});

describe('the command line', () => {
  test('lists tokens with their roles, ends one by its id, and shows that it is revoked', async () => {
    const { jti } = local.agent.tokens.verify(tokenOf(db)) ?? {};
    const rowOf = async () => (await local.cli('auth', 'tokens')).out.split('\n').find((row) => row.includes(`${jti}`));
    expect(await rowOf()).toMatch(/^system:serviceaccount:shop:db +all +serviceaccount +\S+ +20\S+Z *$/);
    expect(await local.cli('auth', 'revoke', `${jti}`)).toMatchObject({ code: 0, out: 'Revoked\n' });
    expect(await rowOf()).toMatch(/20\S+Z +20\S+Z$/);
    expect(await status(tokenOf(db))).toBe(200);
  });

  test('ends a token and the tokens of a subject in one call, and no others', async () => {
    const [byId, bySubject] = [tokenOf(web), tokenOf(db)];
    const { jti } = local.agent.tokens.verify(byId) ?? {};
    const done = await local.cli(
      'auth',
      'revoke',
      `${jti}`,
      '--subject',
      'system:serviceaccount:shop:db',
      '-o',
      'json',
    );
    expect(done.code).toBe(0);
    expect(JSON.parse(done.out)).toEqual({ status: 'ok', adminTokenRenewed: false, keyReplaced: false });
    const later = [tokenOf(web), tokenOf(db)];
    expect(await Promise.all([byId, bySubject, ...later].map(status))).toEqual([401, 401, 200, 200]);
    expect(await local.cli('auth', 'revoke', '--subject', 'system:serviceaccount:shop:nobody')).toMatchObject({
      code: 0,
    });
    expect(await Promise.all(later.map(status))).toEqual([200, 200]);
  });

  test('ends its own admin token, and the next command has another one', async () => {
    const { jti } = local.agent.tokens.verify(adminToken()) ?? {};
    const former = adminToken();
    expect(await local.cli('auth', 'revoke', `${jti}`)).toMatchObject({ code: 0, out: 'Revoked\n' });
    expect(await status(former)).toBe(401);
    expect((await local.cli('auth', 'tokens')).out).toMatch(/system:agentadmin:/);
  });

  test('ends all tokens of a subject, and needs an id or a subject', async () => {
    const token = tokenOf(db);
    expect(await local.cli('auth', 'revoke')).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringContaining('--subject'),
    });
    expect(await local.cli('auth', 'revoke', 'x y')).toMatchObject({ code: 2, out: '' });
    const subject = 'system:serviceaccount:shop:db';
    expect(await local.cli('auth', 'revoke', '--subject', subject, '-o', 'json')).toMatchObject({ code: 0 });
    expect(await status(token)).toBe(401);
  });
});

test('a revocation that cannot be saved is 503, and revokes nothing', async () => {
  const folder = join(local.folder, 'tokens');
  const rows = openRows(folder, revocationListSchema);
  await using other = await LocalAgent.start({ deps: { revocations: rows } });
  writeFileSync(folder, 'a file is in the way');
  const { jti } = other.agent.tokens.verify(other.token) ?? {};
  const answer = await other.ask('POST', '/v1/auth/tokens/revoke', { jti });
  expect([answer.status, answer.body.error?.code]).toEqual([503, 'UNAVAILABLE']);
  expect(answer.body.error?.message).toMatch(/nothing was revoked/);
  expect((await other.ask('GET', WHO)).status).toBe(200);
});
