import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { makeTunnel } from './_make.ts';
import { sshClient } from './ssh-client.ts';

/** A machine whose `ssh` is a script of the test; what it says of itself is in files of the folder. */
function machineWith(script: string) {
  const folder = temporaryFolder();
  const file = (name: string) => join(folder, name);
  mkdirSync(file('bin'));
  writeFileSync(file('bin/ssh'), `#!/bin/sh\ncd '${folder}'\n${script}\n`);
  chmodSync(file('bin/ssh'), 0o755);
  const path = `${file('bin')}:/usr/bin:/bin`;
  return {
    file,
    path,
    text: (name: string) => readFileSync(file(name), 'utf8'),
    client: sshClient(file('tunnel'), path),
  };
}
const ACCEPTED = 'echo "debug1: remote forward success for: listen 2001, connect localhost:22" >&2';
const never = new AbortController().signal;

const until = (what: () => boolean) => expect.poll(what, { interval: 20 }).toBe(true);

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

test('ssh has the files of the tunnel, which only the agent can read, and no variable of any user', async () => {
  process.env.SSH_AUTH_SOCK = '/somewhere';
  const { client, file, text } = machineWith(`env >env; echo "$@" >arguments; cp -r tunnel seen; ${ACCEPTED}; exit 7`);
  let opened = 0;
  const reason = await client.open(makeTunnel({ rsaKey: 'A\r\nB', knownHosts: 'hosts' }), {
    signal: never,
    opened: () => opened++,
  });
  expect([reason, opened]).toEqual(['ssh ended with the code 7', 1]);
  expect(text('seen/key')).toBe('A\nB\n');
  expect(text('seen/known_hosts')).toBe('hosts\n');
  expect(text('env')).not.toMatch(/SSH_AUTH_SOCK|SSH_ASKPASS|HOME=/);
  expect(text('arguments')).not.toContain('A\nB');
  for (const [name, mode] of [
    ['tunnel', 0o700],
    ['tunnel/key', 0o600],
    ['tunnel/known_hosts', 0o600],
  ] as const)
    expect(statSync(file(name)).mode & 0o777).toBe(mode);
  client.clear();
  expect(existsSync(file('tunnel'))).toBe(false);
});

test('a password reaches ssh by a program that it asks, and is in neither arguments nor variables', async () => {
  const { client, text } = machineWith('env >env; echo "$@" >arguments; "$SSH_ASKPASS" "password: " >given; exit 1');
  await client.open(makeTunnel({ rsaKey: '', password: 'hunter2' }), { signal: never, opened: () => {} });
  expect(text('given')).toBe('hunter2');
  expect(text('env')).not.toContain('hunter2');
  expect(text('env')).toContain('SSH_ASKPASS_REQUIRE=force');
  expect(text('arguments')).not.toContain('hunter2');
});

test('the signal ends ssh, by force when it does not end by itself', async () => {
  const { client, file, text } = machineWith(
    'trap "" TERM; echo $$ >pid.new; mv pid.new pid; while :; do sleep 0.1; done',
  );
  const stop = new AbortController();
  const ended = client.open(makeTunnel(), { signal: stop.signal, opened: () => {} });
  await until(() => existsSync(file('pid')));
  const pid = Number(text('pid'));
  expect(isRunning(pid)).toBe(true);
  stop.abort();
  await ended;
  await until(() => !isRunning(pid));
});

test('a signal that fired before ends ssh at once', async () => {
  const { client } = machineWith('sleep 600');
  await client.open(makeTunnel(), { signal: AbortSignal.abort(), opened: () => {} });
});

test.each(['SIGKILL', 'SIGTERM', 'SIGSEGV'] as const)('ssh ends with an agent that %s ended', async (signal) => {
  const { file, path, text } = machineWith('echo $$ >pid.new; mv pid.new pid; exec sleep 600');
  const module = pathToFileURL(join(import.meta.dirname, 'ssh-client.ts')).href;
  const program = `const { sshClient } = await import(${JSON.stringify(module)});
    await sshClient(${JSON.stringify(file('tunnel'))}, ${JSON.stringify(path)})
      .open(${JSON.stringify(makeTunnel())}, { signal: new AbortController().signal, opened() {} });`;
  const agent = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'ignore' });
  await until(() => existsSync(file('pid')));
  const pid = Number(text('pid'));
  expect(isRunning(pid)).toBe(true);
  agent.kill(signal);
  await until(() => !isRunning(pid));
});

test('a machine without ssh is refused in words of the fix, and keeps no key', async () => {
  const folder = temporaryFolder();
  const client = sshClient(join(folder, 'tunnel'), folder);
  await expect(client.open(makeTunnel(), { signal: never, opened: () => {} })).rejects.toThrow(
    'this machine has no ssh client; install openssh-client',
  );
  expect(existsSync(join(folder, 'tunnel'))).toBe(false);
});
