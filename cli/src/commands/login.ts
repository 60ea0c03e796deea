import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { openBrowser } from '../../../src/terminal/open-browser.ts';
import type { Command, CommandContext } from '../context/command.ts';
import { CommandError } from '../context/errors.ts';
import { addLogin } from '../context/kubeconfig-entry.ts';
import { type LoginClient, LoginRefused, loginClient, type Tokens } from '../context/login.ts';
import { askFor } from '../context/prompt.ts';
import { tokenFile } from '../context/token-file.ts';
import { LOGIN_FLAGS, placeOf } from './credential.ts';

/** How long a person has in the browser, ms. */
const BROWSER_MS = 600_000;

export const login: Command = {
  name: 'login',
  about: 'Log in at the controller, in the browser or with a password, for kubectl as well',
  details: [
    'Without --user the browser opens. The tokens are kept in ~/.kube/skerry, readable for you alone, and the kubeconfig gets a user "skerry" and a context "skerry" that use them. kubectl is served where the API server knows the issuer: see authentication-config.',
  ],
  examples: [
    'login --controller https://skerry.example:51121',
    'login --controller https://skerry.example:51121 --user ann@x.example',
  ],
  flags: {
    ...LOGIN_FLAGS,
    user: { value: 'NAME', about: 'log in with the password of this user: typed, or the first line of the input' },
    code: { value: 'CODE', about: 'code of the second factor; asked for when it is needed' },
    'no-browser': { about: 'only print the URL for the browser' },
    'no-kubeconfig': { about: 'leave the kubeconfig as it is' },
  },
  async run(context) {
    const { flags, env, signal, out } = context;
    const place = placeOf(context);
    const client = loginClient(place, signal);
    const { user } = flags;
    const tokens =
      typeof user === 'string'
        ? await byPassword(context, client, user)
        : await byBrowser(context, client, place.origin);
    const file = tokenFile(place.origin, env);
    await file.alone(async () => file.write(tokens), signal);
    out(`Logged in at ${place.origin}\n`);
    if (flags['no-kubeconfig']) return;
    const args = [
      'credential',
      '--controller',
      place.origin,
      ...(typeof flags.ca === 'string' ? ['--ca', resolve(flags.ca)] : []),
    ];
    const path = addLogin(context, args);
    out(`${path} has the context "skerry": kubectl --context skerry get edgenodes\n`);
  },
};

async function byPassword(context: CommandContext, client: LoginClient, email: string): Promise<Tokens> {
  const { flags, streams, err, signal } = context;
  const ask = (question: string) => askFor(question, { input: streams.input, err, signal });
  const password = await ask(`Password of ${email}: `);
  const given = { email, password, ...(typeof flags.code === 'string' && { totp: flags.code }) };
  try {
    return await client.password(given);
  } catch (error) {
    if (!(error instanceof LoginRefused) || error.code !== 'MFA_CODE_REQUIRED') throw error;
    return client.password({ ...given, totp: await ask('Code of the second factor: ') });
  }
}

/** The browser logs in and comes to a port of this machine with a code, which is worth nothing without the verifier. */
async function byBrowser({ flags, err, signal }: CommandContext, client: LoginClient, origin: string): Promise<Tokens> {
  const codeVerifier = randomBytes(32).toString('base64url');
  const challenge = createHash('sha256').update(codeVerifier).digest('base64url');
  const arrived = Promise.withResolvers<URLSearchParams>();
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1');
    const isEnd =
      request.method === 'GET' && pathname === '/' && (searchParams.has('code') || searchParams.has('error'));
    const text = isEnd ? 'You can close this page and return to the terminal.' : 'There is nothing here.';
    response
      .writeHead(isEnd ? 200 : 404, { 'content-type': 'text/plain', 'cache-control': 'no-store', connection: 'close' })
      .end(`${text}\n`);
    if (isEnd) arrived.resolve(searchParams);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(BROWSER_MS)]);
  limit.addEventListener('abort', () => arrived.reject(new CommandError('nobody logged in within ten minutes')));
  try {
    const query = new URLSearchParams({ loopback_port: String(port), code_challenge: challenge });
    const url = `${origin}/api/v3/user/oauth/authorize?${query}`;
    err(`Log in with the browser: ${url}\n`);
    if (!flags['no-browser']) openBrowser(url);
    const answer = await arrived.promise;
    const code = answer.get('code');
    if (code === null) throw new CommandError('the provider refused the login');
    return await client.redeem({ code, codeVerifier });
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
