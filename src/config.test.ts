import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { environmentHelp, readConfig } from './config.ts';

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

describe('what is between the replicas for sessions', () => {
  const switches = { requiresBroker: true, failsFast: true };

  it('is the internal port, a router, or before it the bus', () => {
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

  it('is refused when it cannot be reached by what is given', () => {
    expect(() => readConfig({ SKERRY_RELAY_ROUTER: 'a/b' })).toThrow('SKERRY_RELAY_ROUTER="a/b": "a/b" is no host');
    expect(() => readConfig({ SKERRY_RELAY_BUS: 'http://bus' })).toThrow('has to be nats://host:port');
    expect(() => readConfig({ SKERRY_RELAY_BUS_CREDENTIALS: '/x' })).toThrow('needs SKERRY_RELAY_BUS');
    expect(() => readConfig({ SKERRY_RELAY_ROUTER_CERTIFICATES: '/x' })).toThrow('needs SKERRY_RELAY_ROUTER');
  });
});
