import { SignJWT } from 'jose';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../lib/clock.ts';
import { makeSigningKey } from './_provider.ts';
import { createProviderKeys } from './provider-keys.ts';
import { createExternalVerifier } from './verify.ts';

/**
 * Headers and claims as the documentation of providers that cannot run here has them, with the identifiers exchanged, signed by a key of
 * the test, and verified as at a running controller. It is the fifth second of 1970.
 */

const CLIENT_ID = '00000000-1111-4222-8333-444444444444';
const ENTRA = 'https://login.microsoftonline.com/00000000-aaaa-4bbb-8ccc-dddddddddddd/v2.0';
const clock = { ...systemClock, wall: () => 5_000 };
const key = await makeSigningKey('k');

/** Who a token of these claims is at a controller whose provider calls itself `issuer`; undefined: nobody. */
async function accepted(
  header: { alg: string; kid?: string; typ?: string },
  claims: Record<string, unknown>,
  issuer = claims.iss,
) {
  const keys = createProviderKeys({ load: async () => JSON.stringify({ keys: [key.jwk] }), clock });
  const verifier = createExternalVerifier({
    ...{ issuer: async () => String(issuer), clientId: CLIENT_ID, prefix: 'skerry', keys, clock },
  });
  const token = await new SignJWT(claims).setProtectedHeader(header).sign(key.privateKey);
  return verifier.verify(token, AbortSignal.timeout(5_000));
}

test('Entra: app roles of an access token of version 2 are groups', async () => {
  const claims = {
    aud: CLIENT_ID,
    iss: ENTRA,
    ...{ iat: 1, nbf: 1, exp: 9, aio: 'x', azp: CLIENT_ID, azpacr: '1', ver: '2.0' },
    ...{ name: 'Ann', oid: '0f', preferred_username: 'ann@shore.example', rh: 'x', roles: ['SRE'], scp: 'skerry' },
    ...{ sub: 'AAAA', tid: '00', uti: 'x' },
  };
  expect((await accepted({ typ: 'JWT', alg: 'RS256', kid: 'k' }, claims))?.user).toEqual({
    name: 'skerry:ann@shore.example',
    groups: ['skerry:sre', 'system:authenticated'],
    uid: 'AAAA',
  });
});

test('Entra: groups that are too many for a token are no groups', async () => {
  const claims = {
    ...{ iss: ENTRA, aud: CLIENT_ID, sub: 'AAAA', preferred_username: 'ann@shore.example', exp: 9 },
    _claim_names: { groups: 'src1' },
    _claim_sources: { src1: { endpoint: 'https://graph.windows.net/x' } },
  };
  expect((await accepted({ typ: 'JWT', alg: 'RS256', kid: 'k' }, claims))?.user.groups).toEqual([
    'system:authenticated',
  ]);
});

test('Okta: an access token of a custom server names the person by sub', async () => {
  const claims = {
    ...{ ver: 1, jti: 'AT.x', iss: 'https://shore.okta.example/oauth2/default', aud: CLIENT_ID, iat: 1, exp: 9 },
    ...{ cid: CLIENT_ID, uid: '00u', scp: ['openid', 'groups'], sub: 'ann@shore.example', groups: ['Everyone', 'sre'] },
  };
  expect((await accepted({ kid: 'k', alg: 'RS256' }, claims))?.user).toEqual({
    name: 'skerry:ann@shore.example',
    groups: ['skerry:everyone', 'skerry:sre', 'system:authenticated'],
    uid: 'ann@shore.example',
  });
});

test('Auth0: an access token of an API has claims of its own names only, which are no groups', async () => {
  const claims = {
    ...{
      iss: 'https://shore.auth0.example/',
      sub: 'auth0|1',
      aud: [CLIENT_ID, 'https://shore.auth0.example/userinfo'],
    },
    ...{ iat: 1, exp: 9, azp: CLIENT_ID, scope: 'openid', 'https://shore.example/groups': ['sre'] },
  };
  expect((await accepted({ alg: 'RS256', typ: 'JWT', kid: 'k' }, claims))?.user).toEqual({
    name: 'skerry:auth0|1',
    groups: ['system:authenticated'],
    uid: 'auth0|1',
  });
});

test('Keycloak: an access token passes, its refresh and ID tokens do not', async () => {
  const claims = {
    ...{ iss: 'https://login.example/realms/shore', exp: 9, iat: 1, jti: 'x', aud: [CLIENT_ID, 'account'], sub: 'f-1' },
    ...{ azp: CLIENT_ID, sid: 's' },
    realm_access: { roles: ['offline_access'] },
    resource_access: { [CLIENT_ID]: { roles: ['Admin'] }, account: { roles: ['view-profile'] } },
    ...{ preferred_username: 'ann', email: 'ann@shore.example', email_verified: false },
  };
  const header = { alg: 'RS256', typ: 'JWT', kid: 'k' };
  expect((await accepted(header, { ...claims, typ: 'Bearer' }))?.user.groups).toEqual([
    'skerry:admin',
    'system:authenticated',
  ]);
  for (const typ of ['Refresh', 'Offline', 'ID', 'Logout'])
    expect(await accepted(header, { ...claims, typ })).toBeUndefined();
});

describe('a token that names the person rightly', () => {
  const claims = { iss: ENTRA, aud: CLIENT_ID, sub: 'AAAA', preferred_username: 'ann@shore.example', iat: 1, exp: 9 };
  const header = { typ: 'JWT', alg: 'RS256', kid: 'k' };
  const AUTH0 = 'https://shore.auth0.example/';

  test.each<[string, Record<string, unknown>]>([
    ['an audience that is a list', { aud: ['api://other', CLIENT_ID] }],
    ['the slash at the end of an issuer that has one', { iss: AUTH0 }],
    ['the version of its form', { ver: '2.0' }],
    ['the media type of access tokens', {}],
  ])('counts with %s', async (_, more) => {
    const typ = Object.keys(more).length === 0 ? 'at+jwt' : 'JWT';
    const bearer = await accepted({ ...header, typ }, { ...claims, ...more });
    expect(bearer?.user.name).toBe('skerry:ann@shore.example');
  });

  test.each<[string, Record<string, unknown>, string?]>([
    ['for another client', { aud: 'api://other' }],
    ['for the API of the directory', { aud: 'https://graph.microsoft.com' }],
    ['for a list without the client', { aud: ['a', 'b'] }],
    ['without an audience', { aud: undefined }],
    [
      'of an older form, whose issuer is another',
      { iss: 'https://sts.windows.net/00000000-aaaa-4bbb-8ccc-dddddddddddd/' },
      ENTRA,
    ],
    ['of another tenant', { iss: ENTRA.replace('aaaa', 'bbbb') }, ENTRA],
    ['whose issuer lacks the slash', { iss: AUTH0.slice(0, -1) }, AUTH0],
    ['whose issuer has a slash more', { iss: `${ENTRA}/` }, ENTRA],
    ['that has ended, clocks considered', { exp: -60 }],
    ['of the future, clocks considered', { nbf: 66 }],
    ['without an end', { exp: undefined }],
    ['without a subject', { sub: undefined }],
  ])('is nobody %s', async (_, more, issuer) => {
    expect(await accepted(header, { ...claims, ...more }, issuer)).toBeUndefined();
  });

  test.each<[string, Record<string, unknown>, string[]]>([
    [
      'identifiers of groups',
      { groups: ['0A1B2C3D-0000-4000-8000-000000000001'] },
      ['0a1b2c3d-0000-4000-8000-000000000001'],
    ],
    ['roles before groups', { roles: ['SRE'], groups: ['all'] }, ['sre']],
    ['one role as a text, which is no list', { roles: 'admin', groups: ['all'] }, ['all']],
    ['groups as objects, which are no texts', { groups: [{ id: 1 }, 'ops'] }, ['ops']],
    ['groups as one text with commas', { groups: 'admin,ops' }, []],
    ['groups of the system, behind the prefix', { groups: ['system:masters'] }, ['system:masters']],
  ])('has the groups of %s', async (_, more, groups) => {
    const bearer = await accepted(header, { ...claims, ...more });
    expect(bearer?.user.groups).toEqual([...groups.map((one) => `skerry:${one}`), 'system:authenticated']);
  });
});
