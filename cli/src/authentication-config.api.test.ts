import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { makeCertificate } from '../../hack/certificate.ts';
import { startControlPlane } from '../../hack/control-plane.ts';
import { DEX_CLIENT, DEX_PASSWORD, DEX_USERS, startDex } from '../../hack/dex.ts';
import { startProvider } from '../../src/external-issuer/_provider.ts';
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
const issuer = await startProvider({
  tls: { cert: readFileSync(tls.cert, 'utf8'), key: readFileSync(tls.key, 'utf8') },
});
atEnd(() => issuer[Symbol.asyncDispose]());
const issuerCa = join(dir, 'issuer', 'ca.pem');

const config = await printed(dex.issuer, '--external', '--client', DEX_CLIENT.clientId, '--ca', dex.caFile);
const embedded = await printed(issuer.issuer, '--client', 'skerry', '--ca', issuerCa);
config.jwt.push(...embedded.jwt);
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

describe('the API server with the configuration of another provider', () => {
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

describe('the rules for another provider', () => {
  // A second API server would take half a minute: the claims that Dex cannot say are compared as texts of the configuration.
  test('name a person as the controller does', async () => {
    const { jwt } = await printed('https://login.example', '--external', '--client', "o'neil", '--prefix', '');
    const [{ claimMappings, issuer: named }] = jwt;
    expect(named).toEqual({ url: 'https://login.example', audiences: ["o'neil"] });
    expect(claimMappings.username.expression).toMatch(/^\['preferred_username', 'username', 'email', 'sub'\]\.filter/);
    expect(claimMappings.groups.expression).toContain("resource_access[?'o\\'neil']");
  });

  test('are of the version that was asked for, and refuse http', async () => {
    expect(await printed('https://login.example/oidc', '--api-version', 'v1beta1')).toMatchObject({
      apiVersion: 'apiserver.config.k8s.io/v1beta1',
      kind: 'AuthenticationConfiguration',
    });
    expect(await skerry('authentication-config', 'http://login.example')).toMatchObject({ code: 2 });
  });
});
