import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { listenForTest } from '../../testing/local-server.ts';
import { createLoginPages, hasLoginPages, type LoginPagesOptions, stylesheetOf } from './pages.ts';

const BASE = 'https://plant.example/base';

async function serve(options: Partial<LoginPagesOptions> = {}) {
  const pages = createLoginPages({ publicUrl: BASE, consoleUrl: BASE, interactionPath: '/login/oauth', ...options });
  const server = createServer((incoming, response) => {
    if (!pages(incoming, response)) response.writeHead(418).end();
  });
  const port = await listenForTest(server);
  // fetch would tidy the path.
  return (path: string, method = 'GET') =>
    new Promise<{ status: number | undefined; headers: IncomingHttpHeaders; text: string }>((resolve, reject) => {
      request({ port, host: '127.0.0.1', path, method, agent: false }, async (answer) => {
        const { statusCode: status, headers } = answer;
        resolve({ status, headers, text: await text(answer) });
      })
        .on('error', reject)
        .end();
    });
}

describe('the pages of a login', () => {
  test.each([
    ['/login', 'text/html; charset=utf-8'],
    ['/login/oauth', 'text/html; charset=utf-8'],
    ['/login/oauth?interaction=uid', 'text/html; charset=utf-8'],
    ['/login.js', 'text/javascript; charset=utf-8'],
    ['/login.css', 'text/css; charset=utf-8'],
  ])('answer %s with and without the path of the public URL', async (path, type) => {
    const ask = await serve();
    for (const prefix of ['', '/base']) {
      const { status, headers } = await ask(prefix + path);
      expect([status, headers['content-type']]).toEqual([200, type]);
      expect(headers['content-security-policy']).toContain("frame-ancestors 'none'");
      expect(headers['referrer-policy']).toBe('no-referrer');
    }
  });

  test.each(['/', '/login/', '/login/other', '/logins', '/base', '/elsewhere/login', '//login', '/login/../login'])(
    'leave %s to others',
    async (path) => {
      expect((await (await serve())(path)).status).toBe(418);
    },
  );

  test('answer no method but GET and HEAD', async () => {
    const ask = await serve();
    expect((await ask('/login/oauth', 'POST')).status).toBe(418);
    expect(await ask('/login/oauth', 'HEAD')).toMatchObject({ status: 200, text: '' });
  });

  test('are the same document for every request, with nothing of its query', async () => {
    const ask = await serve();
    const { text: page } = await ask('/login/oauth');
    for (const query of ['?interaction=%3Cscript%3E', '?oauthError="><img/src=x>', "?'onload=alert(1)"])
      expect((await ask(`/login/oauth${query}`)).text).toBe(page);
    const steps = ['login', 'mfa', 'enroll', 'recovery', 'change-password', 'done', 'logged-out', 'error'];
    for (const view of steps) expect(page).toContain(`data-view="${view}"`);
  });

  test('have no script, no style and no handler in the document, and nothing of another origin', async () => {
    const ask = await serve();
    const { text: page } = await ask('/login');
    expect(page.match(/<script[^>]*>/g)).toEqual(['<script src="/base/login.js" defer>']);
    expect(page).not.toMatch(/<style|\sstyle=|\son[a-z]+=|javascript:|https?:|\/\//i);
    expect((await ask('/login.css')).text).not.toMatch(/url\(|@import|https?:/);
  });

  test('are where SKERRY_OAUTH_INTERACTION_URL says', async () => {
    const ask = await serve({ interactionPath: '/enter' });
    expect([(await ask('/enter')).status, (await ask('/login/oauth')).status]).toEqual([200, 418]);
  });
});

test.each([
  ['https://plant.example/base', true],
  ['https://plant.example', true],
  ['https://plant.example/console', true],
  ['https://console.example', false],
  ['https://plant.example:8443/base', false],
  ['http://plant.example/base', false],
])('with the console %s the controller has pages of its own: %s', (consoleUrl, has) => {
  expect(hasLoginPages({ publicUrl: BASE, consoleUrl })).toBe(has);
});

test('the style of the pages is below the path of the console', () => {
  expect(stylesheetOf('https://plant.example/base')).toBe('/base/login.css');
  expect(stylesheetOf('https://plant.example')).toBe('/login.css');
});
