import { describe, expect, test } from 'vitest';
import { ConfigError, changeConfig, parseConfig, settingName } from './config.ts';

const parse = (text?: string) => parseConfig(text, '/etc/skerry-agent/config.yaml');

describe('a file of settings', () => {
  test('that is not there sets nothing', () =>
    expect(parse()).toMatchObject({
      diskDirectory: '/var/lib/skerry-agent',
      runDirectory: '/run/skerry-agent',
      socket: '/run/skerry-agent/api.sock',
      policyFile: '/etc/skerry-agent/policy.yaml',
      secureMode: true,
      logLevel: 'INFO',
    }));
  test('in its plain form', () =>
    expect(parse('logLevel: debug\nstatusFrequency: 5')).toMatchObject({ logLevel: 'DEBUG', statusFrequency: 5 }));
  test('with profiles, values as text', () =>
    expect(
      parse(
        'currentProfile: development\nprofiles: {default: {logLevel: WARN}, development: {logLevel: ERROR, statusFrequency: "7", devMode: "on"}}',
      ),
    ).toMatchObject({ logLevel: 'ERROR', statusFrequency: 7, devMode: true }));
  test('with neutral names of engines', () =>
    expect(parse('containerEngine: engine_a').containerEngine).toBe('docker'));
  test('with settings that others know', () => expect(parse('somethingElse: 1').logLevel).toBe('INFO'));
  test('with paths relative to itself', () =>
    expect(parse('diskDirectory: data')).toMatchObject({
      diskDirectory: '/etc/skerry-agent/data',
      runDirectory: '/etc/skerry-agent/data/run',
    }));

  const wrong: Record<string, [string, RegExp]> = {
    'that is not YAML': ['a: [', /is not YAML/],
    'that is no map': ['- a', /is not a map/],
    'with a wrong value': ['statusFrequency: 0', /statusFrequency: /],
    'with an engine URL of no known kind': ['containerEngineUrl: /var/run/docker.sock', /begins with unix/],
  };
  for (const [name, [text, says]] of Object.entries(wrong))
    test(`${name} is refused, and the text says where`, () => {
      expect(() => parse(text)).toThrow(ConfigError);
      expect(() => parse(text)).toThrow(says);
      expect(() => parse(text)).toThrow(/config\.yaml/);
    });
});

test('settings are known by their names in the local API and by short ones', () => {
  expect(['diskLimitGiB', 'sf', 'timezone', 'logLevel', 'nonsense'].map(settingName)).toEqual([
    'diskLimit',
    'statusFrequency',
    'timeZone',
    'logLevel',
    undefined,
  ]);
});

describe('changing a file', () => {
  test('keeps comments and what is not changed', () =>
    expect(changeConfig('# mine\nlogLevel: INFO\nother: 1\n', { logLevel: 'DEBUG' })).toBe(
      '# mine\nlogLevel: DEBUG\nother: 1\n',
    ));
  test('changes the profile in use', () =>
    expect(changeConfig('currentProfile: a\nprofiles:\n  a:\n    logLevel: INFO\n', { logLevel: 'DEBUG' })).toContain(
      '    logLevel: DEBUG',
    ));
  test('makes one that is not there', () =>
    expect(changeConfig(undefined, { logLevel: 'DEBUG' })).toBe('logLevel: DEBUG\n'));
});
