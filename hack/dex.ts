import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { join } from 'node:path';
import { makeCertificate } from './certificate.ts';
import { freePort } from './ports.ts';
import { startDaemon } from './process.ts';
import type { Log } from './progress.ts';
import { buildTool } from './tool.ts';
import { waitFor } from './wait.ts';

/** The users, all with one password; its bcrypt hash is fixed, since Node has no bcrypt. */
export const DEX_USERS = {
  ann: { email: 'ann@shore.example', groups: ['SRE', 'divers'] },
  cyd: { email: 'cyd@shore.example', groups: ['line-a'] },
  /** in no group */
  bob: { email: 'bob@shore.example', groups: [] },
} as const;
export const DEX_PASSWORD = 'holds-fast';
const HASH = '$2b$10$5JRBmXBgjPAqzrbwyUK7SOJ7bZ1kCF8CfzzuquXH6.LCgR2uby03i';

export const DEX_CLIENT = { clientId: 'skerry', clientSecret: 'a secret of the tests' } as const;

export interface DexOptions {
  /** Folder of configuration, certificate and log. A later start in it has the same certificate, and other keys of tokens. */
  dir: string;
  redirectUris?: readonly string[];
  /** How long tokens are valid, such as 5m. */
  tokens?: string;
  port?: number;
  log?: Log;
}

/** An OpenID provider with TLS whose users and keys are in memory. */
export interface Dex extends AsyncDisposable {
  /** `https://localhost:<port>/dex` */
  readonly issuer: string;
  /** of the certificate, PEM */
  readonly ca: string;
  readonly caFile: string;
  /** of the certificate, in files */
  readonly tls: { cert: string; key: string };
  /** Freezes it: connections open, and nothing answers. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

/** Starts Dex (https://github.com/dexidp/dex), built from its pinned Go module. */
export async function startDex({ dir, redirectUris = [], tokens = '10m', log, ...options }: DexOptions): Promise<Dex> {
  const command = await buildTool('dex', 'github.com/dexidp/dex/cmd/dex', { log });
  const port = options.port ?? (await freePort());
  const issuer = `https://localhost:${port}/dex`;
  mkdirSync(dir, { recursive: true });
  const { cert, key, ca } = certificateIn(join(dir, 'tls'));
  const config = {
    issuer,
    storage: { type: 'memory' },
    web: { https: `127.0.0.1:${port}`, tlsCert: cert, tlsKey: key },
    logger: { level: 'warn' },
    oauth2: { passwordConnector: 'local', skipApprovalScreen: true, responseTypes: ['code'] },
    expiry: { idTokens: tokens, refreshTokens: { reuseInterval: '0s' } },
    enablePasswordDB: true,
    staticPasswords: Object.entries(DEX_USERS).map(([username, { email, groups }], index) => ({
      ...{ email, hash: HASH, username, preferredUsername: username, groups },
      userID: `00000000-0000-4000-8000-00000000000${index}`,
    })),
    staticClients: [
      { id: DEX_CLIENT.clientId, secret: DEX_CLIENT.clientSecret, name: 'Skerry', redirectURIs: redirectUris },
    ],
  };
  const file = join(dir, 'config.json');
  writeFileSync(file, JSON.stringify(config, undefined, 2));
  const daemon = await startDaemon({ name: `dex-${port}`, dir, command, args: ['serve', file] });
  const answers = async () => {
    daemon.assertRunning();
    return (await statusOf(`${issuer}/.well-known/openid-configuration`, ca)) === 200;
  };
  try {
    await waitFor(answers, { what: 'Dex to answer', timeoutMs: 15_000 });
  } catch (error) {
    await daemon.stop();
    throw error;
  }
  const stop = async () => {
    // Its own end waits a minute for connections; nothing is lost, as everything is in memory.
    await daemon.kill();
  };
  return {
    ...{ issuer, ca, caFile: join(dir, 'tls', 'ca.pem'), tls: { cert, key } },
    pause: () => daemon.signal('SIGSTOP'),
    resume: () => daemon.signal('SIGCONT'),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function certificateIn(folder: string) {
  const file = (name: string) => join(folder, name);
  if (!existsSync(file('server.pem'))) return makeCertificate(folder, ['localhost', '127.0.0.1']);
  return { cert: file('server.pem'), key: file('server.key'), ca: readFileSync(file('ca.pem'), 'utf8') };
}

const statusOf = (url: string, ca: string) =>
  new Promise<number>((resolve, reject) => {
    get(url, { ca, agent: false }, (answer) => resolve(answer.resume().statusCode ?? 0)).on('error', reject);
  });
