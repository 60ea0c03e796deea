import { setTimeout as sleep } from 'node:timers/promises';
import { decodeQR } from 'qr/decode.js';
import type { BrowserWindow } from '../hack/chromium.ts';
import { freePort } from '../hack/ports.ts';
import { oneTimeCode } from '../testing/one-time-code.ts';
import { type ControllerProcess, createStack, type Stack, until } from './_stack.ts';

/** A controller with logins, at the address that its URLs name, and what a person does in a browser. */

export const ADMIN = { email: 'root@plant.example', password: 'Correct-Horse-7' };
export const TEMPORARY = 'Temporary-Pass-1';
export const PASSWORD = 'Battery-Staple-8';

export interface LoginStack {
  stack: Stack;
  controller: ControllerProcess;
  /** the public URL */
  url: string;
  /** Calls a route below /api/v3, as often as it is asked for patience. Throws for other refusals. */
  call(method: string, path: string, body?: object, token?: string, cookie?: string): Promise<Record<string, unknown>>;
  /** The same as the first administrator. */
  admin(method: string, path: string, body?: object): Promise<Record<string, unknown>>;
  /** A user with the password TEMPORARY, which has to be changed. */
  user(email: string, groups: readonly string[]): Promise<void>;
}

export async function startLogins(env: Record<string, string> = {}): Promise<LoginStack> {
  const stack = await createStack();
  const port = String(await freePort());
  const url = `http://127.0.0.1:${port}`;
  const controller = await stack.startController({
    env: {
      SERVER_PORT: port,
      CONTROLLER_PUBLIC_URL: url,
      AUTH_RATE_LIMIT_MAX_REQUESTS: '1000',
      OIDC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.email,
      OIDC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
      ...env,
    },
  });
  const call: LoginStack['call'] = async (method: string, path: string, body?: object, token = '', cookie = '') => {
    const response = await fetch(`${url}/api/v3${path}`, {
      method,
      headers: { 'content-type': 'application/json', cookie, ...(token && { authorization: `Bearer ${token}` }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (response.status === 429) {
      await sleep(Number(response.headers.get('retry-after')) * 1_000);
      return call(method, path, body, token, cookie);
    }
    const reply = (await response.json().catch(() => ({}))) as Record<string, unknown>;
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(reply)}`);
    return reply;
  };
  const { accessToken } = await until('the administrator to log in', () => call('POST', '/user/login', ADMIN));
  const admin: LoginStack['admin'] = (method, path, body) => call(method, path, body, String(accessToken));
  return {
    ...{ stack, controller, url, call, admin },
    user: async (email, groups) => void (await admin('POST', '/users', { email, password: TEMPORARY, groups })),
  };
}

/** Waits until the page shows a view. */
export const shows = (window: BrowserWindow, view: string) =>
  window.until(
    `document.querySelector('[data-view="${view}"]') && !document.querySelector('[data-view="${view}"]').hidden`,
    `the view ${view}`,
  );

/** Types into the fields of the present view in their order, by the keyboard alone, and sends the form. */
export async function fill(window: BrowserWindow, ...texts: readonly string[]): Promise<void> {
  for (const [index, text] of texts.entries()) {
    if (index > 0) await window.press('Tab');
    await window.type(text);
  }
  // A person waits as long as the page says.
  do {
    await window.press('Enter');
    await window.until(`!document.querySelector('[data-view]:not([hidden]) button:disabled')`, 'the answer');
  } while (/Try again in/.test(await problemOf(window)));
}

/** Opens the form of a login. */
export async function begin(window: BrowserWindow, url: string): Promise<void> {
  do {
    await window.go(`${url}/login`);
    await shows(window, 'start');
    await window.press('Enter');
    await window.until(`location.pathname !== '/login' && document.readyState === 'complete'`, 'the form');
    // The provider refuses for a moment where too many have begun.
  } while ((await window.run('location.pathname')) !== '/login/oauth');
  await shows(window, 'login');
}

/** The problem that the present view shows. */
export const problemOf = (window: BrowserWindow) =>
  window.run<string>(
    `[...document.querySelectorAll('[data-view]:not([hidden]) .problem')].map((one) => one.textContent).join()`,
  );

/** The secret of an enrolment, as the page shows it in text. */
export const secretOf = async (window: BrowserWindow) =>
  (await window.run<string>(`document.querySelector('[data-secret]').textContent`)).replaceAll(' ', '');

/** The text in the QR code of the page, as a camera reads it. */
export async function qrCodeOf(window: BrowserWindow): Promise<string> {
  const SCALE = 4;
  const [modules = 0, path = ''] = await window.run<[number, string]>(
    `[document.querySelector('svg').viewBox.baseVal.width, document.querySelector('svg path').getAttribute('d')]`,
  );
  const size = modules * SCALE;
  const data = new Uint8Array(size * size * 4).fill(255);
  for (const [, x, y] of path.matchAll(/M(\d+) (\d+)/g))
    for (let dy = 0; dy < SCALE; dy++)
      for (let dx = 0; dx < SCALE; dx++)
        data.fill(
          0,
          ((Number(y) * SCALE + dy) * size + Number(x) * SCALE + dx) * 4,
          ((Number(y) * SCALE + dy) * size + Number(x) * SCALE + dx) * 4 + 3,
        );
  return decodeQR({ width: size, height: size, data });
}

/** The code that an app shows for the secret of the page. `steps`: later, in steps of 30 s. */
export const codeOfPage = async (window: BrowserWindow, steps = 0): Promise<string> =>
  oneTimeCode(await secretOf(window), Date.now() + steps * 30_000);
