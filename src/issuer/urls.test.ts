import { request } from 'node:http';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { atEnd } from '../../testing/at-end.ts';
import { type Answer, startIssuer } from './_issuer.ts';
import { belowMount } from './mount-path.ts';
import { errorPage } from './pages.ts';

describe('a request target', () => {
  it.each([
    ['/oidc/token', '', '/token'],
    ['/oidc/token?a=b', '', '/token?a=b'],
    ['/base/oidc/token', '/base', '/token'],
    ['/oidc/token', '/base', '/token'],
    ['/oidc', '', '/'],
    ['/oidc?a', '', '/?a'],
    ['/oidc//evil.example/x', '', '//evil.example/x'],
    ['/oidcx', '', undefined],
    ['//oidc/token', '', undefined],
    ['/other/oidc/token', '/base', undefined],
    ['http://evil.example/oidc/token', '', undefined],
    ['*', '', undefined],
    ['', '', undefined],
  ])('%j with the base path %j is %j of the provider', (target, basePath, rest) => {
    expect(belowMount(target, basePath)).toBe(rest);
  });
});

describe('the URLs of the provider', () => {
  const provider = startIssuer();
  const local = startIssuer({ publicUrl: 'http://127.0.0.1:51121' });
  atEnd(async () => (await provider)[Symbol.asyncDispose]());
  atEnd(async () => (await local)[Symbol.asyncDispose]());

  /** Everything that an answer says. */
  const said = ({ headers, text }: Answer) => JSON.stringify(headers) + text;
  const WORD = 'evil.example';
  const hosts = fc.constantFrom(
    WORD,
    `${WORD}:443`,
    `user@${WORD}`,
    `plant.example@${WORD}`,
    `plant.example, ${WORD}`,
    `[::1]@${WORD}`,
  );
  const names = fc.constantFrom(
    'x-forwarded-host',
    'x-forwarded-server',
    'x-original-host',
    'x-host',
    'forwarded',
    'x-forwarded-prefix',
    'x-original-url',
    'x-rewrite-url',
    'origin',
    'referer',
  );
  const values = fc.oneof(
    hosts,
    hosts.map((host) => `for=1.2.3.4;host=${host};proto=http`),
    hosts.map((host) => `http://${host}/`),
  );
  const headers = fc
    .tuple(hosts, fc.dictionary(names, values), fc.constantFrom('http', 'https', 'javascript', `http://${WORD}`))
    .map(([host, more, proto]) => ({ host, ...more, 'x-forwarded-proto': proto }));
  const targets = fc.constantFrom(
    '/oidc/.well-known/openid-configuration',
    '/oidc/.well-known/oauth-authorization-server',
    '/base/oidc/.well-known/openid-configuration',
    '/oidc/auth',
    '/oidc/auth/uid',
    '/oidc/me',
    '/oidc/jwks',
    '/oidc/session/end',
    '/oidc/session/end/success',
    '/oidc/none',
    `/oidc//${WORD}/`,
  );

  it('never name a host of a request', async () => {
    const { ask, authorize } = await provider;
    const property = fc.asyncProperty(targets, headers, async (target, given) => {
      const path = target.includes(WORD) ? '/' : target;
      for (const answer of [
        await ask(path, { headers: given }),
        await ask(target, { headers: given }),
        await authorize({}, given),
      ]) {
        const { 'access-control-allow-origin': cors, ...others } = answer.headers;
        expect(cors).toBeUndefined();
        expect(said({ ...answer, headers: others })).not.toContain(WORD);
        expect(said(answer)).not.toContain('http://plant');
      }
    });
    await fc.assert(property, { numRuns: 60 });
  });

  it('begin with the public URL in plain HTTP as well', async () => {
    const { ask, authorize } = await local;
    const { text } = await ask('/oidc/.well-known/openid-configuration', { headers: { 'x-forwarded-proto': 'https' } });
    expect(JSON.parse(text).token_endpoint).toBe('http://127.0.0.1:51121/oidc/token');
    const begun = await authorize();
    expect(begun.headers.location).toMatch(/^http:\/\/127\.0\.0\.1:51121\/login\/oauth\?interaction=/);
    expect(JSON.stringify(begun.headers['set-cookie'])).not.toMatch(/secure/i);
  });

  it('have nothing of an absolute request target', async () => {
    const { port } = await provider;
    const status = await new Promise((resolve, reject) => {
      const path = `http://${WORD}/oidc/.well-known/openid-configuration`;
      request({ port, host: '127.0.0.1', path }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
        .on('error', reject)
        .end();
    });
    expect(status).toBe(418);
  });
});

describe('a page of the provider', () => {
  const provider = startIssuer();
  atEnd(async () => (await provider)[Symbol.asyncDispose]());

  it('shows every text as text', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (error, description) => {
        const [, body = ''] = errorPage(error, description).split('<main>');
        const texts = body.replaceAll(/<\/?(?:h1|p|code|main|body|html)>/g, '');
        expect(texts).not.toMatch(/[<>"']/);
      }),
    );
  });

  const SCRIPT = `"><script>alert(1)</script><img src=x onerror=alert(1)>'`;
  it.each([
    'client_id',
    'redirect_uri',
    'response_type',
    'scope',
    'state',
    'nonce',
    'response_mode',
    'prompt',
    'request',
    'claims',
    'id_token_hint',
    'max_age',
  ])('has no markup of the parameter %s', async (name) => {
    const { authorize } = await provider;
    const answer = await authorize({ [name]: SCRIPT }, { accept: 'text/html' });
    expect(answer.text).not.toContain('<script>alert');
    expect(answer.text).not.toContain('<img');
    expect(answer.headers['content-security-policy']).toContain("default-src 'none'");
  });

  it('is in no frame', async () => {
    const { ask } = await provider;
    const { headers } = await ask('/oidc/session/end');
    expect(headers['content-security-policy']).toContain("frame-ancestors 'none'");
    expect(headers['x-frame-options']).toBe('DENY');
    expect(headers['referrer-policy']).toBe('no-referrer');
  });
});
