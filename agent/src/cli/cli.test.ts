import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { AgentError } from '../domain/agent-error.ts';
import { parseConfig } from '../domain/config.ts';
import { runInProcess } from './_run.ts';
import { requiredMoment } from './commands/logs.ts';
import { COMMANDS } from './commands.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
  writeFileSync(join(folder, 'config.yaml'), 'diskDirectory: data\n');
});

const cli = (...args: string[]) => runInProcess(['--config', join(folder, 'config.yaml'), ...args]);

test('a text of a container or a user has no control character in what a command prints', async () => {
  const { code, err } = await cli('fly\u001b[2J\u009b31m\r');
  expect(code).toBe(2);
  expect(err).toContain('fly\\u001b[2J\\u009b31m\\u000d');
  expect(err).not.toMatch(/(?!\n)\p{Cc}/u);
});

describe('help', () => {
  test('lists every command and the exit codes', async () => {
    const { code, out } = await cli('--help');
    expect(code).toBe(0);
    for (const { name, about } of COMMANDS)
      expect(out).toMatch(new RegExp(`^  ${name}\\b.*${about.slice(0, 20)}`, 'm'));
    expect(out).toMatch(/Exit codes: 0 done; 1 .* 10 no agent answers/);
  });

  test.each(COMMANDS.map(({ name }) => name))('has a page for the command %s', async (name) => {
    const { code, out } = await cli(...name.split(' '), '--help');
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`Usage: skerry-agent ${name}`));
    expect(out).toContain('--output <value>');
  });
});

/** Arguments -> exit code and error text, which ends with a next step. */
const wrong: Record<string, [string[], number, RegExp]> = {
  'an unknown command': [['fly'], 2, /no command "fly"\nSee: skerry-agent --help/],
  'an unknown subcommand': [['ms', 'fly'], 2, /no command "ms fly"\nThere is: ms ls, ms inspect/],
  'an unknown flag': [['status', '--fast'], 2, /"status" has no flag --fast\nSee: skerry-agent status --help/],
  'an unknown output format': [['status', '-o', 'xml'], 2, /no output format "xml"\nOne of: human, json, yaml/],
  'status without a running agent': [
    ['status'],
    10,
    /\[DAEMON_UNAVAILABLE\]: no agent answers at .*api\.sock\nStart it with: skerry-agent start --config/,
  ],
  'a misspelt flag of start': [
    ['start', '--conifg', '/tmp/x'],
    2,
    /"start" has no flag --conifg\nSee: skerry-agent start --help/,
  ],
  'a misspelt flag of version': [['version', '--ouptut=json'], 2, /"version" has no flag --ouptut/],
  'a misspelt flag without a command': [['--conifg', '/tmp/x'], 2, /no (flag --conifg|command)/],
  'an unknown flag of help': [['help', '-z'], 2, /"help" has no flag -z/],
  'help for an unknown command': [['help', 'fly'], 2, /no command "fly"/],
  'a value for a flag without one': [['doctor', '--json=no'], 2, /--json takes no value/],
  'an argument for a command without any': [
    ['status', 'now'],
    2,
    /"status" takes no words; too much: now\nSee: skerry-agent status --help/,
  ],
  'a second argument for a command with one': [
    ['ms', 'stop', 'a', 'b'],
    2,
    /"ms stop" takes <microservice> alone; too much: b/,
  ],
  'an argument for start': [['start', 'now'], 2, /"start" takes no words/],
  'a time that cannot be parsed': [['logs', '--since', '10'], 2, /--since is "10".*\nSuch as .*10m/],
  'a configuration file that does not exist': [
    ['status', '-c', '/nowhere/x.yaml'],
    2,
    /there is no file \/nowhere\/x\.yaml/,
  ],
  'provision without a join string': [
    ['provision'],
    2,
    /the join string is missing\nIt is an argument, or in \$SKERRY_JOIN/,
  ],
};
for (const [name, [args, code, text]] of Object.entries(wrong))
  test(`${name} is an error with a next step`, async () => {
    const result = await cli(...args);
    expect(result.code).toBe(code);
    expect(result.err).toMatch(text);
    expect(result.out).toBe('');
  });

test('a command to an agent that does not run says that its file of settings is invalid', async () => {
  writeFileSync(join(folder, 'config.yaml'), 'diskDirectory: data\nstatusFrequency: x\n');
  const { code, err } = await cli('status');
  expect(code).toBe(2);
  expect(err).toMatch(/config\.yaml: statusFrequency "x": must be a number\nCorrect the file/);
});

test('start beside another agent is a conflict, not an error of the program', async () => {
  const { code, err } = await runInProcess(['--config', join(folder, 'config.yaml'), 'start'], {
    runAgent: () => Promise.reject(new AgentError('CONFLICT', 'another agent answers at /s; stop it first')),
  });
  expect({ code, err }).toEqual({ code: 5, err: 'Error[CONFLICT]: another agent answers at /s; stop it first\n' });
});

test('a duration as a time means that long ago', () => {
  const now = Date.parse('2026-05-01T10:00:00Z');
  for (const [text, at] of Object.entries({
    '90s': '2026-05-01T09:58:30.000Z',
    '10m': '2026-05-01T09:50:00.000Z',
    '2h': '2026-05-01T08:00:00.000Z',
    '1d': '2026-04-30T10:00:00.000Z',
    '2026-04-01T00:00:00+02:00': '2026-03-31T22:00:00.000Z',
  }))
    expect(requiredMoment(text, 'since', now)).toBe(at);
});

test.runIf(process.getuid?.() === 0)(
  'a user without the permissions gets an error that says to run it as the user of the agent',
  async () => {
    writeFileSync(join(folder, 'config.yaml'), 'diskDirectory: /root/not-for-others\n');
    chmodSync(folder, 0o755);
    const main = join(import.meta.dirname, '../main.ts');
    for (const words of [['start'], ['status', '-c', '/root/.profile']]) {
      const { status, stderr } = spawnSync(
        'setpriv',
        [
          '--reuid=65534',
          '--regid=65534',
          '--clear-groups',
          process.execPath,
          main,
          '--config',
          join(folder, 'config.yaml'),
          ...words,
        ],
        { encoding: 'utf8', timeout: 60_000 },
      );
      expect([status, stderr.split('\n').slice(-3)], words.join(' ')).toEqual([
        3,
        [
          // Which path it meets first depends on what engines left on the machine.
          expect.stringMatching(/^Error\[FORBIDDEN\]: \/\S+/),
          'Run this as the user that the agent runs as, usually root.',
          '',
        ],
      ]);
    }
  },
);

describe('the lists of what this machine has for containers', () => {
  /** An agent that answers these lists. */
  async function answering(lists: Record<string, object[]>): Promise<void> {
    mkdirSync(join(folder, 'data/run'), { recursive: true });
    const server = createServer(({ url = '' }, response) => {
      response.end(JSON.stringify({ items: lists[url.replace('/v1/', '')] ?? [] }));
    });
    await new Promise<void>((resolve) => server.listen(join(folder, 'data/run/api.sock'), resolve));
    onTestFinished(() => void server.close());
  }
  const lines = async (...args: string[]) => (await cli(...args)).out.split('\n');

  test('show state, progress, size and age of models and knowledge, and errors below', async () => {
    const tiny = {
      name: 'tiny',
      source: 'local',
      state: 'Pulling',
      percentage: 40,
      repo: 'team/tiny',
      revision: 'main',
      lastError: '',
    };
    const old = { ...tiny, name: 'old', state: 'Ready', totalBytes: 2_097_152, pulledAt: Date.now() - 200_500 };
    await answering({ models: [{ ...old, resolvedRevision: 'a'.repeat(40), lastError: 'status 503' }, tiny] });
    expect(await lines('model', 'ls')).toEqual([
      'NAME   SOURCE   STATE         SIZE      AGE      REPO        REVISION   RESOLVED',
      'old    local    Ready         2.0 MiB   3m 20s   team/tiny   main       aaaaaaaaaaaa',
      'tiny   local    Pulling 40%                      team/tiny   main',
      '',
      'old: status 503',
      '',
    ]);
    expect(await lines('knowledge', 'ls')).toEqual(['No knowledge on this node', '']);
  });

  test('show state, number of keys, size and age of volume mounts', async () => {
    const creds = { name: 'creds', state: 'Ready', type: 'secret', keys: 2, size: 41, changedAt: Date.now() - 5500 };
    await answering({ 'volume-mounts': [{ ...creds, uuid: 'u1', lastError: '' }] });
    expect(await lines('volume-mount', 'ls')).toEqual([
      'NAME    STATE   TYPE     KEYS   SIZE   AGE   UUID',
      'creds   Ready   secret   2      41 B   5s    u1',
      '',
    ]);
  });

  test('show state, number of files, size and age of the sets of the system', async () => {
    const certificates = { name: 'certificates', state: 'Ready', files: 3, size: 4100, changedAt: Date.now() - 5500 };
    const router = { name: 'router', state: 'Failed', files: 0, size: 0, lastError: 'no room' };
    await answering({ 'system-files': [{ ...certificates, lastError: '' }, router] });
    expect(await lines('system-file', 'ls')).toEqual([
      'NAME           STATE    FILES   SIZE      AGE',
      'certificates   Ready    3       4.0 KiB   5s',
      'router         Failed   0       0 B',
      '',
      'router: no room',
      '',
    ]);
  });
});

test('doctor prints a table or JSON, and exits with 1 when a check failed', async () => {
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

test('doctor works with a configuration file that other commands refuse', async () => {
  writeFileSync(join(folder, 'config.yaml'), 'statusFrequency: soon\n');
  expect((await cli('status')).code).toBe(2);
  const { code, out } = await cli('doctor');
  expect(code).toBe(1);
  expect(out).toMatch(/FAILED {3}settings .*statusFrequency/);
});

describe('flags of every command', () => {
  test('--socket names an agent whose settings cannot be read, and its token is beside it', async () => {
    const run = join(folder, 'elsewhere');
    mkdirSync(run);
    writeFileSync(join(run, 'token'), 'the token\n');
    writeFileSync(join(folder, 'config.yaml'), 'a: [');
    const server = createServer(({ headers, url }, response) => {
      response.end(JSON.stringify({ success: true, data: { subject: headers.authorization, url } }));
    });
    await new Promise<void>((resolve) => server.listen(join(run, 'api.sock'), resolve));
    onTestFinished(() => void server.close());
    const who = ['auth', 'whoami', '--socket', join(run, 'api.sock')];
    expect(await cli(...who)).toMatchObject({ code: 0, out: expect.stringContaining('Bearer the token') });
    expect(await cli(...who, '--quiet')).toEqual({ code: 0, out: '', err: '' });
    expect((await cli(...who, '--quiet', '-o', 'json')).out).toContain('Bearer the token');
    expect((await cli(...who, '--verbose')).err).toMatch(/^GET \/v1\/auth\/whoami: 200, \d+ ms\n$/);
  });

  test('--timeout bounds the wait for an answer', async () => {
    mkdirSync(join(folder, 'data/run'), { recursive: true });
    const server = createServer(() => {});
    await new Promise<void>((resolve) => server.listen(join(folder, 'data/run/api.sock'), resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const { code, err } = await cli('auth', 'whoami', '--timeout', '1s');
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/^Error\[TIMEOUT\]: .* no answer within 1 s\nGive it more time/),
    ]);
    expect((await cli('auth', 'whoami', '--timeout', 'soon')).code).toBe(2);
    expect((await cli('auth', 'whoami', '--timeout', '25h')).code).toBe(2);
  });
});

test('a completion for bash finds commands, commands below commands, flags, and shells', async () => {
  const { out } = await cli('completion', 'bash');
  const complete = (...words: string[]) => {
    const script = `${out}\nCOMP_WORDS=(skerry-agent ${words.join(' ')} '')\nCOMP_CWORD=${words.length + 1}\n_skerry_agent\necho "\${COMPREPLY[@]}"`;
    return spawnSync('bash', ['-c', script], { encoding: 'utf8' }).stdout.trim().split(' ');
  };
  expect(complete()).toEqual(expect.arrayContaining(['status', 'config', 'gps']));
  expect(complete('config')).toEqual(expect.arrayContaining(['switch', 'cert', '--log-level', '--quiet']));
  for (const before of [['-o', 'json'], ['--config', 'gps'], ['--quiet'], ['--output=yaml']])
    expect(complete(...before, 'gps')).toEqual(['get', 'set']);
  expect(complete('gps', '--socket')).toEqual(['']);
  expect(complete('completion')).toEqual(expect.arrayContaining(['bash', 'zsh', 'fish']));
});

test.each(['zsh', 'fish'])('a completion for %s names every command', async (shell) => {
  const { code, out } = await cli('completion', shell);
  expect(code).toBe(0);
  for (const { name } of COMMANDS) expect(out).toContain(`'${name}'`);
});

test('a file of settings is made once, and is valid', async () => {
  const file = join(folder, 'new.yaml');
  expect(await cli('init-config', file)).toMatchObject({ code: 0, out: `Wrote ${file}\n` });
  expect(parseConfig(readFileSync(file, 'utf8'), file)).toMatchObject({ logLevel: 'INFO', unknownNames: [] });
  expect((await cli('init-config', file)).code).toBe(5);
  expect((await cli('init-config', file, '--force')).code).toBe(0);
});
