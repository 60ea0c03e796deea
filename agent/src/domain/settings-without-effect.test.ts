import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { agentConfigSchema } from '../../../src/wire/agent.ts';
import { parseConfig, SETTING_NAMES } from './config.ts';
import { settingsWithoutEffect, WITHOUT_EFFECT } from './settings-without-effect.ts';

const ROOT = join(import.meta.dirname, '../../..');

/** Settings that `parseConfig` turns into another member of Config, which is what others read. */
const READ_AS: Readonly<Record<string, string>> = { configDirectory: 'policyFile' };

/** The sources of the agent, without those that only define or show settings, comments and texts. */
function readers(): string {
  const files = globSync('agent/src/**/*.ts', { cwd: ROOT }).filter(
    (file) =>
      !/(\.test\.ts|\/_[^/]*|domain\/config\.ts|without-effect\.ts|local-api\/routes\/system\/shapes\.ts)$/.test(file),
  );
  return files
    .map((file) => readFileSync(join(ROOT, file), 'utf8'))
    .join('\n')
    .replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
    .replace(/'[^'\n]*'/g, '')
    .replace(/^\s*(\w+): config\.\1,$/gm, '');
}

test('every setting of the file and of the controller is read somewhere, or is listed as one without effect', () => {
  const text = readers();
  const names = [...SETTING_NAMES, ...Object.keys(agentConfigSchema.shape)];
  const unread = names.filter(
    (name) => !(name in WITHOUT_EFFECT) && !new RegExp(`\\b${READ_AS[name] ?? name}\\b`).test(text),
  );
  expect(unread).toEqual([]);
});

test('the page of settings has a row for every setting without effect, and for no other', () => {
  const page = readFileSync(join(ROOT, 'docs/spec/agent-local-api.md'), 'utf8');
  const part = page.split('### Settings without effect\n')[1]?.split('\n## ')[0] ?? '';
  const rows = [...part.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
  expect(rows).toEqual(Object.keys(WITHOUT_EFFECT));
});

const file = '/etc/skerry-agent/config.yaml';

test('a file without settings that do nothing has no such line', () => {
  expect(settingsWithoutEffect(parseConfig('statusFrequency: 5\ngpsMode: manual\n', file))).toEqual([]);
});

test('a setting that does nothing, and a misspelt one, are named with the reason', () => {
  const text = 'gpsMode: auto\nlogLimit: 2\nstatusFrequncy: 5\n';
  expect(settingsWithoutEffect(parseConfig(text, file))).toEqual([
    'gpsMode has no effect: gpsMode auto needs gpsLookupUrl in the settings of the machine',
    'logLimit has no effect: without logDirectory there are no log files',
    'statusFrequncy: no such setting',
  ]);
  expect(settingsWithoutEffect(parseConfig('logLimit: 2\nlogDirectory: /var/log/skerry-agent\n', file))).toEqual([]);
});
