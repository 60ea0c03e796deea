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
