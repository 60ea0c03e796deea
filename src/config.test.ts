import { generateKeyPairSync } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { environmentHelp, readConfig } from './config.ts';

it('attempts at credentials are limited as AUTH_RATE_LIMIT_* say', () => {
  expect(readConfig({}).auth.attempts).toEqual({ requests: 60, windowMs: 60_000 });
  const given = { AUTH_RATE_LIMIT_MAX_REQUESTS: '5', AUTH_RATE_LIMIT_WINDOW_MS: '1000' };
  expect(readConfig(given).auth.attempts).toEqual({ requests: 5, windowMs: 1000 });
  expect(readConfig({ ...given, AUTH_RATE_LIMIT_ENABLED: 'false' }).auth.attempts).toBe(false);
});

describe('the images of the system', () => {
  it('are those of the release unless the environment names others, one by one', () => {
    expect(readConfig({}).systemImages).toEqual({});
    const env = {
      ROUTER_IMAGE_1: 'mirror.example/router:1',
      ROUTER_IMAGE_4: 'mirror.example/router:1-arm',
      BUS_IMAGE_2: 'b:2',
    };
    expect(readConfig(env).systemImages).toEqual({
      router: { 1: 'mirror.example/router:1', 4: 'mirror.example/router:1-arm' },
      bus: { 2: 'b:2' },
    });
    expect(environmentHelp().map(([name]) => name)).toEqual(expect.arrayContaining(Object.keys(env)));
  });

  it('must be image references; every wrong variable is named', () => {
    expect(() => readConfig({ DEBUG_IMAGE_3: 'no image', SERVER_PORT: 'x' })).toThrow(
      /SERVER_PORT="x"[\s\S]*DEBUG_IMAGE_3="no image": .*registry.example/,
    );
  });
});

describe('the place of releases', () => {
  it('is reached over https, or on this machine', () => {
    for (const url of ['https://releases.example/agent', 'http://127.0.0.1:8080', 'http://[::1]:8080'])
      expect(readConfig({ SKERRY_RELEASES_URL: url }).releasesUrl).toBe(url);
    for (const url of ['http://releases.example', 'http://127.0.0.1.example', 'http://localhost@releases.example'])
      expect(() => readConfig({ SKERRY_RELEASES_URL: url })).toThrow(
        `SKERRY_RELEASES_URL="${url}": has to begin with https://`,
      );
  });

  it('has the keys that sign its list of packages', () => {
    const key = String(generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' }));
    expect(readConfig({ SKERRY_RELEASES_KEY: key }).releasesKey).toBe(key);
    expect(() => readConfig({ SKERRY_RELEASES_KEY: 'a key' })).toThrow(
      'SKERRY_RELEASES_KEY="a key": has to be an Ed25519 public key (PEM)',
    );
  });
});

it('one user has 32 sockets at a replica and 10 sessions on a node, or as many as the environment says', () => {
  expect(readConfig({}).ofUser).toEqual({ sockets: 32, sessions: 10 });
  const env = { SKERRY_SOCKETS_OF_USER: '300', SKERRY_SESSIONS_OF_USER: '100' };
  expect(readConfig(env).ofUser).toEqual({ sockets: 300, sessions: 100 });
});

it('sockets that users can have open at a replica are 500, or as many as the environment says', () => {
  expect(readConfig({}).mostSockets).toBe(500);
  expect(readConfig({ WS_REPLICA_MAX_CONCURRENT_WS: '5000' }).mostSockets).toBe(5_000);
  for (const wrong of ['0', '50001', 'many'])
    expect(() => readConfig({ WS_REPLICA_MAX_CONCURRENT_WS: wrong })).toThrow(
      `WS_REPLICA_MAX_CONCURRENT_WS="${wrong}"`,
    );
});

describe('the name of the installation', () => {
  it('is the same at all replicas, each of which has the name of its pod', () => {
    const replicas = ['a', 'b'].map((pod) => readConfig({ CONTROLLER_NAME: 'plant-3', POD_NAME: pod }));
    expect(replicas.map(({ installation }) => installation.name)).toEqual(['plant-3', 'plant-3']);
    expect(replicas.map(({ identity }) => identity)).toEqual(['a', 'b']);
  });

  it('is skerry unless the environment names another, and a replica without a pod has a name of its own', () => {
    const [one, other] = [readConfig({ CONTROLLER_NAME: 'x' }), readConfig({})];
    expect(other.installation).toEqual({ name: 'skerry', appLabel: 'skerry', componentDomain: 'skerry.dev' });
    expect(one.identity).not.toBe(other.identity);
    for (const { identity } of [one, other]) expect(identity).toMatch(new RegExp(`^${hostname()}-[0-9a-f]{8}$`));
  });

  it.each([
    ['CONTROLLER_NAME', '-plant', 'has to be a label value: letters, digits'],
    ['CONTROLLER_NAME', 'plant 3', 'has to be a label value: letters, digits'],
    ['CONTROLLER_NAME', 'x'.repeat(64), 'has to be a label value: at most 63 characters'],
    ['APP_LABEL', 'a/b', 'has to be a label value: letters, digits'],
    ['COMPONENT_LABEL_DOMAIN', 'Plant.example', 'has to be a DNS name'],
    ['COMPONENT_LABEL_DOMAIN', 'plant..example', 'has to be a DNS name'],
    ['COMPONENT_LABEL_DOMAIN', 'plant/x', 'has to be a DNS name'],
    ['POD_NAME', 'x'.repeat(254), 'has to be the name of a pod: at most 253 characters'],
  ])('%s=%s is refused with what would be right', (name, value, message) => {
    expect(() => readConfig({ [name]: value })).toThrow(`${name}="${value}": ${message}`);
  });

  it('may be the name of a pod, as in manifests of older versions, with a line in the log', () => {
    const { installation, warnings } = readConfig({ CONTROLLER_NAME: hostname() });
    expect([installation.name, ...warnings]).toEqual([hostname(), expect.stringContaining('set POD_NAME to it')]);
    expect(readConfig({ CONTROLLER_NAME: hostname(), POD_NAME: hostname() }).warnings).toEqual([]);
  });
});

describe('the control plane', () => {
  it.each([
    ['', 'kubernetes'],
    ['Kubernetes', 'kubernetes'],
    ['KUBERNETES', 'kubernetes'],
    ['remote', 'remote'],
    ['Remote', 'remote'],
  ])('%j is %s', (value, controlPlane) => {
    expect(readConfig({ CONTROL_PLANE: value }).controlPlane).toBe(controlPlane);
  });

  it.each([
    ['Local', 'there is no controller inside of an agent: use kubernetes, or remote'],
    ['cloud', 'has to be kubernetes or remote'],
  ])('%s is refused', (value, message) => {
    expect(() => readConfig({ CONTROL_PLANE: value })).toThrow(`CONTROL_PLANE="${value}": ${message}`);
  });
});

describe('the relay between replicas', () => {
  const switches = { requiresBroker: true, failsFast: true };

  it('uses the bus if configured, else the router, else the internal port', () => {
    expect(readConfig({}).relay).toEqual({ by: 'internal', ...switches });
    const router = { SKERRY_RELAY_ROUTER: 'router, 10.0.0.1:5672,[::1]', SKERRY_RELAY_ROUTER_CERTIFICATES: '/certs' };
    const hosts = [
      { host: 'router', port: 5671 },
      { host: '10.0.0.1', port: 5672 },
      { host: '::1', port: 5671 },
    ];
    expect(readConfig(router).relay).toEqual({ by: 'router', hosts, certificates: '/certs', ...switches });
    const bus = { SKERRY_RELAY_BUS: 'nats://bus:4222', WS_HA_FAIL_FAST_ON_ROUTER_UNAVAILABLE: 'false' };
    expect(readConfig({ ...router, ...bus }).relay).toEqual({
      by: 'bus',
      servers: ['nats://bus:4222'],
      ...switches,
      failsFast: false,
    });
  });

  it('is the default router where that is configured, and nothing else is', () => {
    const own = { SKERRY_RELAY_DEFAULT_ROUTER: 'true', ROUTERS_ENABLED: 'true' };
    expect(readConfig(own).relay).toEqual({ by: 'default-router', ...switches });
    expect(() => readConfig({ ...own, ROUTERS_ENABLED: 'false' })).toThrow('needs ROUTERS_ENABLED=true');
    expect(() => readConfig({ ...own, CONTROL_PLANE: 'remote' })).toThrow('needs CONTROL_PLANE=kubernetes');
    for (const [other, value] of Object.entries({ SKERRY_RELAY_ROUTER: 'router', SKERRY_RELAY_BUS: 'nats://bus:4222' }))
      expect(() => readConfig({ ...own, [other]: value })).toThrow(`and ${other} exclude each other`);
  });

  it('is refused when it cannot be reached by what is given', () => {
    expect(() => readConfig({ SKERRY_RELAY_ROUTER: 'a/b' })).toThrow('SKERRY_RELAY_ROUTER="a/b": "a/b" is no host');
    expect(() => readConfig({ SKERRY_RELAY_BUS: 'http://bus' })).toThrow('has to be nats://host:port');
    expect(() => readConfig({ SKERRY_RELAY_BUS_CREDENTIALS: '/x' })).toThrow('needs SKERRY_RELAY_BUS');
    expect(() => readConfig({ SKERRY_RELAY_ROUTER_CERTIFICATES: '/x' })).toThrow('needs SKERRY_RELAY_ROUTER');
  });
});

describe('the ssh server of tunnels', () => {
  const tunnelOf = (env: Record<string, string>) => readConfig({ TUNNEL_USERNAME: 'tunnel', ...env }).tunnel;

  it.each([
    ['bastion.example', { host: 'bastion.example', port: 22 }],
    ['bastion.example:2222', { host: 'bastion.example', port: 2222 }],
    ['192.0.2.7:22', { host: '192.0.2.7', port: 22 }],
    ['[2001:db8::1]', { host: '2001:db8::1', port: 22 }],
    ['[2001:db8::1]:2222', { host: '2001:db8::1', port: 2222 }],
  ])('%s has a host and a port', (given, place) => {
    const others = { username: 'tunnel', ports: { first: 2000, last: 10_000 }, localPort: 22 };
    expect(tunnelOf({ TUNNEL_HOST: given })).toEqual({ ...place, ...others });
  });

  it.each([
    '-oProxyCommand=x',
    'a b',
    'a:0',
    'a:65536',
    'a:b',
    '2001:db8::1',
    '[x',
    'tunnel@host',
    'ssh://host',
    '[-a]',
  ])('the host %j is refused', (given) => {
    expect(() => tunnelOf({ TUNNEL_HOST: given })).toThrow(
      `TUNNEL_HOST="${given}": has to be host, host:port or [IPv6]`,
    );
  });

  it.each(['2000', '0-5', '5-4', '1-65536', 'a-b', '-1-5', '2000-10000 '])('the range %j is refused', (given) => {
    expect(() => tunnelOf({ TUNNEL_HOST: 'h', TUNNEL_PORT_RANGE: given })).toThrow('has to be two ports, first-last');
  });

  it('is none without variables, and half of one is refused', () => {
    expect(readConfig({}).tunnel).toBeUndefined();
    for (const half of [{ TUNNEL_HOST: 'h' }, { TUNNEL_USERNAME: 'u' }])
      expect(() => readConfig(half)).toThrow('TUNNEL_HOST and TUNNEL_USERNAME need each other');
    expect(() => readConfig({ SKERRY_TUNNEL_SECRET: 's' })).toThrow('SKERRY_TUNNEL_SECRET needs TUNNEL_HOST');
    for (const name of ['-l', 'a b', '%h'])
      expect(() => readConfig({ TUNNEL_HOST: 'h', TUNNEL_USERNAME: name })).toThrow(`TUNNEL_USERNAME="${name}"`);
  });
});

describe('every variable of the environment', () => {
  const PEM = String(generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' }));
  const TUNNELS = { TUNNEL_HOST: 'bastion.example', TUNNEL_USERNAME: 'tunnel' };
  /** a value that is not the default, and what else the variable needs */
  const ROUTERS = { ROUTERS_ENABLED: 'true', ROUTER_HUB: 'true' };
  const HUB = { BUS_ENABLED: 'true', BUS_HUB_REPLICAS: '1' };
  const PROVIDER = {
    OIDC_ISSUER_URL: 'https://login.example',
    OIDC_CLIENT_ID: 'skerry',
    OIDC_CLIENT_SECRET: '12345678901234567890123456789012',
  };
  const EXTERNAL = { ...PROVIDER, AUTH_MODE: 'external' };
  const BASE64_PEM = Buffer.from(PEM).toString('base64');
  const SAMPLES: Readonly<Record<string, string | [string, Record<string, string>]>> = {
    CONTROLLER_NAMESPACE: 'plant',
    CONTROLLER_NAME: 'plant-3',
    POD_NAME: 'replica-7',
    CONTROL_PLANE: 'remote',
    APP_LABEL: 'plant',
    COMPONENT_LABEL_DOMAIN: 'plant.example',
    CONTROLLER_PUBLIC_URL: 'https://skerry.example',
    SERVER_HOST: '127.0.0.1',
    SERVER_PORT: '1',
    METRICS_PORT: '2',
    INTERNAL_PORT: '3',
    SKERRY_INTERNAL_ADDRESS: '10.0.0.1',
    LOG_LEVEL: 'debug',
    TLS_PATH_CERT: ['/c', { TLS_PATH_KEY: '/k' }],
    TLS_PATH_KEY: ['/k', { TLS_PATH_CERT: '/c' }],
    TLS_PATH_CA: ['/a', { TLS_PATH_CERT: '/c', TLS_PATH_KEY: '/k' }],
    TLS_PATH_INTERMEDIATE_CERT: ['/i', { TLS_PATH_CERT: '/c', TLS_PATH_KEY: '/k' }],
    TLS_BASE64_CERT: [BASE64_PEM, { TLS_BASE64_KEY: BASE64_PEM }],
    TLS_BASE64_KEY: [BASE64_PEM, { TLS_BASE64_CERT: BASE64_PEM }],
    TLS_BASE64_INTERMEDIATE_CERT: [BASE64_PEM, { TLS_PATH_CERT: '/c', TLS_PATH_KEY: '/k' }],
    SKERRY_TLS_HOSTS: 'skerry.example',
    TRUST_PROXY: 'true',
    WS_REPLICA_MAX_CONCURRENT_WS: '7',
    SKERRY_BUDGET_CONTENT_MIB: '7',
    SKERRY_BUDGET_OBJECTS_MIB: '7',
    SKERRY_BUDGET_COUNT: '7',
    SKERRY_BUDGET_USER_PERCENT: '7',
    SKERRY_SOCKETS_OF_USER: '7',
    SKERRY_SESSIONS_OF_USER: '7',
    EVENT_AUDIT_ENABLED: 'false',
    EVENT_CAPTURE_IP_ADDRESS: 'false',
    SKERRY_RELEASES_URL: 'https://releases.example',
    SKERRY_RELEASES_DIR: '/releases',
    SKERRY_RELEASES_KEY: PEM,
    TUNNEL_HOST: ['bastion.example', { TUNNEL_USERNAME: 'tunnel' }],
    TUNNEL_USERNAME: ['tunnel', { TUNNEL_HOST: 'bastion.example' }],
    TUNNEL_PORT_RANGE: ['3000-3004', TUNNELS],
    TUNNEL_LOCAL_PORT: ['8022', TUNNELS],
    SKERRY_TUNNEL_SECRET: ['tunnels', TUNNELS],
    BUS_ENABLED: 'true',
    ROUTERS_ENABLED: 'true',
    ROUTER_HUB: ['true', { ROUTERS_ENABLED: 'true' }],
    ROUTER_HUB_IMAGE: ['mirror.example/router:3', ROUTERS],
    ROUTER_HUB_SERVICE_TYPE: ['LoadBalancer', ROUTERS],
    BUS_HUB_REPLICAS: ['3', { BUS_ENABLED: 'true' }],
    BUS_HUB_IMAGE: ['mirror.example/nats:1', HUB],
    BRIDGE_PORTS_RANGE: '20000-30000',
    SERVICE_ANNOTATION_TAG: 'plant/service',
    SKERRY_DIAL_SERVICES: 'true',
    BUS_HUB_SERVICE_TYPE: ['LoadBalancer', HUB],
    BUS_HUB_STORAGE_CLASS: ['fast', HUB],
    SKERRY_RELAY_DEFAULT_ROUTER: ['true', { ROUTERS_ENABLED: 'true' }],
    SKERRY_RELAY_ROUTER: 'router',
    SKERRY_RELAY_ROUTER_CERTIFICATES: ['/certs', { SKERRY_RELAY_ROUTER: 'router' }],
    SKERRY_RELAY_BUS: 'nats://bus:4222',
    SKERRY_RELAY_BUS_CREDENTIALS: ['/creds', { SKERRY_RELAY_BUS: 'nats://bus:4222' }],
    WS_HA_CROSS_REPLICA_REQUIRES_AMQP: 'false',
    WS_HA_FAIL_FAST_ON_ROUTER_UNAVAILABLE: 'false',
    SKERRY_TOKEN_AUDIENCE: 'plant',
    KUBECONFIG: '/kubeconfig',
    AUTH_MODE: ['external', PROVIDER],
    OIDC_ISSUER_URL: ['https://other.example', EXTERNAL],
    OIDC_CLIENT_ID: ['other', EXTERNAL],
    OIDC_CLIENT_SECRET: ['other', EXTERNAL],
    AUTH_INSECURE_ALLOW_HTTP: 'true',
    CONSOLE_URL: 'https://console.example',
    SKERRY_GROUPS_PREFIX: 'plant',
    SKERRY_OIDC_CA_FILE: ['/ca', EXTERNAL],
    OIDC_BOOTSTRAP_ADMIN_USERNAME: ['root', { OIDC_BOOTSTRAP_ADMIN_PASSWORD: '123456789012' }],
    OIDC_BOOTSTRAP_ADMIN_PASSWORD: ['123456789012', { OIDC_BOOTSTRAP_ADMIN_USERNAME: 'root' }],
    AUTH_INSECURE_ALLOW_BOOTSTRAP_LOG: 'true',
    AUTH_ACCESS_TOKEN_TTL_SECONDS: '60',
    AUTH_REFRESH_TOKEN_TTL_SECONDS: '43200',
    AUTH_RATE_LIMIT_ENABLED: 'false',
    AUTH_RATE_LIMIT_MAX_REQUESTS: '5',
    AUTH_RATE_LIMIT_WINDOW_MS: '1000',
    AUTH_OIDC_INTERACTION_TTL_SECONDS: '60',
    AUTH_OIDC_GRANT_TTL_SECONDS: '60',
    AUTH_OIDC_SESSION_TTL_SECONDS: '60',
    AUTH_OIDC_ID_TOKEN_TTL_SECONDS: '60',
    SKERRY_OAUTH_INTERACTION_URL: '/sign-in',
    AUTH_CONSOLE_CLIENT_ENABLED: 'true',
    OIDC_CONSOLE_CLIENT_ID: ['web', { AUTH_CONSOLE_CLIENT_ENABLED: 'true' }],
    AUTH_SESSION_STORE_TYPE: 'memory',
    AUTH_SESSION_STORE_TTL_MS: '60000',
    AUTH_SESSION_SECRET: '12345678901234567890123456789012',
    OIDC_COOKIE_KEYS: '1234567890123456,6543210987654321',
  };
  const sampleOf = (name: string) => SAMPLES[name] ?? (/_IMAGE_\d$/.test(name) ? 'mirror.example/image:1' : undefined);
  const read = (env: Record<string, string>) => {
    const { identity, ...config } = readConfig(env);
    return { ...config, identity: env.POD_NAME === undefined ? '' : identity };
  };

  it.each(environmentHelp().map(([name]) => name))('%s changes the configuration', (name) => {
    const sample = sampleOf(name);
    if (sample === undefined)
      throw new Error(`a row of SAMPLES is missing: a value of ${name} that is not the default`);
    const [value, others] = Array.isArray(sample) ? sample : [sample, {}];
    // Certificates and keys come in pairs, and so do host and user of tunnels: one of the two alone is refused.
    const before = /^TLS_(PATH|BASE64)_(CERT|KEY)$|^TUNNEL_(HOST|USERNAME)$|^OIDC_BOOTSTRAP/.test(name) ? {} : others;
    expect(read({ ...others, [name]: value })).not.toEqual(read(before));
  });

  it('has a part of the configuration that the controller reads', () => {
    const product = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' })
      .filter(
        (path) =>
          /(?<!\.test)\.ts$/.test(path) &&
          !/(^|\/)_/.test(path) &&
          path !== 'config.ts' &&
          !path.startsWith('settings/'),
      )
      .map((path) => readFileSync(join(import.meta.dirname, path), 'utf8'));
    const isRead = (member: string) => product.some((text) => new RegExp(`\\b${member}\\b`).test(text));
    const all = Object.assign(
      {},
      ...Object.keys(SAMPLES).map((name) => {
        const sample = SAMPLES[name] as string | [string, Record<string, string>];
        const [value, others] = Array.isArray(sample) ? sample : [sample, {}];
        return readConfig({ ...others, [name]: value });
      }),
    );
    expect(membersOf({ ...all, systemImages: {} }).filter((member) => !isRead(member))).toEqual([]);
  });

  it.each([
    [{ AUTH_MODE: 'external' }, /AUTH_MODE=external needs OIDC_ISSUER_URL, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET/],
    [{ ...EXTERNAL, OIDC_CLIENT_SECRET: '' }, /AUTH_MODE=external needs OIDC_CLIENT_SECRET$/],
    [{ AUTH_MODE: 'both' }, /AUTH_MODE="both"/],
    [{ ...EXTERNAL, OIDC_ISSUER_URL: 'http://login.example' }, /OIDC_ISSUER_URL=.*AUTH_INSECURE_ALLOW_HTTP=true/],
    [{ ...EXTERNAL, OIDC_ISSUER_URL: 'https://login.example?a' }, /OIDC_ISSUER_URL=.*without credentials, query/],
    [
      { ...EXTERNAL, OIDC_ISSUER_URL: 'https://a.example/oidc', CONTROLLER_PUBLIC_URL: 'https://a.example/' },
      /OIDC_ISSUER_URL=.*is the issuer of this controller itself/,
    ],
    [{ ...EXTERNAL, OIDC_CLIENT_ID: 'a:b' }, /OIDC_CLIENT_ID="a:b"/],
    [{ OIDC_CLIENT_SECRET: 'short' }, /^OIDC_CLIENT_SECRET: has to be at least 32 characters/],
    [{ OIDC_BOOTSTRAP_ADMIN_USERNAME: 'root' }, /OIDC_BOOTSTRAP_ADMIN_USERNAME and .*_PASSWORD need each other/],
    [{ OIDC_BOOTSTRAP_ADMIN_USERNAME: 'system:admin' }, /OIDC_BOOTSTRAP_ADMIN_USERNAME="system:admin"/],
    [{ AUTH_ACCESS_TOKEN_TTL_SECONDS: '59' }, /AUTH_ACCESS_TOKEN_TTL_SECONDS="59"/],
    [{ AUTH_REFRESH_TOKEN_TTL_SECONDS: '300' }, /AUTH_REFRESH_TOKEN_TTL_SECONDS="300": has to be at least/],
    [{ AUTH_OIDC_INTERACTION_TTL_SECONDS: '59' }, /AUTH_OIDC_INTERACTION_TTL_SECONDS="59"/],
    [{ AUTH_RATE_LIMIT_ENABLED: 'yes' }, /AUTH_RATE_LIMIT_ENABLED="yes"/],
    [{ AUTH_RATE_LIMIT_MAX_REQUESTS: '0' }, /AUTH_RATE_LIMIT_MAX_REQUESTS="0"/],
    [{ AUTH_RATE_LIMIT_WINDOW_MS: '999' }, /AUTH_RATE_LIMIT_WINDOW_MS="999"/],
    [
      { SKERRY_OAUTH_INTERACTION_URL: '//evil.example' },
      /SKERRY_OAUTH_INTERACTION_URL="\/\/evil.example": has to be a path/,
    ],
    [{ SKERRY_OAUTH_INTERACTION_URL: 'https://evil.example' }, /SKERRY_OAUTH_INTERACTION_URL=/],
    [
      { AUTH_CONSOLE_CLIENT_ENABLED: 'true', OIDC_CONSOLE_CLIENT_ID: 'controller' },
      /OIDC_CONSOLE_CLIENT_ID="controller": is OIDC_CLIENT_ID/,
    ],
    [{ AUTH_SESSION_STORE_TYPE: 'redis' }, /AUTH_SESSION_STORE_TYPE="redis"/],
    [{ AUTH_SESSION_STORE_TTL_MS: '59999' }, /AUTH_SESSION_STORE_TTL_MS="59999"/],
    [{ AUTH_SESSION_SECRET: 'short' }, /AUTH_SESSION_SECRET: has to be at least 32 characters/],
    [{ OIDC_COOKIE_KEYS: 'short' }, /OIDC_COOKIE_KEYS: has to be one to eight keys/],
    [{ AUTH_INSECURE_ALLOW_HTTP: 'yes' }, /AUTH_INSECURE_ALLOW_HTTP="yes"/],
    [{ CONSOLE_URL: 'ftp://console.example' }, /CONSOLE_URL=/],
    [{ CONSOLE_URL: 'https://ann:secret@console.example' }, /CONSOLE_URL=/],
    [{ SKERRY_GROUPS_PREFIX: 'system' }, /SKERRY_GROUPS_PREFIX="system"/],
    [{ SKERRY_GROUPS_PREFIX: 'plant:' }, /SKERRY_GROUPS_PREFIX="plant:"/],
    [{ TLS_PATH_CERT: '/c' }, /TLS_PATH_CERT and TLS_PATH_KEY need each other/],
    [{ TLS_BASE64_CERT: BASE64_PEM, TLS_PATH_CERT: '/c' }, /TLS_PATH_CERT and TLS_BASE64_CERT exclude each other/],
    [{ TLS_BASE64_KEY: BASE64_PEM, TLS_PATH_KEY: '/k' }, /TLS_PATH_KEY and TLS_BASE64_KEY exclude each other/],
    [{ TLS_BASE64_INTERMEDIATE_CERT: BASE64_PEM }, /TLS_BASE64_INTERMEDIATE_CERT need TLS_PATH_CERT/],
    [{ TLS_BASE64_CERT: 'a certificate' }, /TLS_BASE64_CERT="a certificate": has to be text in PEM, in base64/],
    [{ TLS_BASE64_KEY: 'aGVsbG8=' }, /TLS_BASE64_KEY: has to be text in PEM, in base64/],
    [{ TLS_BASE64_CERT: BASE64_PEM, TLS_BASE64_KEY: BASE64_PEM, SKERRY_TLS_HOSTS: 'a.example' }, /exclude each other/],
    [{ BUS_HUB_REPLICAS: '3' }, /BUS_HUB_REPLICAS needs BUS_ENABLED/],
    [{ ROUTER_HUB: 'true' }, /ROUTER_HUB needs ROUTERS_ENABLED/],
    [{ ROUTERS_ENABLED: 'true', ROUTER_HUB: 'true', CONTROL_PLANE: 'remote' }, /ROUTER_HUB needs CONTROL_PLANE/],
    [{ ...HUB, CONTROL_PLANE: 'remote' }, /BUS_HUB_REPLICAS needs CONTROL_PLANE=kubernetes/],
    [{ BUS_ENABLED: 'true', BUS_HUB_REPLICAS: '6' }, /BUS_HUB_REPLICAS/],
  ])('%j is refused with the name', (env, why) => expect(() => readConfig(env)).toThrow(why));
});

/** Names of members, at any depth. */
function membersOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(membersOf);
  return Object.entries(value).flatMap(([name, member]) => [name, ...membersOf(member)]);
}

it('a store of logins in memory is accepted, and a warning says that it is the datastore', () => {
  expect(readConfig({ AUTH_SESSION_STORE_TYPE: 'memory' }).warnings).toEqual([
    expect.stringMatching(/^AUTH_SESSION_STORE_TYPE=memory has no effect/),
  ]);
  expect(readConfig({ AUTH_SESSION_STORE_TTL_MS: '120000' }).auth.returnMs).toBe(120_000);
});
