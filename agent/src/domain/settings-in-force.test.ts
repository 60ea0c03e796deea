import { expect, test } from 'vitest';
import { parseConfig } from './config.ts';
import type { SettingFacts } from './setting-checks.ts';
import { settingsNotInForce } from './settings-in-force.ts';

const FILE = '/etc/skerry-agent/config.yaml';
const facts: SettingFacts = { hasInterface: () => true, read: () => undefined, kindOf: () => 'absent' };
const file = { wasThere: false, facts };
const started = parseConfig('logLevel: INFO', FILE);

test('a file of settings that cannot be read says so', () => {
  const read = () => {
    throw new Error('EACCES');
  };
  expect(settingsNotInForce({ ...file, read }, started)).toEqual([
    'settings: EACCES; the former ones stay, and the agent does not start with it',
  ]);
});

test.each<[string, string | undefined, string[]]>([
  ['no file', undefined, []],
  ['a change that acts at once', 'logLevel: DEBUG', []],
  ['the default as text', 'localApiPort: "54321"', []],
  [
    'a change that waits for a start',
    'containerEngineUrl: tcp://10.0.0.1:2375\nlocalApiPort: 0',
    ['settings: localApiPort, containerEngineUrl of the file take effect when the agent starts again'],
  ],
  [
    'a value that is not valid',
    'statusFrequency: x',
    [
      `settings: ${FILE}: statusFrequency "x": must be a number; the former ones stay, and the agent does not start with it`,
    ],
  ],
  [
    'a time zone that does not exist',
    'timeZone: Mars',
    [
      'settings: timeZone "Mars": must be an IANA time zone such as Europe/Berlin; the agent does not take them while it runs',
    ],
  ],
])('a file of settings with %s says what of it is not in force', (_, text, problems) => {
  expect(settingsNotInForce({ ...file, read: () => text }, started)).toEqual(problems);
});

test('a file of settings that is not there any more says so, and is not taken for one with the defaults', () => {
  expect(settingsNotInForce({ ...file, wasThere: true, read: () => undefined }, started)).toEqual([
    `settings: ${FILE} is not there any more; the former ones stay, and the next start takes the defaults`,
  ]);
});
