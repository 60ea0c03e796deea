import { describe, expect, test } from 'vitest';
import { ConfigError, changeConfig, parseConfig, settingError, settingName } from './config.ts';

const parse = (text?: string) => parseConfig(text, '/etc/skerry-agent/config.yaml');

test.each([
  ['statusFrequency', 'x', 'must be a number'],
  ['statusFrequency', 0, 'must be at least 1'],
  ['localApiPort', 70000, 'must be at most 65535'],
  ['logLevel', 'LOUD', 'must be one of DEBUG, INFO, WARN, ERROR'],
  ['diskDirectory', 7, 'must be text'],
] as const)('the setting %s: %s is refused with the allowed values', (name, value, says) => {
  expect(settingError(name, value)).toBe(says);
});

describe('a configuration file', () => {
  test('that does not exist gives the defaults', () =>
    expect(parse()).toMatchObject({
      diskDirectory: '/var/lib/skerry-agent',
      runDirectory: '/run/skerry-agent',
      socket: '/run/skerry-agent/api.sock',
      policyFile: '/etc/skerry-agent/policy.yaml',
      secureMode: true,
      logLevel: 'INFO',
    }));
  test('in its plain form is read', () =>
    expect(parse('logLevel: debug\nstatusFrequency: 5')).toMatchObject({ logLevel: 'DEBUG', statusFrequency: 5 }));
  test('with profiles and values as text is read', () =>
    expect(
      parse(
        'currentProfile: development\nprofiles: {default: {logLevel: WARN}, development: {logLevel: ERROR, statusFrequency: "7", devMode: "on"}}',
      ),
    ).toMatchObject({ logLevel: 'ERROR', statusFrequency: 7, devMode: true }));
  test('may use the neutral names of engines', () =>
    expect(parse('containerEngine: engine_a').containerEngine).toBe('docker'));
  test('may have unknown settings', () => expect(parse('somethingElse: 1').logLevel).toBe('INFO'));
  test('has paths that are relative to its directory', () =>
    expect(parse('diskDirectory: data')).toMatchObject({
      diskDirectory: '/etc/skerry-agent/data',
      runDirectory: '/etc/skerry-agent/data/run',
    }));

  const wrong: Record<string, [string, RegExp]> = {
    'that is not YAML': ['a: [', /is not YAML: Flow sequence in block collection must [^\n]* at line 1, column 5$/],
    'that is not a map': ['- a', /is not a map/],
    'with a wrong value': ['statusFrequency: 0', /statusFrequency 0: must be at least 1/],
    'with an engine URL of an unknown scheme': ['containerEngineUrl: /var/run/docker.sock', /begins with unix/],
  };
  for (const [name, [text, says]] of Object.entries(wrong))
    test(`${name} is refused with an error that names file and setting`, () => {
      expect(() => parse(text)).toThrow(ConfigError);
      expect(() => parse(text)).toThrow(says);
      expect(() => parse(text)).toThrow(/config\.yaml/);
    });
});

test('settings have a name of the local API and a short name', () => {
  expect(['diskLimitGiB', 'sf', 'timezone', 'logLevel', 'nonsense'].map(settingName)).toEqual([
    'diskLimit',
    'statusFrequency',
    'timeZone',
    'logLevel',
    undefined,
  ]);
});

describe('a change of a configuration file', () => {
  test('keeps comments and all other settings', () =>
    expect(changeConfig('# mine\nlogLevel: INFO\nother: 1\n', { logLevel: 'DEBUG' })).toBe(
      '# mine\nlogLevel: DEBUG\nother: 1\n',
    ));
  test('applies to the profile in use', () =>
    expect(changeConfig('currentProfile: a\nprofiles:\n  a:\n    logLevel: INFO\n', { logLevel: 'DEBUG' })).toContain(
      '    logLevel: DEBUG',
    ));
  test('creates a file that does not exist', () =>
    expect(changeConfig(undefined, { logLevel: 'DEBUG' })).toBe('logLevel: DEBUG\n'));
});
