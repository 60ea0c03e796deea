import { mkdirSync, writeFileSync } from 'node:fs';
import { get as getPlain } from 'node:http';
import { get as getSecure } from 'node:https';
import { join } from 'node:path';
import { findTools } from './binaries.ts';
import { freePort } from './ports.ts';
import { type Again, startDaemon, stopLeftovers } from './process.ts';
import type { Log } from './progress.ts';
import { waitFor } from './wait.ts';

/** The users, each with the bcrypt hash of the password; fixed, since Node has no bcrypt. */
export const REGISTRY_USERS = {
  limpet: { password: 'holds-fast', hash: '$2b$04$5JRBmXBgjPAqzrbwyUK7SON/Tl1WVJRzEuzXj53u3ua92Rx1bpZom' },
  /** the first user after a change of the password */
  'limpet-later': { password: 'lets-go', hash: '$2b$04$ilVD1pY.T1ZmEjBEd9rgyubK20ZNvLMAYLhmn.4lqqjKNSHzOBWLy' },
} as const;

export interface RegistryOptions {
  /** Folder of images, configuration and log. */
  dir: string;
  /** A free port when absent. */
  port?: number;
  /** The `images` folder of another registry: both have the same images. */
  images?: string;
  /** Listens in a network namespace, at an address that is not loopback. */
  network?: { command: readonly string[]; address: string };
  /** Files in PEM. Absent: plain HTTP. */
  tls?: { cert: string; key: string };
  /** Requires a user name and a password; see `login` and REGISTRY_USERS. */
  auth?: 'basic';
  /** Requires tokens of a service at `realm` that signs with a key of the JWKS file. */
  tokens?: { realm: string; service: string; issuer: string; jwks: string };
  log?: Log;
  /** Starts it again when it ends by itself. */
  again?: Again;
}

/** An image registry; by default on loopback without TLS, which engines trust there. */
export interface Registry extends AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** `127.0.0.1:<port>`, the first part of image references. */
  readonly host: string;
  /** Folder of all that it stores. */
  readonly images: string;
  /** Sets the user whose password is accepted from now on. */
  login(user: keyof typeof REGISTRY_USERS): void;
  stop(): Promise<void>;
}

/** Starts the distribution registry with its storage in `dir`. */
export async function startRegistry(options: RegistryOptions): Promise<Registry> {
  const { dir, network, tls, auth, tokens, log = () => {}, again } = options;
  const { registry } = await findTools(['registry'], { log });
  await stopLeftovers(dir);
  const port = options.port ?? (network ? 5000 : await freePort());
  const host = `${network?.address ?? '127.0.0.1'}:${port}`;
  const images = options.images ?? join(dir, 'images');
  const users = join(dir, 'users');
  const login = (user: keyof typeof REGISTRY_USERS) =>
    writeFileSync(users, `${user.replace('-later', '')}:${REGISTRY_USERS[user].hash}\n`);
  const config = {
    version: 0.1,
    log: { level: 'warn', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: images }, delete: { enabled: true } },
    http: { addr: host, ...(tls && { tls: { certificate: tls.cert, key: tls.key } }) },
    ...(auth && { auth: { htpasswd: { realm: 'shore', path: users } } }),
    ...(tokens && { auth: { token: { ...tokens, autoredirect: false } } }),
  };
  const file = join(dir, 'config.yaml');
  mkdirSync(dir, { recursive: true });
  writeFileSync(file, JSON.stringify(config, undefined, 2));
  login('limpet');
  const [command = '', ...args] = [...(network?.command ?? []), registry, 'serve', file];
  const daemon = await startDaemon({ name: 'registry', dir, command, args, again });

  const url = `${tls ? 'https' : 'http'}://${host}`;
  const ready = async () => {
    daemon.assertRunning();
    return [200, 401].includes(await statusOf(`${url}/v2/`));
  };
  const stop = () => daemon.stop();
  try {
    await waitFor(ready, { what: 'the registry to answer', timeoutMs: 15_000 });
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, host, images, login, stop, [Symbol.asyncDispose]: stop };
}

/** Status of a response, without verifying the certificate. */
function statusOf(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const get = url.startsWith('https:') ? getSecure : getPlain;
    get(url, { rejectUnauthorized: false, agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    }).on('error', reject);
  });
}
