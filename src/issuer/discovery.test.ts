import { describe, expect, it } from 'vitest';
import { atEnd } from '../../testing/at-end.ts';
import { startIssuer } from './_issuer.ts';

const issuer = 'https://plant.example/base/oidc';

/** The whole document: a member that the library adds is a feature that somebody has to have wanted. */
const DOCUMENT = {
  issuer,
  authorization_endpoint: `${issuer}/auth`,
  token_endpoint: `${issuer}/token`,
  userinfo_endpoint: `${issuer}/me`,
  jwks_uri: `${issuer}/jwks`,
  end_session_endpoint: `${issuer}/session/end`,
  revocation_endpoint: `${issuer}/revoke`,
  authorization_response_iss_parameter_supported: true,
  claim_types_supported: ['normal'],
  claims_parameter_supported: false,
  claims_supported: ['sub', 'email', 'preferred_username', 'groups', 'sid', 'auth_time', 'iss'],
  code_challenge_methods_supported: ['S256'],
  grant_types_supported: ['authorization_code'],
  id_token_signing_alg_values_supported: ['RS256'],
  request_uri_parameter_supported: false,
  response_modes_supported: ['query'],
  response_types_supported: ['code'],
  scopes_supported: ['openid', 'email', 'profile', 'groups'],
  subject_types_supported: ['public'],
  token_endpoint_auth_methods_supported: ['client_secret_basic'],
};

describe('the discovery document', () => {
  it.each(['openid-configuration', 'oauth-authorization-server'])(
    '%s has the code flow and nothing beside it',
    async (name) => {
      await using provider = await startIssuer();
      const { status, text } = await provider.ask(`/oidc/.well-known/${name}`);
      expect(status).toBe(200);
      expect(JSON.parse(text)).toEqual(DOCUMENT);
    },
  );

  it('names a client without a secret while the console has one', async () => {
    await using provider = await startIssuer({ settings: { consoleClientId: 'console' } });
    const { text } = await provider.ask('/oidc/.well-known/openid-configuration');
    expect(JSON.parse(text)).toEqual({
      ...DOCUMENT,
      token_endpoint_auth_methods_supported: ['client_secret_basic', 'none'],
    });
  });

  const provider = startIssuer();
  atEnd(async () => (await provider)[Symbol.asyncDispose]());
  it.each([
    ['/oidc/reg', 'POST'],
    ['/oidc/device/auth', 'POST'],
    ['/oidc/device', 'GET'],
    ['/oidc/request', 'POST'],
    ['/oidc/token/introspection', 'POST'],
    ['/oidc/token/revocation', 'POST'],
    ['/oidc/backchannel', 'POST'],
    ['/oidc/challenge', 'POST'],
    ['/oidc/interaction/uid', 'GET'],
    ['/oidc/auth', 'POST'],
  ])('leaves out %s, which answers %s by 404 or 405', async (path, method) => {
    const { status } = await (await provider).ask(path, {
      method,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    expect([404, 405]).toContain(status);
  });
});
