import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type BrowserWindow, startChromium } from '../hack/chromium.ts';
import { ROOT } from '../hack/paths.ts';
import { atEnd } from '../testing/at-end.ts';
import {
  ADMIN,
  begin,
  codeOfPage,
  fill,
  PASSWORD,
  problemOf,
  qrCodeOf,
  secretOf,
  shows,
  startLogins,
  TEMPORARY,
} from './_browser-login.ts';

/** A person who logs in with a real browser at the pages of the controller. */

const chromium = await startChromium();
atEnd(() => chromium[Symbol.asyncDispose]());
const { url, call, admin, user } = await startLogins();
await admin('POST', '/groups', { name: 'divers', mfaRequired: true });

describe('a login in the browser', () => {
  test('enrols a second factor and changes the password, by the keyboard alone, and leaves nothing in the address bar', async () => {
    await user('bo@plant.example', ['divers']);
    await using window = await chromium.open();
    await begin(window, url);
    expect(await window.run('location.href')).toBe(`${url}/login/oauth`);
    await fill(window, 'bo@plant.example', 'not the password');
    await window.until(`document.querySelector('[data-view="login"] .problem').textContent !== ''`, 'the refusal');
    expect(await problemOf(window)).toBe('The e-mail or the password is not valid.');
    await fill(window, TEMPORARY);

    await shows(window, 'enroll');
    // The page is loaded again: it continues where it was.
    await window.go(`${url}/login/oauth`);
    await shows(window, 'enroll');
    expect(await qrCodeOf(window)).toContain(`secret=${await secretOf(window)}&`);
    await fill(window, '000000');
    await window.until(`document.querySelector('[data-view="enroll"] .problem').textContent !== ''`, 'the refusal');
    await fill(window, await codeOfPage(window));

    await shows(window, 'recovery');
    expect(await window.run(`document.querySelectorAll('[data-codes] li').length`)).toBe(10);
    await window.run(`document.querySelector('[data-continue]').click()`);

    await shows(window, 'change-password');
    await fill(window, TEMPORARY, 'short', 'short');
    await window.until(
      `document.querySelector('[data-view="change-password"] .problem').textContent !== ''`,
      'the rules',
    );
    expect(await problemOf(window)).toMatch(/12/);
    await window.run(`document.querySelector('[name="currentPassword"]').focus()`);
    await window.run(`document.querySelector('[name="currentPassword"]').select()`);
    await fill(window, TEMPORARY, PASSWORD, PASSWORD);

    await shows(window, 'done');
    await window.until(`document.querySelector('[data-name]').textContent !== ''`, 'the profile');
    expect(await window.run(`document.querySelector('[data-name]').textContent`)).toBe('You are bo@plant.example.');
    const token = await window.run<string>(`document.querySelector('[data-token]').value`);
    expect(token.split('.')).toHaveLength(3);
    expect(window.problems).toEqual(REFUSALS);
    expect(window.requests.filter((to) => !to.startsWith(`${url}/`))).toEqual([]);
    const addresses = await window.addresses();
    expect(addresses.at(-1)).toBe(`${url}/login`);
    for (const address of addresses) expect(address).not.toMatch(/[?#]|token|code|interaction=/i);
    expect(await window.run('JSON.stringify({ ...sessionStorage, ...localStorage })')).toBe('{}');
    expect(await window.run('document.cookie')).toBe('');
    for (const { name, httpOnly } of await window.cookies()) expect([name, httpOnly]).toEqual([name, true]);

    await window.run(`document.querySelector('[data-logout]').click()`);
    await shows(window, 'logged-out');
  });
});

/** What the browser writes to its console about the three refusals that the story asks for. */
const REFUSALS = ['401', '401', '400'].map((status) => expect.stringContaining(`status of ${status}`));

describe('an account that others have locked', () => {
  const right = (email: string, cookie = '') => call('POST', '/user/login', { email, password: PASSWORD }, '', cookie);
  async function guess(email: string, cookie = ''): Promise<void> {
    const body = { email, password: 'wrong' };
    for (let times = 0; times < 5; times++)
      await expect(call('POST', '/user/login', body, '', cookie)).rejects.toThrow('401');
  }

  test('is open to the browser of its last login alone, for five attempts', async () => {
    for (const email of ['fay@plant.example', 'gil@plant.example']) await user(email, []);
    await using window = await chromium.open();
    for (const email of ['gil@plant.example', 'fay@plant.example']) {
      await begin(window, url);
      await fill(window, email, TEMPORARY);
      await shows(window, 'change-password');
      await fill(window, PASSWORD, PASSWORD);
      await shows(window, 'done');
    }
    const known = (await window.cookies()).find(({ name }) => name === 'skerry_device');
    const cookie = `skerry_device=${known?.value}`;
    await right('fay@plant.example');
    await guess('fay@plant.example');
    await guess('gil@plant.example');
    await expect(right('fay@plant.example')).rejects.toThrow('401');
    await expect(right('fay@plant.example', 'skerry_device=other')).rejects.toThrow('401');

    await begin(window, url);
    await fill(window, 'fay@plant.example', PASSWORD);
    await shows(window, 'done');
    await expect(right('fay@plant.example')).rejects.toThrow('401');
    // The browser has a new value now; the former one is worth nothing, nor is any at another account.
    const next = (await window.cookies()).find(({ name }) => name === 'skerry_device');
    const renewed = `skerry_device=${next?.value}`;
    expect(renewed).not.toBe(cookie);
    await expect(right('fay@plant.example', cookie)).rejects.toThrow('401');
    await expect(right('gil@plant.example', renewed)).rejects.toThrow('401');
    await expect(call('GET', '/user/profile', undefined, '', renewed)).rejects.toThrow('401');
    await right('fay@plant.example', renewed);
    await guess('fay@plant.example', renewed);
    await expect(right('fay@plant.example', renewed)).rejects.toThrow('401');
  });
});

describe('a page of another site', async () => {
  const server = createServer((_, response) => response.setHeader('content-type', 'text/html').end('<body>hostile'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(() => server.close());
  const hostile = `http://localhost:${(server.address() as AddressInfo).port}/`;
  const STEPS = ['login', 'mfa', 'enroll', 'confirm-enroll', 'change-password', 'complete'];

  test('takes no step of a login that a browser has begun, and spoils none', async () => {
    await user('eve@plant.example', []);
    await using window = await chromium.open();
    await begin(window, url);
    const uid = await window.run<string>(`sessionStorage.getItem('skerry-interaction')`);

    await window.go(hostile);
    const steps = STEPS.map((to) => `${url}/api/v3/user/interaction/${uid}/${to}`);
    const outcomes = await window.run<string[]>(`(${attack})(${JSON.stringify({ steps, body: ADMIN })})`);
    expect(outcomes).toHaveLength(STEPS.length * 7);
    expect(new Set(outcomes)).toEqual(new Set(['refused', 'opaque', 'sent']));
    expect(await (await fetch(`${url}/api/v3/user/interaction/${uid}`)).json()).toEqual({ step: 'login' });

    await window.go(`${url}/login/oauth`);
    await shows(window, 'login');
    await fill(window, 'eve@plant.example', TEMPORARY);
    await shows(window, 'change-password');
    await fill(window, PASSWORD, PASSWORD);
    await shows(window, 'done');
  });

  test('shows no page of a login in a frame', async () => {
    await using window = await chromium.open();
    await window.go(hostile);
    for (const path of ['/login', '/login/oauth', '/oidc/session/end', '/oidc/auth'])
      await window.run(`(${frame})(${JSON.stringify(url + path)})`);
    expect(window.problems.filter((line) => /frame/i.test(line))).toHaveLength(4);
  });

  test('begins no login by its scripts, images and frames', async () => {
    await using window = await chromium.open();
    await window.go(hostile);
    const begin = `${url}/api/v3/user/oauth/authorize`;
    expect(await window.run(`fetch('${begin}', { credentials: 'include' }).then(() => 'read', () => 'refused')`)).toBe(
      'refused',
    );
    await window.run(`fetch('${begin}', { mode: 'no-cors', credentials: 'include' }).catch(() => {})`);
    await window.run(
      `new Promise((resolve) => { const image = new Image(); image.onerror = resolve; image.src = '${begin}'; })`,
    );
    await window.run(`(${frame})('${begin}')`);
    expect(await window.cookies()).toEqual([]);
  });

  test('ends no login of its own in the browser of somebody else, and its code leaves the address bar', async () => {
    const callback = await callbackOf(ADMIN);
    await using window = await chromium.open();
    await window.go(hostile);
    await window.run(`void (location.href = ${JSON.stringify(callback)})`);
    await shows(window, 'error');
    expect(await problemOf(window)).toBe('The login took too long, or another browser began it.');
    expect((await window.addresses()).slice(1)).toEqual([hostile, `${url}/login`]);
    expect(await window.cookies()).toEqual([]);
  });

  test('puts no HTML into a page by its link', async () => {
    await using window = await chromium.open();
    const html = encodeURIComponent(
      `"><img src=x onerror="document.title='broken'"><script>document.title='broken'</script>`,
    );
    for (const link of [
      `/login?oauthError=${html}`,
      `/login/oauth?interaction=${html}`,
      `/login#accessToken=${html}`,
    ]) {
      await window.go(url + link);
      await window.until(`document.querySelector('[data-view="wait"]').hidden`, 'a view');
      expect(await window.run(`[document.title, document.images.length, document.scripts.length].join()`)).toMatch(
        /^(?!broken).*,0,1$/,
      );
    }
    await window.go(`${url}/oidc/auth?client_id=${html}`);
    expect(await window.run('document.images.length + document.scripts.length')).toBe(0);
    expect(window.problems.filter((line) => !/status of 4/.test(line))).toEqual([]);
  });
});

const LOOKS = {
  light: { scheme: 'light' },
  dark: { scheme: 'dark' },
  'phone-light': { scheme: 'light', width: 360, height: 740, isPhone: true },
  'phone-dark': { scheme: 'dark', width: 360, height: 740, isPhone: true },
} as const;
const PICTURES = join(ROOT, 'dist/screenshots');

/** Keeps a picture of the page in every look, and says where text cannot be read, a control is too small, or the page too wide. */
async function picture(window: BrowserWindow, name: string): Promise<string[]> {
  const faults: string[] = [];
  mkdirSync(PICTURES, { recursive: true });
  for (const [look, options] of Object.entries(LOOKS)) {
    await window.look(options);
    const found = await window.run<string[]>(`(${inspect})()`);
    faults.push(...found.map((fault) => `${name}, ${look}: ${fault}`));
    writeFileSync(join(PICTURES, `${name}-${look}.png`), await window.screenshot());
  }
  return faults;
}

describe.skipIf(!process.env.SKERRY_NIGHTLY)('every page and failure of a login', () => {
  test('can be read and touched in light and dark, on a desktop and on a phone', async () => {
    await user('hal@plant.example', ['divers']);
    await using window = await chromium.open();
    const faults: string[] = [];
    const keep = async (name: string) => void faults.push(...(await picture(window, name)));
    const refusal = (view: string) =>
      window.until(`document.querySelector('[data-view="${view}"] .problem').textContent !== ''`, 'the refusal');

    await window.go(`${url}/login`);
    await shows(window, 'start');
    await keep('start');
    await begin(window, url);
    await keep('login');
    await fill(window, 'hal@plant.example', 'wrong');
    await refusal('login');
    await keep('login-refused');
    await fill(window, TEMPORARY);
    await shows(window, 'enroll');
    await keep('enroll');
    await fill(window, '000000');
    await refusal('enroll');
    await keep('enroll-refused');
    await fill(window, await codeOfPage(window, -1));
    await shows(window, 'recovery');
    await keep('recovery');
    const recovery = await window.run<string>(`document.querySelector('[data-codes] li').textContent`);
    await window.run(`document.querySelector('[data-continue]').click()`);
    await shows(window, 'change-password');
    await keep('change-password');
    await fill(window, 'short', 'short');
    await refusal('change-password');
    await keep('change-password-refused');
    await window.run(`document.querySelector('[name="newPassword"]').select()`);
    await fill(window, PASSWORD, PASSWORD);
    await shows(window, 'done');
    await keep('done');
    await window.run(`document.querySelector('[data-logout]').click()`);
    await shows(window, 'logged-out');
    await keep('logged-out');

    await begin(window, url);
    await fill(window, 'hal@plant.example', PASSWORD);
    await shows(window, 'mfa');
    await keep('code');
    await fill(window, '000000');
    await refusal('mfa');
    await keep('code-refused');
    await fill(window, recovery);
    await shows(window, 'done');
    for (const [name, path] of [
      ['expired', '/login/oauth?interaction=unknown'],
      ['refused', '/login?oauthError=access_denied'],
      ['opaque', '/login?oauthError=opaque_token'],
    ]) {
      await window.go(url + path);
      await shows(window, 'error');
      await keep(name as string);
    }
    await window.go(`${url}/oidc/auth?client_id=unknown`);
    await keep('provider-error');
    await window.go(`${url}/oidc/session/end`);
    await keep('provider-logout');
    expect(faults).toEqual([]);
  });
});

/** In the page: what people cannot read (contrast below 4.5), cannot hit (lower than 44 pixels), or have to move the page for. */
const inspect = `() => {
  const numbers = (color) => (color.match(/[0-9.]+/g) ?? []).map(Number);
  const light = (color) => {
    const [r, g, b] = numbers(color).map((one) => one / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const { backgroundColor } = getComputedStyle(one);
      if (numbers(backgroundColor)[3] !== 0) return backgroundColor;
    }
    return 'rgb(255, 255, 255)';
  };
  const seen = (element) => element.getClientRects().length > 0;
  const faults = [];
  if (document.documentElement.scrollWidth > innerWidth) faults.push('the page is ' + document.documentElement.scrollWidth + ' wide');
  for (const element of [...document.querySelectorAll('h1, p, label, code, li, input, textarea, button, a')].filter(seen)) {
    const [bright, dim] = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
    if ((bright + 0.05) / (dim + 0.05) < 4.5) faults.push('contrast of ' + element.tagName + ' ' + element.textContent.slice(0, 30));
    const control = element.matches('input:not([type=hidden]), button, a.button');
    if (control && element.getBoundingClientRect().height < 43.9) faults.push('height of ' + element.tagName + ' ' + element.textContent);
  }
  return faults;
}`;

/** In the page: every way to send a body to the steps without the help of the controller. */
const attack = `async ({ steps, body }) => {
  const outcomes = [];
  const text = JSON.stringify(body);
  for (const step of steps) {
    for (const [mode, type] of [['no-cors', 'text/plain'], ['cors', 'application/json'], ['cors', 'text/plain']]) {
      const sent = fetch(step, { method: 'POST', mode, credentials: 'include', headers: { 'content-type': type }, body: text });
      outcomes.push(await sent.then(({ type, status }) => (type === 'opaque' ? 'opaque' : 'read ' + status), () => 'refused'));
    }
    for (const untyped of [new Blob([text]), undefined]) {
      const sent = fetch(step, { method: 'POST', mode: 'no-cors', credentials: 'include', body: untyped });
      outcomes.push(await sent.then(({ type, status }) => (type === 'opaque' ? 'opaque' : 'read ' + status), () => 'refused'));
    }
    outcomes.push(navigator.sendBeacon(step, new Blob([text], { type: 'text/plain' })) ? 'sent' : 'refused');
    const frame = document.createElement('iframe');
    frame.name = 'target';
    const form = document.createElement('form');
    Object.assign(form, { action: step, method: 'post', enctype: 'text/plain', target: 'target' });
    const input = document.createElement('input');
    Object.assign(input, { name: text.slice(0, -1) + ',"x":"', value: '"}' });
    form.append(input);
    document.body.append(frame, form);
    await new Promise((resolve) => { frame.onload = resolve; form.submit(); });
    outcomes.push('sent');
    frame.remove();
    form.remove();
  }
  return outcomes;
}`;

/** In the page: a frame with a URL, as far as it loads. */
const frame = `(url) => new Promise((resolve) => {
  const frame = document.createElement('iframe');
  frame.onload = () => resolve();
  frame.src = url;
  document.body.append(frame);
})`;

/** The URL with which the provider leads back, of a login that another browser has begun and taken to its end. */
async function callbackOf(who: { email: string; password: string }): Promise<string> {
  const cookies: string[] = [];
  const ask = async (to: string, json?: object) => {
    const response = await fetch(to, {
      redirect: 'manual',
      headers: { cookie: cookies.join('; '), ...(json && { 'content-type': 'application/json' }) },
      ...(json && { method: 'POST', body: JSON.stringify(json) }),
    });
    cookies.push(...response.headers.getSetCookie().map((one) => one.split(';')[0] ?? ''));
    return response;
  };
  const place = (response: Response) => String(response.headers.get('location'));
  const page = place(await ask(place(await ask(`${url}/api/v3/user/oauth/authorize`))));
  const steps = `${url}/api/v3/user/interaction/${new URL(page).searchParams.get('interaction')}`;
  await ask(`${steps}/login`, who);
  const { redirectTo } = (await (await ask(`${steps}/complete`, {})).json()) as { redirectTo: string };
  return place(await ask(redirectTo));
}
