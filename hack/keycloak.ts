import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { installPackages, isThere } from './apt.ts';
import { makeCertificate } from './certificate.ts';
import { lock } from './lock.ts';
import { cacheFolder } from './paths.ts';
import { freePort } from './ports.ts';
import { startDaemon } from './process.ts';
import type { Log } from './progress.ts';
import { waitFor } from './wait.ts';

/** Pinned, as a package of Maven Central. */
const VERSION = '26.7.3';
const ARTIFACT = `org.keycloak:keycloak-quarkus-dist:${VERSION}:zip`;
const COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy';
const PATIENCE_MS = 600_000;

export const KEYCLOAK_USER = {
  username: 'ann',
  email: 'ann@shore.example',
  password: 'holds-fast',
  group: 'SRE',
} as const;
export const KEYCLOAK_CLIENT = { clientId: 'skerry', clientSecret: 'a secret of the tests' } as const;

export interface Keycloak extends AsyncDisposable {
  /** `https://localhost:<port>/realms/shore` */
  readonly issuer: string;
  readonly caFile: string;
  readonly logFile: string;
}

/** Keycloak with TLS, one realm, one user and one client, whose data is in memory. Needs Java 17 (Debian: openjdk-17-jre-headless). */
export async function startKeycloak({
  dir,
  redirectUris,
  log,
}: {
  dir: string;
  redirectUris: readonly string[];
  log?: Log;
}): Promise<Keycloak> {
  const home = join(dir, 'keycloak');
  mkdirSync(dir, { recursive: true });
  cpSync(await distribution(log), home, { recursive: true });
  const { cert, key } = makeCertificate(join(dir, 'tls'), ['localhost', '127.0.0.1']);
  const caFile = join(dir, 'tls/ca.pem');
  mkdirSync(join(home, 'data/import'), { recursive: true });
  writeFileSync(join(home, 'data/import/shore-realm.json'), JSON.stringify(realm(redirectUris)));
  const [port, management] = [await freePort(), await freePort()];
  const issuer = `https://localhost:${port}/realms/shore`;
  const daemon = await startDaemon({
    name: `keycloak-${port}`,
    dir,
    command: '/bin/sh',
    args: [
      ...[join(home, 'bin/kc.sh'), 'start-dev', '--import-realm', '--http-enabled=false', '--http-host=127.0.0.1'],
      ...[`--https-port=${port}`, `--https-certificate-file=${cert}`, `--https-certificate-key-file=${key}`],
      ...[
        `--http-management-port=${management}`,
        `--hostname=https://localhost:${port}`,
        '--db=dev-mem',
        '--cache=local',
      ],
    ],
    env: { ...process.env, JAVA_OPTS_APPEND: '-XX:TieredStopAtLevel=1' },
  });
  const discovery = `${issuer}/.well-known/openid-configuration`;
  const answers = async () => {
    daemon.assertRunning();
    return (await statusOf(discovery)) === 200;
  };
  try {
    await waitFor(answers, { what: 'Keycloak to answer', timeoutMs: 300_000, intervalMs: 1_000 });
  } catch (error) {
    await daemon.stop();
    throw error;
  }
  return { issuer, caFile, logFile: daemon.logFile, [Symbol.asyncDispose]: () => daemon.stop() };
}

const statusOf = (url: string) =>
  new Promise<number>((resolve, reject) => {
    const options = { agent: false, rejectUnauthorized: false };
    get(url, options, (answer) => resolve(answer.resume().statusCode ?? 0)).on('error', reject);
  });

/** The folder of the distribution, fetched once. */
async function distribution(log: Log = () => {}): Promise<string> {
  const folder = join(cacheFolder(), `keycloak-${VERSION}`);
  if (existsSync(folder)) return folder;
  await using _one = await lock(`${folder}.lock`);
  if (existsSync(folder)) return folder;
  await installPackages({
    packages: ['maven', 'openjdk-17-jre-headless'],
    missing: () => ['/usr/bin/mvn', '/usr/bin/java'].filter((program) => !isThere(program)).join(', '),
    why: 'Keycloak cannot be fetched and run',
    elsewhere: 'Maven and Java 17',
    log,
  });
  log(`Fetching Keycloak ${VERSION}, once`);
  const draft = `${folder}.draft`;
  rmSync(draft, { recursive: true, force: true });
  const run = promisify(execFile);
  const fetch = ['-q', '-B', COPY, `-Dartifact=${ARTIFACT}`, `-DoutputDirectory=${draft}`];
  await run('mvn', fetch, { timeout: PATIENCE_MS, cwd: cacheFolder() });
  const zip = join(draft, `keycloak-quarkus-dist-${VERSION}.zip`);
  await run('python3', ['-m', 'zipfile', '-e', zip, draft], { timeout: PATIENCE_MS });
  renameSync(join(draft, `keycloak-${VERSION}`), folder);
  rmSync(draft, { recursive: true, force: true });
  return folder;
}

/**
 * As docs/identity-provider.md says: an audience mapper, and a scope `groups` with groups without their paths. A realm that brings one scope
 * has none of those that Keycloak makes by itself.
 */
function realm(redirectUris: readonly string[]): object {
  const { username, email, password, group } = KEYCLOAK_USER;
  const { clientId, clientSecret } = KEYCLOAK_CLIENT;
  const mapper = (protocolMapper: string, config: Record<string, string>) => ({
    ...{ name: config['claim.name'] ?? protocolMapper, protocol: 'openid-connect', protocolMapper },
    config: {
      ...{ 'access.token.claim': 'true', 'id.token.claim': 'true', 'userinfo.token.claim': 'true' },
      ...config,
    },
  });
  const attribute = (of: string, claim: string, type = 'String') =>
    mapper('oidc-usermodel-property-mapper', { 'user.attribute': of, 'claim.name': claim, 'jsonType.label': type });
  const scopes = {
    basic: [mapper('oidc-sub-mapper', {})],
    profile: [attribute('username', 'preferred_username')],
    email: [attribute('email', 'email'), attribute('emailVerified', 'email_verified', 'boolean')],
    groups: [mapper('oidc-group-membership-mapper', { 'claim.name': 'groups', 'full.path': 'false' })],
    offline_access: [],
  };
  const { basic: _, ...asked } = scopes;
  return {
    realm: 'shore',
    enabled: true,
    groups: [{ name: group }],
    roles: { realm: [{ name: 'offline_access' }] },
    users: [
      {
        ...{ username, email, firstName: 'Ann', lastName: 'Shore', enabled: true, emailVerified: true },
        credentials: [{ type: 'password', value: password, temporary: false }],
        ...{ groups: [`/${group}`], realmRoles: ['offline_access'] },
      },
    ],
    clientScopes: Object.entries(scopes).map(([name, protocolMappers]) => ({
      ...{ name, protocol: 'openid-connect', protocolMappers },
      attributes: { 'include.in.token.scope': 'true' },
    })),
    clients: [
      {
        ...{ clientId, secret: clientSecret, enabled: true, protocol: 'openid-connect', publicClient: false },
        ...{ standardFlowEnabled: true, directAccessGrantsEnabled: true, redirectUris },
        ...{ defaultClientScopes: ['basic'], optionalClientScopes: Object.keys(asked) },
        protocolMappers: [mapper('oidc-audience-mapper', { 'included.client.audience': clientId })],
      },
    ],
  };
}
