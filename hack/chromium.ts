import { spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { installPackages, isThere } from './apt.ts';
import type { Log } from './progress.ts';
import { waitFor } from './wait.ts';

/** How a window looks. */
interface Look {
  scheme?: 'light' | 'dark';
  width?: number;
  height?: number;
  isPhone?: boolean;
}

/** A window of a browser: cookies and storage are its own. */
export interface BrowserWindow extends AsyncDisposable {
  go(url: string): Promise<void>;
  /** Value of an expression in the page, as JSON; a promise is awaited. */
  run<T = unknown>(expression: string): Promise<T>;
  /** Waits until an expression in the page is true, also across a navigation. */
  until(expression: string, what: string): Promise<void>;
  /** Types a text where the focus is. */
  type(text: string): Promise<void>;
  press(key: 'Tab' | 'Enter'): Promise<void>;
  screenshot(): Promise<Buffer>;
  look(look: Look): Promise<void>;
  cookies(): Promise<{ name: string; value: string; path: string; httpOnly: boolean }[]>;
  /** Every URL of the address bar so far, at the end of each navigation: what the history has, and what people see. */
  addresses(): Promise<string[]>;
  /** Errors of scripts, and lines that the browser wrote to its console, such as violations of a content policy. */
  readonly problems: readonly string[];
  /** Where its requests went. */
  readonly requests: readonly string[];
}

export interface Chromium extends AsyncDisposable {
  open(look?: Look): Promise<BrowserWindow>;
}

const PACKAGE = 'chromium-headless-shell';
const PROGRAM = `/usr/bin/${PACKAGE}`;
const ARGUMENTS = [
  '--remote-debugging-pipe',
  '--no-sandbox',
  '--no-first-run',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--hide-scrollbars',
];

/** Starts Debian's Chromium without a screen, which is installed where it is missing. */
export async function startChromium(log?: Log): Promise<Chromium> {
  await installPackages({
    packages: [PACKAGE],
    missing: () => (isThere(PROGRAM) ? '' : PACKAGE),
    why: 'No browser for tests is here',
    elsewhere: 'https://packages.debian.org/chromium-headless-shell',
    log,
  });
  const folder = mkdtempSync(join(tmpdir(), 'skerry-chromium-'));
  const child = spawn(PROGRAM, [...ARGUMENTS, `--user-data-dir=${folder}`, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', () => resolve());
  });
  const protocol = speak(child.stdio[3] as Writable, child.stdio[4] as Readable);
  await protocol.send('Browser.getVersion');
  return {
    open: (look = {}) => openWindow(protocol, look),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

type Params = Record<string, unknown>;
type Listener = (method: string, params: Params) => void;

/** The DevTools protocol: JSON texts with a NUL behind each. */
interface Protocol {
  send<T = Params>(method: string, params?: Params, sessionId?: string): Promise<T>;
  listen(sessionId: string, listener: Listener): void;
}

const PATIENCE_MS = 30_000;

function speak(input: Writable, output: Readable): Protocol {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  const listeners = new Map<string, Listener>();
  let id = 0;
  let kept = '';
  output.setEncoding('utf8');
  output.on('data', (piece: string) => {
    const texts = (kept + piece).split('\0');
    kept = texts.pop() ?? '';
    for (const text of texts) receive(JSON.parse(text));
  });
  output.on('close', () => {
    for (const { reject } of waiting.values()) reject(new Error('the browser has ended'));
  });
  input.on('error', () => {});

  function receive(message: {
    id?: number;
    error?: { message: string };
    result?: unknown;
    method?: string;
    params?: Params;
    sessionId?: string;
  }) {
    if (message.id === undefined) listeners.get(message.sessionId ?? '')?.(message.method ?? '', message.params ?? {});
    else if (message.error) waiting.get(message.id)?.reject(new Error(message.error.message));
    else waiting.get(message.id)?.resolve(message.result);
  }

  return {
    listen: (sessionId, listener) => void listeners.set(sessionId, listener),
    async send<T>(method: string, params: Params = {}, sessionId?: string): Promise<T> {
      const own = ++id;
      const timer = setTimeout(
        () => waiting.get(own)?.reject(new Error(`the browser did not answer ${method}`)),
        PATIENCE_MS,
      );
      try {
        return await new Promise<T>((resolve, reject) => {
          waiting.set(own, { resolve: resolve as (value: unknown) => void, reject });
          input.write(`${JSON.stringify({ id: own, method, params, ...(sessionId && { sessionId }) })}\0`);
        });
      } finally {
        clearTimeout(timer);
        waiting.delete(own);
      }
    },
  };
}

/** The address of the page, without secrets, and the first of its texts. */
const SHOWN =
  '`${location.origin}${location.pathname} (${document.readyState}): ${document.body.innerText.slice(0, 300)}`';

/** A browser gives up what it loads when the machine gets or loses an interface, as container engines of other tests have it. */
const NETWORK_CHANGED = 'net::ERR_NETWORK_CHANGED';

/** Whether the page lacks a script or a style for that, which a person would reload it for; the problems no longer say so. */
function forgetLost(problems: string[]): boolean {
  const others = problems.filter((problem) => !(problem.includes(NETWORK_CHANGED) && /\.(js|css)$/.test(problem)));
  const isLost = others.length < problems.length;
  problems.splice(0, problems.length, ...others);
  return isLost;
}

const KEYS = { Tab: { code: 'Tab', keyCode: 9 }, Enter: { code: 'Enter', keyCode: 13, text: '\r' } } as const;

async function openWindow(protocol: Protocol, look: Look): Promise<BrowserWindow> {
  const { browserContextId } = await protocol.send<{ browserContextId: string }>('Target.createBrowserContext');
  const { targetId } = await protocol.send<{ targetId: string }>('Target.createTarget', {
    url: 'about:blank',
    browserContextId,
  });
  const { sessionId } = await protocol.send<{ sessionId: string }>('Target.attachToTarget', {
    targetId,
    flatten: true,
  });
  const send = <T = Params>(method: string, params?: Params) => protocol.send<T>(method, params, sessionId);
  const problems: string[] = [];
  const requests: string[] = [];
  const events: Readonly<Record<string, (params: never) => void>> = {
    'Log.entryAdded': ({ entry }: { entry: { source: string; level: string; text: string; url?: string } }) => {
      if (entry.level === 'error' || entry.level === 'warning')
        problems.push(`${entry.source}: ${entry.text} ${entry.url ?? ''}`.trim());
    },
    'Runtime.consoleAPICalled': ({ args }: { args: { value?: unknown; description?: string }[] }) =>
      void problems.push(`console: ${args.map(({ value, description }) => value ?? description).join(' ')}`),
    'Runtime.exceptionThrown': ({
      exceptionDetails,
    }: {
      exceptionDetails: { text: string; exception?: { description?: string } };
    }) => void problems.push(`exception: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`),
    'Network.requestWillBeSent': ({ request }: { request: { url: string } }) => void requests.push(request.url),
  };
  protocol.listen(sessionId, (method, params) => events[method]?.(params as never));
  await Promise.all(['Page', 'Runtime', 'Log', 'Network'].map((domain) => send(`${domain}.enable`)));

  const window: BrowserWindow = {
    problems,
    requests,
    async go(url) {
      let problem: string | undefined;
      do problem = (await send<{ errorText?: string }>('Page.navigate', { url })).errorText;
      while (problem === NETWORK_CHANGED);
      if (problem) throw new Error(`the browser does not load ${url}: ${problem}`);
      await this.until(`document.readyState === 'complete' && location.href !== 'about:blank'`, `${url} to be loaded`);
    },
    async run<T>(expression: string) {
      const { result, exceptionDetails } = await send<{
        result: { value: T };
        exceptionDetails?: { text: string; exception?: { description?: string } };
      }>('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true, userGesture: true });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    },
    async until(expression, what) {
      const isSo = async () => {
        if (forgetLost(problems)) await send('Page.reload');
        return (await this.run(`Boolean(${expression})`)) === true;
      };
      await waitFor(isSo, { what }).catch(async (error: Error) => {
        const shown = await this.run<string>(SHOWN).catch((cause: Error) => cause.message);
        throw new Error(`${error.message}; the page is ${shown}; it says: ${problems.join('; ')}`, { cause: error });
      });
    },
    type: async (text) => void (await send('Input.insertText', { text })),
    async press(key) {
      const { code, keyCode, ...more } = KEYS[key];
      const shared = { key, code, windowsVirtualKeyCode: keyCode };
      await send('Input.dispatchKeyEvent', { type: 'keyDown', ...shared, ...more });
      await send('Input.dispatchKeyEvent', { type: 'keyUp', ...shared });
    },
    async screenshot() {
      const { data } = await send<{ data: string }>('Page.captureScreenshot', { format: 'png' });
      return Buffer.from(data, 'base64');
    },
    async look({ scheme = 'light', width = 1280, height = 800, isPhone = false }) {
      await send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
      await send('Emulation.setDeviceMetricsOverride', {
        width,
        height,
        deviceScaleFactor: isPhone ? 2 : 1,
        mobile: isPhone,
      });
    },
    async cookies() {
      const { cookies } = await protocol.send<{ cookies: Awaited<ReturnType<BrowserWindow['cookies']>> }>(
        'Storage.getCookies',
        { browserContextId },
      );
      return cookies;
    },
    async addresses() {
      const { entries } = await send<{ entries: { url: string }[] }>('Page.getNavigationHistory');
      return entries.map(({ url }) => url);
    },
    async [Symbol.asyncDispose]() {
      await protocol.send('Target.disposeBrowserContext', { browserContextId }).catch(() => {});
    },
  };
  await window.look(look);
  return window;
}
