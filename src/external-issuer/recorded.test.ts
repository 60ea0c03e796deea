import { expect, test } from 'vitest';
import { isAccessToken, personOf, providerHeader } from './claims.ts';

/** Headers and claims as the documentation of providers that cannot run here has them, with the identifiers exchanged. */

const CLIENT_ID = '00000000-1111-4222-8333-444444444444';
const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
const accepted = (header: object, claims: Record<string, unknown>) =>
  providerHeader(`${part(header)}.${part(claims)}.AA`) && isAccessToken(claims)
    ? personOf(claims, { clientId: CLIENT_ID, prefix: 'skerry' })
    : undefined;

test('Entra: app roles of an access token of version 2 are groups', () => {
  const claims = {
    aud: CLIENT_ID,
    iss: 'https://login.microsoftonline.com/00000000-aaaa-4bbb-8ccc-dddddddddddd/v2.0',
    ...{ iat: 1, nbf: 1, exp: 9, aio: 'x', azp: CLIENT_ID, azpacr: '1', ver: '2.0' },
    ...{ name: 'Ann', oid: '0f', preferred_username: 'ann@shore.example', rh: 'x', roles: ['SRE'], scp: 'skerry' },
    ...{ sub: 'AAAA', tid: '00', uti: 'x' },
  };
  expect(accepted({ typ: 'JWT', alg: 'RS256', kid: 'k' }, claims)?.user).toEqual({
    name: 'skerry:ann@shore.example',
    groups: ['skerry:sre', 'system:authenticated'],
    uid: 'AAAA',
  });
});

test('Entra: groups that are too many for a token are no groups', () => {
  const claims = {
    ...{ aud: CLIENT_ID, sub: 'AAAA', preferred_username: 'ann@shore.example', exp: 9 },
    _claim_names: { groups: 'src1' },
    _claim_sources: { src1: { endpoint: 'https://graph.windows.net/x' } },
  };
  expect(accepted({ typ: 'JWT', alg: 'RS256', kid: 'k' }, claims)?.user.groups).toEqual(['system:authenticated']);
});

test('Okta: an access token of a custom server names the person by sub', () => {
  const claims = {
    ...{ ver: 1, jti: 'AT.x', iss: 'https://shore.okta.example/oauth2/default', aud: CLIENT_ID, iat: 1, exp: 9 },
    ...{ cid: CLIENT_ID, uid: '00u', scp: ['openid', 'groups'], sub: 'ann@shore.example', groups: ['Everyone', 'sre'] },
  };
  expect(accepted({ kid: 'k', alg: 'RS256' }, claims)?.user).toEqual({
    name: 'skerry:ann@shore.example',
    groups: ['skerry:everyone', 'skerry:sre', 'system:authenticated'],
    uid: 'ann@shore.example',
  });
});

test('Auth0: an access token of an API has claims of its own names only, which are no groups', () => {
  const claims = {
    ...{
      iss: 'https://shore.auth0.example/',
      sub: 'auth0|1',
      aud: [CLIENT_ID, 'https://shore.auth0.example/userinfo'],
    },
    ...{ iat: 1, exp: 9, azp: CLIENT_ID, scope: 'openid', 'https://shore.example/groups': ['sre'] },
  };
  expect(accepted({ alg: 'RS256', typ: 'JWT', kid: 'k' }, claims)?.user).toEqual({
    name: 'skerry:auth0|1',
    groups: ['system:authenticated'],
    uid: 'auth0|1',
  });
});

test('Keycloak: an access token passes, its refresh and ID tokens do not', () => {
  const claims = {
    ...{ exp: 9, iat: 1, jti: 'x', aud: [CLIENT_ID, 'account'], sub: 'f-1', azp: CLIENT_ID, sid: 's' },
    realm_access: { roles: ['offline_access'] },
    resource_access: { [CLIENT_ID]: { roles: ['Admin'] }, account: { roles: ['view-profile'] } },
    ...{ preferred_username: 'ann', email: 'ann@shore.example', email_verified: false },
  };
  const header = { alg: 'RS256', typ: 'JWT', kid: 'k' };
  expect(accepted(header, { ...claims, typ: 'Bearer' })?.user.groups).toEqual(['skerry:admin', 'system:authenticated']);
  for (const typ of ['Refresh', 'Offline', 'ID', 'Logout'])
    expect(accepted(header, { ...claims, typ })).toBeUndefined();
});
