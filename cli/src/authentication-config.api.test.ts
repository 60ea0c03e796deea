import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { makeCertificate } from '../../hack/certificate.ts';
import { startControlPlane } from '../../hack/control-plane.ts';
import { DEX_CLIENT, DEX_PASSWORD, DEX_USERS, startDex } from '../../hack/dex.ts';
import { startProvider } from '../../src/external-issuer/_provider.ts';
import { isAccessToken, personOf } from '../../src/external-issuer/claims.ts';
import { createProviderFetch } from '../../src/external-issuer/fetch.ts';
import { createExternalProvider } from '../../src/external-issuer/provider.ts';
import type { KubeClient } from '../../src/kube/mod.ts';
import { silentLog } from '../../src/lib/log.ts';
import { atEnd } from '../../testing/at-end.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createPlugin } from './_plugin.ts';

/**
 * A real API server with the printed configuration, in both forms: of Dex, and of an issuer that signs what a test says, as the embedded
 * one does.
 */

const dir = temporaryFolder();
const skerry = createPlugin({} as KubeClient, 'skerry');
const printed = async (...args: string[]) => {
  const { code, out, err } = await skerry('authentication-config', ...args);
  expect(err).toBe('');
  expect(code).toBe(0);
  return parse(out);
};

const dex = await startDex({ dir: join(dir, 'dex') });
atEnd(() => dex.stop());
const tls = makeCertificate(join(dir, 'issuer'), ['localhost']);
const tlsOfIssuers = { cert: readFileSync(tls.cert, 'utf8'), key: readFileSync(tls.key, 'utf8') };
const startIssuer = async () => {
  const issuer = await startProvider({ tls: tlsOfIssuers });
  atEnd(() => issuer[Symbol.asyncDispose]());
  return issuer;
};
const [issuer, unprefixed, outside] = [await startIssuer(), await startIssuer(), await startIssuer()];

const config = await printed(dex.issuer, '--external', '--client', DEX_CLIENT.clientId, '--ca', dex.caFile);
const known = ['--client', 'skerry', '--ca', join(dir, 'issuer', 'ca.pem')];
for (const more of [
  await printed(issuer.issuer, ...known),
  await printed(unprefixed.issuer, ...known, '--prefix', ''),
  await printed(outside.issuer, ...known, '--external'),
])
  config.jwt.push(...more.jwt);
const file = join(dir, 'authentication.yaml');
writeFileSync(file, stringify(config));
const cluster = await startControlPlane({
  dir: join(dir, 'cluster'),
  controllerManager: false,
  apiServerFlags: ['--authentication-config', file],
});
atEnd(() => cluster.stop());

/** Who the API server says a token is; the status where it is nobody. */
function whoIs(token: string): Promise<{ username: string; groups: string[]; uid?: string } | number> {
  const ca = readFileSync(cluster.caFile);
  const body = JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' });
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const url = `${cluster.url}/apis/authentication.k8s.io/v1/selfsubjectreviews`;
    request(url, { method: 'POST', ca, headers }, async (response) => {
      let text = '';
      for await (const chunk of response) text += String(chunk);
      resolve(response.statusCode === 201 ? JSON.parse(text).status.userInfo : (response.statusCode ?? 0));
    })
      .once('error', reject)
      .end(body);
  });
}
const pollWho = (token: string) => expect.poll(() => whoIs(token), { timeout: 30_000, interval: 100 });

describe('the API server with the configuration of the embedded issuer', () => {
  const claims = { token_use: 'access', preferred_username: 'ann@shore.example', groups: ['sre'] };
  const sign = (more: object = {}) => issuer.sign({ ...claims, ...more });

  test('knows the person of an access token by the names of the roles', async () => {
    await pollWho(await sign()).toMatchObject({
      username: 'skerry:ann@shore.example',
      uid: 'u-1',
      groups: ['skerry:sre', 'system:authenticated'],
    });
    expect(await whoIs(await sign({ groups: undefined }))).toMatchObject({ groups: ['system:authenticated'] });
  });

  test.each<[string, object]>([
    ['to refresh', { token_use: 'refresh' }],
    ['that is an ID token', { token_use: undefined }],
    ['of a person who has to change the password', { password_change_required: true }],
    ['for another client', { aud: 'other' }],
    ['that has ended', { exp: Math.floor(Date.now() / 1000) - 60 }],
  ])('refuses a token %s', async (_, more) => {
    await pollWho(await sign()).toMatchObject({ uid: 'u-1' });
    expect(await whoIs(await sign(more))).toBe(401);
  });
});

describe('names of the system', () => {
  const claims = { token_use: 'access', preferred_username: 'ann', groups: ['sre'] };

  test.each([
    ['as a name', { preferred_username: 'system:admin' }],
    ['as a group', { groups: ['sre', 'system:masters'] }],
  ])('are refused %s, where nothing is put before them', async (_, more) => {
    await pollWho(await unprefixed.sign(claims)).toMatchObject({
      username: 'ann',
      groups: ['sre', 'system:authenticated'],
    });
    expect(await whoIs(await unprefixed.sign({ ...claims, ...more }))).toBe(401);
  });
});

describe('the API server knows a person of another provider as the controller does', () => {
  test.each<[string, Record<string, unknown>]>([
    ['by preferred_username', { preferred_username: 'ann', username: 'b', email: 'c@x', groups: ['SRE', 'b'] }],
    ['by username', { username: 'b', email: 'c@x' }],
    ['by a verified address', { email: 'c@x', email_verified: true }],
    ['not by an address that is not verified', { email: 'c@x', email_verified: false }],
    ['by no text that is empty or none', { preferred_username: '', username: 7 }],
    ['with the roles of the client', { resource_access: { skerry: { roles: ['A'] } }, roles: ['b'], groups: ['c'] }],
    ['with roles', { resource_access: { account: { roles: ['x'] } }, roles: ['B'], groups: ['c'] }],
    ['with groups, where roles are no list', { roles: 'admin', groups: ['C', 1, ''] }],
    ['with groups, where there are no roles', { roles: [], groups: ['c'] }],
    ['without groups', {}],
    ['but not by a token to refresh', { typ: 'Refresh' }],
    ['but not by an ID token', { token_use: 'id' }],
  ])('%s', async (_, more) => {
    await pollWho(await outside.sign({ preferred_username: 'ready' })).toMatchObject({ username: 'skerry:ready' });
    const claims = { sub: 'u-1', ...more };
    const bearer = isAccessToken(claims) ? personOf(claims, { clientId: 'skerry', prefix: 'skerry' }) : undefined;
    const { name: username, groups, uid } = bearer?.user ?? {};
    const found = await whoIs(await outside.sign(more));
    if (bearer) expect(found).toMatchObject({ username, groups, uid });
    else expect(found).toBe(401);
  });
});

describe('the API server with the configuration of Dex', () => {
  const fetch = createProviderFetch({ caFile: dex.caFile, env: {} });
  const provider = createExternalProvider({
    ...{ ...DEX_CLIENT, issuer: dex.issuer, allowsHttp: false, prefix: 'skerry', fetch, log: silentLog },
  });
  atEnd(async () => {
    provider[Symbol.dispose]();
    await fetch[Symbol.asyncDispose]();
  });

  test.each(['ann', 'bob'] as const)(
    'knows %s of Dex as the controller does, and not by the refresh token',
    async (user) => {
      const signal = AbortSignal.timeout(20_000);
      const { accessToken, refreshToken = '' } = await provider.password(
        DEX_USERS[user].email,
        DEX_PASSWORD,
        undefined,
        signal,
      );
      const bearer = await provider.verify(accessToken, signal);
      expect(bearer?.user.groups).toEqual([
        ...DEX_USERS[user].groups.map((one) => `skerry:${one.toLowerCase()}`),
        'system:authenticated',
      ]);
      await pollWho(accessToken).toMatchObject({
        username: bearer?.user.name,
        groups: bearer?.user.groups,
        uid: bearer?.user.uid,
      });
      expect(await whoIs(refreshToken)).toBe(401);
    },
  );
});

describe('the configuration', () => {
  test('is of the version that was asked for, and never for http', async () => {
    expect(await printed('https://login.example/oidc', '--api-version', 'v1beta1')).toMatchObject({
      apiVersion: 'apiserver.config.k8s.io/v1beta1',
      kind: 'AuthenticationConfiguration',
    });
    expect(await skerry('authentication-config', 'http://login.example')).toMatchObject({ code: 2 });
  });
});
