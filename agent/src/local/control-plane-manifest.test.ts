import { describe, expect, test } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { controlPlaneManifest, SECRETS } from './_control-plane.ts';
import { maskedControlPlaneManifest, readControlPlaneManifest } from './control-plane-manifest.ts';

const settingsOf = (spec: object = {}) =>
  Object.fromEntries(
    readControlPlaneManifest(controlPlaneManifest(spec))
      .view('')
      .env.map(({ key, value }) => [key, value]),
  );

const everything = {
  controller: {
    ...{ image: 'example/control-plane:1', registry: 1, port: 8443 },
    ...{ publicUrl: 'https://hub.example:8443', trustProxy: false },
  },
  console: { url: 'https://console.example' },
  auth: {
    mode: 'embedded',
    insecureAllowHttp: false,
    insecureAllowBootstrapLog: true,
    bootstrap: { username: 'ann', password: 'Limpets-hold-1' },
    consoleClient: 'web',
    consoleClientEnabled: true,
    rateLimit: { enabled: true, maxRequestsPerWindow: 10, windowMs: 60_000 },
    sessionStore: { type: 'database', ttlMs: 600_000, secret: 'x'.repeat(32) },
    tokenTtl: { accessTokenTtlSeconds: 900, refreshTokenTtlSeconds: 3600 },
    oidcTtl: { interactionTtlSeconds: 600, grantTtlSeconds: 600, sessionTtlSeconds: 3600, idTokenTtlSeconds: 900 },
  },
  events: { auditEnabled: true, captureIpAddress: false },
  systemMicroservices: { router: { amd64: 'example/router:1' }, bus: { arm64: 'example/bus:1' } },
  bus: { enabled: true },
  logLevel: 'debug',
};

test('the controller takes every setting that the manifest of a control plane can have', () => {
  const { CERTIFICATE_HOSTS: hosts = '', ...settings } = settingsOf(everything);
  const config = readConfig({ ...settings, SKERRY_TLS_HOSTS: hosts, CONTROL_PLANE: 'remote' });
  expect(config).toMatchObject({ controlPlane: 'remote', publicUrl: 'https://hub.example:8443', logLevel: 'debug' });
  expect(config.systemImages).toEqual({ router: { 1: 'example/router:1' }, bus: { 2: 'example/bus:1' } });
});

test('a control plane without settings has a certificate of its own and answers this machine', () => {
  expect(settingsOf()).toMatchObject({
    CONTROLLER_PUBLIC_URL: 'https://127.0.0.1:51121',
    CERTIFICATE_HOSTS: 'localhost,127.0.0.1,skerry-agent.controller.svc.bridge.local',
  });
  expect(
    settingsOf({ controller: { image: 'a:1', publicUrl: 'https://a.example', trustProxy: true } }),
  ).not.toHaveProperty('CERTIFICATE_HOSTS');
});

test('the container of a control plane has no rights, one port and one volume of its own', () => {
  const view = readControlPlaneManifest(controlPlaneManifest(everything)).view('u');
  expect(view).toMatchObject({
    ...{ name: 'controller', application: 'skerry-agent', isController: true, runAsUser: '65532' },
    ...{ readOnlyRootFilesystem: true, capDrop: ['ALL'], isPrivileged: false, hostNetworkMode: false },
    portMappings: [{ internal: 8443, external: 8443, protocol: 'tcp' }],
    volumeMappings: [{ type: 'volume', scope: 'private', containerDestination: '/var/lib/skerry' }],
  });
});

const external = (change: object) => ({
  ...{ mode: 'external', issuerUrl: 'https://idp.example', client: { id: 'skerry', secret: 's' } },
  ...change,
});

test('an issuer and a console may have a path', () => {
  const auth = external({ issuerUrl: 'https://idp.example/realms/a/' });
  expect(settingsOf({ auth, console: { url: 'http://console.example/ui' } })).toMatchObject({
    OIDC_ISSUER_URL: 'https://idp.example/realms/a/',
    CONSOLE_URL: 'http://console.example/ui',
  });
});

describe('a manifest of a control plane is refused', () => {
  const cases: Record<string, [spec: object, message: RegExp]> = {
    'a database of others': [
      { database: { provider: 'postgres', password: SECRETS.canary } },
      /^spec\.database: .*leave it out$/,
    ],
    'a vault': [{ vault: { enabled: true } }, /^spec\.vault: /],
    'a port of a console': [{ console: { port: 8008 } }, /^spec\.console\.port: there is no console/],
    'a life of events': [{ events: { retentionDays: 7 } }, /^spec\.events\.retentionDays: /],
    'a clean-up of events': [{ events: { cleanupInterval: 7 } }, /^spec\.events\.cleanupInterval: /],
    'sessions in memory': [
      { auth: { mode: 'embedded', sessionStore: { type: 'memory' } } },
      /^spec\.auth\.sessionStore\.type: /,
    ],
    'a weak password': [
      { auth: { mode: 'embedded', bootstrap: { username: 'ann', password: 'canary' } } },
      /^spec\.auth\.bootstrap\.password: must have at least 12/,
    ],
    'a password without a name': [
      { auth: { mode: 'embedded', bootstrap: { password: 'Limpets-hold-1' } } },
      /^spec\.auth\.bootstrap: username and password/,
    ],
    'an external provider without a secret': [{ auth: { mode: 'external' } }, /^spec\.auth: the mode external needs/],
    'an issuer of its own': [
      { auth: { mode: 'embedded', issuerUrl: 'https://a.example' } },
      /^spec\.auth\.issuerUrl: /,
    ],
    'two certificates': [{ tls: { path: '/etc/tls', base64: { cert: 'a', key: 'b' } } }, /^spec\.tls: path and base64/],
    'half a certificate': [{ tls: { base64: { cert: 'a' } } }, /^spec\.tls\.base64: cert and key/],
    'a relative folder': [{ tls: { path: 'tls' } }, /^spec\.tls\.path: must be the absolute path/],
    'a URL with a password': [
      { controller: { image: 'a:1', publicUrl: 'https://a:b@c.example' } },
      /^spec\.controller\.publicUrl: must be/,
    ],
    'an issuer with a password': [
      { auth: external({ issuerUrl: 'https://ann:canary@idp.example/realms/a' }) },
      /^spec\.auth\.issuerUrl: must be/,
    ],
    'an issuer with a query': [
      { auth: external({ issuerUrl: 'https://idp.example/?key=canary' }) },
      /^spec\.auth\.issuerUrl: must be/,
    ],
    'an issuer that is no URL': [{ auth: external({ issuerUrl: 'canary' }) }, /^spec\.auth\.issuerUrl: must be/],
    'a console with a password': [
      { console: { url: 'https://ann:canary@console.example' } },
      /^spec\.console\.url: must be/,
    ],
    'a port of the agent': [{ controller: { image: 'a:1', port: 54321 } }, /^spec\.controller\.port: 54321 is a port/],
    'no authentication': [{ auth: undefined }, /^spec\.auth: is required/],
    'an unknown member': [{ siteCA: {} }, /^spec: unknown field "siteCA"/],
  };
  for (const [what, [spec, message]] of Object.entries(cases))
    test(`with ${what}`, () => {
      const refuse = () => readControlPlaneManifest(controlPlaneManifest(spec));
      expect(refuse).toThrow(message);
      expect(refuse).not.toThrow(/canary/i);
    });

  test('with labels', () => {
    expect(() => readControlPlaneManifest(controlPlaneManifest({}, { labels: { a: 'b' } }))).toThrow(
      'metadata: unknown field "labels"',
    );
  });
});

test('a masked manifest of a control plane has no secret, wherever it is', () => {
  const masked = maskedControlPlaneManifest(controlPlaneManifest(SECRETS.spec));
  expect(masked).not.toContain('Canary');
  expect(masked).toContain('issuer.example');
  expect(masked.match(/\*\*\*/g)).toHaveLength(5);
});
