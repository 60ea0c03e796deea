import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { writeCommands } from './commands.ts';

function written() {
  const parent = temporaryFolder();
  const dir = join(parent, "a folder of O'Brien");
  mkdirSync(dir);
  const kubectl = join(dir, 'cached-kubectl');
  const tokenFile = join(dir, 'token');
  writeFileSync(tokenFile, 'secret\n');
  const env = writeCommands({
    ...{ dir, kubectl, tokenFile },
    ...{ rest: 'http://127.0.0.1:1', registry: 'http://127.0.0.1:2', dockerHost: 'unix:///run/d.sock' },
    ...{ kubeconfig: join(dir, 'kubeconfig'), agentConfig: join(dir, 'agent.yaml') },
  });
  const run = (script: string) =>
    execFileSync('/bin/sh', ['-c', `. "$1"; ${script}`, 'sh', env], { encoding: 'utf8', stdio: 'pipe' });
  return { dir, kubectl, run };
}

test('a shell that sources the file env has addresses, files and token of the stack', () => {
  const { dir, run } = written();
  const shown = run('echo "$KUBECONFIG|$SKERRY_CONTROLLER|$SKERRY_TOKEN_FILE|$SKERRY_AGENT_CONFIG|$URL|$TOKEN"');
  expect(shown).toBe(`${dir}/kubeconfig|http://127.0.0.1:1|${dir}/token|${dir}/agent.yaml|http://127.0.0.1:1|secret\n`);
});

test('docker of a shell that sources the file env builds and pushes images for the stack', () => {
  expect(written().run('echo "$REGISTRY|$DOCKER_HOST"')).toBe('127.0.0.1:2|unix:///run/d.sock\n');
});

test('a shell that sources the file env runs kubectl, the plugin and skerry-agent, whatever Node it has', () => {
  const { dir, kubectl, run } = written();
  writeFileSync(kubectl, '#!/bin/sh\necho "kubectl $*"\n');
  chmodSync(kubectl, 0o755);
  expect(run('kubectl get "a b"')).toBe('kubectl get a b\n');
  expect(run('command -v kubectl-skerry')).toBe(`${dir}/bin/kubectl-skerry\n`);
  expect(run('skerry-agent --help')).toContain('skerry-agent');
});

test('a shell that sources the file env twice has its folder on the PATH once', () => {
  const { dir, run } = written();
  const path = run(`. '${dir.replaceAll("'", "'\\''")}/env'; echo "$PATH"`);
  expect(path.split(`${dir}/bin`)).toHaveLength(2);
});

test('a kubectl that is still fetched says so', () => {
  const { run } = written();
  expect(() => run('kubectl version')).toThrow('kubectl is not there yet');
});
