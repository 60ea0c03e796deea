import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { installPackages, isThere } from './apt.ts';
import { startDaemon } from './process.ts';
import type { Log } from './progress.ts';
import { waitFor } from './wait.ts';

const SERVER = '/usr/sbin/apache2';
const MODULES = '/usr/lib/apache2/modules';
const NEEDED = ['mpm_event', 'authn_core', 'authz_core', 'authz_user', 'auth_openidc', 'proxy', 'proxy_http'] as const;

export interface HttpdOptions {
  /** Folder of configuration and log. */
  dir: string;
  port: number;
  /** URL that people know the server by */
  url: string;
  client: { id: string; secret: string; issuer: string; redirectUri: string };
  /** Where requests go whose path begins so; the longest path that fits counts. People have to log in for those in `guarded`. */
  behind: Readonly<Record<string, string>>;
  guarded: readonly string[];
  log?: Log;
}

/** A web server that knows its users from an OpenID provider. */
export interface Httpd extends AsyncDisposable {
  readonly logFile: string;
}

/** Apache with mod_auth_openidc (Debian: libapache2-mod-auth-openidc), on loopback. */
export async function startHttpd({ dir, port, url, client, behind, guarded, log }: HttpdOptions): Promise<Httpd> {
  await installPackages({
    packages: ['apache2-bin', 'libapache2-mod-auth-openidc'],
    missing: () => [SERVER, join(MODULES, 'mod_auth_openidc.so')].filter((file) => !isThere(file)).join(', '),
    why: 'No web server that logs people in runs here',
    elsewhere: 'Apache 2.4 with mod_auth_openidc 2.4',
    ...(log && { log }),
  });
  mkdirSync(dir, { recursive: true });
  // Its processes are another user's, who reads and writes here.
  chmodSync(dir, 0o777);
  const file = join(dir, 'httpd.conf');
  const paths = Object.keys(behind).sort((a, b) => b.length - a.length);
  const lines = [
    `ServerRoot ${dir}`,
    `DefaultRuntimeDir ${dir}`,
    `PidFile ${join(dir, 'httpd.pid')}`,
    `Listen 127.0.0.1:${port}`,
    `ServerName ${new URL(url).host}`,
    'UseCanonicalName On',
    'ErrorLog /dev/stderr',
    'LogLevel warn auth_openidc:debug',
    ...NEEDED.map((name) => `LoadModule ${name}_module ${join(MODULES, `mod_${name}.so`)}`),
    ...(process.getuid?.() === 0 ? ['User www-data', 'Group www-data'] : []),
    `OIDCProviderMetadataURL ${client.issuer}/.well-known/openid-configuration`,
    `OIDCClientID ${client.id}`,
    `OIDCClientSecret ${client.secret}`,
    `OIDCRedirectURI ${client.redirectUri}`,
    'OIDCCryptoPassphrase a-passphrase-of-the-tests',
    'OIDCScope "openid profile email groups"',
    'OIDCPKCEMethod S256',
    'OIDCRemoteUserClaim preferred_username',
    ...paths.map((path) => `ProxyPass ${path} ${behind[path]}`),
    // The module answers there itself, also to a browser that does not say that it shows pages.
    ...[...guarded, new URL(client.redirectUri).pathname].map(
      (path) =>
        `<Location ${path}>\n  AuthType openid-connect\n  Require valid-user\n  OIDCUnAuthAction auth true\n</Location>`,
    ),
  ];
  writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
  const daemon = await startDaemon({
    name: `httpd-${port}`,
    dir,
    command: SERVER,
    args: ['-D', 'FOREGROUND', '-f', file],
  });
  const answers = async () => {
    daemon.assertRunning();
    return (await fetch(`http://127.0.0.1:${port}/`, { redirect: 'manual' })).status > 0;
  };
  try {
    await waitFor(answers, { what: 'Apache to answer', timeoutMs: 20_000 });
  } catch (error) {
    await daemon.stop();
    throw error;
  }
  return { logFile: daemon.logFile, [Symbol.asyncDispose]: () => daemon.stop() };
}
