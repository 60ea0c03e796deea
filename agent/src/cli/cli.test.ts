import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { runCli } from './cli.ts';
import { COMMANDS } from './commands.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'skerry-cli-'));
  writeFileSync(join(folder, 'config.yaml'), 'diskDirectory: data\n');
  return () => rmSync(folder, { recursive: true, force: true });
});

async function cli(...args: string[]) {
  let out = '';
  let err = '';
  const code = await runCli([...args, '--config', join(folder, 'config.yaml')], {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env: {},
    signal: new AbortController().signal,
  });
  return { code, out, err };
}

describe('help', () => {
  test('lists every command and the exit codes', async () => {
    const { code, out } = await cli('--help');
    expect(code).toBe(0);
    for (const { name, summary } of COMMANDS)
      expect(out).toMatch(new RegExp(`^  ${name}\\b.*${summary.slice(0, 20)}`, 'm'));
    expect(out).toMatch(/Exit codes: 0 done; 1 .* 10 no agent answers/);
  });

  test.each(COMMANDS.map(({ name }) => name))('%s has a page of its own', async (name) => {
    const { code, out } = await cli(...name.split(' '), '--help');
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`Usage: skerry-agent ${name}`));
    expect(out).toContain('--output <value>');
  });
});

/** Words -> exit code, and what the error says; each ends with a next step. */
const wrong: Record<string, [string[], number, RegExp]> = {
  'a command that there is not': [['fly'], 2, /no command "fly"\nSee: skerry-agent --help/],
  'half a command': [['ms', 'fly'], 2, /no command "ms fly"\nThere is: ms ls, ms inspect/],
  'a flag that there is not': [['status', '--fast'], 2, /"status" has no flag --fast\nSee: skerry-agent status --help/],
  'a format that there is not': [['status', '-o', 'xml'], 2, /no output format "xml"\nOne of: human, json, yaml/],
  'no agent': [
    ['status'],
    10,
    /\[DAEMON_UNAVAILABLE\]: no agent answers at .*api\.sock\nStart it with: skerry-agent start --config/,
  ],
  'no join string': [['provision'], 2, /the join string is missing\nSee --help/],
};
for (const [name, [args, code, text]] of Object.entries(wrong))
  test(`${name} is an error with a next step`, async () => {
    const said = await cli(...args);
    expect(said.code).toBe(code);
    expect(said.err).toMatch(text);
    expect(said.out).toBe('');
  });

test('doctor answers people and programs, and its exit code says whether something failed', async () => {
  const people = await cli('doctor');
  expect(people.code).toBe(1);
  expect(people.out).toMatch(/^FAILED {3}daemon {9}no agent answers at .*\n {24}-> Start it/m);
  expect(people.out).toMatch(/\n\n\d failed, \d warnings?\.\n$/);
  const programs = JSON.parse((await cli('doctor', '--json')).out);
  expect(programs).toMatchObject({ healthy: false });
  expect(programs.checks).toContainEqual(
    expect.objectContaining({ check: 'daemon', status: 'failed', problem: 'absent', todo: expect.any(String) }),
  );
});

test('doctor works with settings that nothing else works with', async () => {
  writeFileSync(join(folder, 'config.yaml'), 'statusFrequency: soon\n');
  expect((await cli('status')).code).toBe(2);
  const { code, out } = await cli('doctor');
  expect(code).toBe(1);
  expect(out).toMatch(/FAILED {3}settings .*statusFrequency/);
});
