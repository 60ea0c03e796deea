import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { KubeClient } from '../../../src/kube/mod.ts';
import { storedNode } from '../../../testing/stored.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { createPlugin } from '../_plugin.ts';
import { installLine, mayHavePackages } from './provision.ts';

test.each<[said: string, may: boolean, status: number, headers: Record<string, string>]>([
  ['has packages', true, 200, {}],
  ['has no packages', false, 200, { 'skerry-packages': 'none' }],
  ['of the release before has no packages', false, 404, {}],
  ['cannot list its packages now', true, 503, {}],
])('the line that installs the agent is printed unless the controller has no packages: one that %s', async (...row) => {
  const [, may, status, headers] = row;
  const server = createServer((_request, response) => response.writeHead(status, headers).end());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  expect(await mayHavePackages(`http://127.0.0.1:${port}/install.sh`)).toBe(may);
});

test('the line that installs the agent is printed where the controller cannot be reached from here', async () => {
  expect(await mayHavePackages('http://127.0.0.1:1/install.sh')).toBe(true);
});

/** Types the line on a machine whose curl is this program. */
function typed(curl: string, ca?: string, name = 'line') {
  const folder = join(temporaryFolder(), name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'curl'), `#!/bin/sh\n${curl}\n`, { mode: 0o755 });
  const line = installLine('https://c.example/install.sh', 'skerry://c.example/key', ca);
  const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
  const { status, stdout } = spawnSync('sh', ['-c', line], { cwd: folder, env, encoding: 'utf8' });
  return { status, stdout };
}

test('the line that installs the agent fails where the install script cannot be fetched', () => {
  expect(typed('echo a part; exit 22')).toEqual({ status: 22, stdout: '' });
});

test('the line that installs the agent runs the script as it was sent, with the join string, and ends with its exit code', () => {
  const script = `cat <<'END'\nmain() {\n  printf '%s|' "$#" "a\\\\b" "$SKERRY_JOIN"\n  exit 3\n}\nmain "$@"\nEND`;
  expect(typed(script)).toEqual({ status: 3, stdout: '0|a\\b|skerry://c.example/key|' });
  // The authority is for curl alone, and for what the script fetches.
  expect(typed(`printf 'echo %s "$CURL_CA_BUNDLE"' "$*"`, 'ca.crt').stdout).toMatch(
    /^-fsSL https:\/\/c\.example\/install\.sh \/.*\/ca\.crt\n$/,
  );
});

test.each(["ca of plant 'a' $HOME.crt", 'ca.crt'])(
  'the line that installs the agent trusts %s in a folder with spaces',
  (ca) => {
    const { status, stdout } = typed(
      `printf 'echo "<%s>"' "$CURL_CA_BUNDLE"`.replace('%s', '$CURL_CA_BUNDLE'),
      ca,
      'skerry line ',
    );
    expect(status).toBe(0);
    expect(stdout).toMatch(/^<\/.*\/skerry line [^/]*\//);
    expect(stdout.trim().endsWith(`/${ca}>`)).toBe(true);
  },
);

test.each([
  ['http://10.0.0.7:51121', true],
  ['controller.example:51121', true],
  ['http://127.0.0.1:51121', false],
  ['localhost:51121', false],
  ['https://controller.example:51121', false],
])('a join string for %s is printed with a warning about who can listen: %s', async (address, warns) => {
  const node = { ...storedNode('gw'), status: { uuid: 'u' } };
  const client = { find: async () => node, create: async () => node } as unknown as KubeClient;
  const { err } = await createPlugin(client, 'skerry')('provision', 'gw', '--controller', address, '-o', 'json');
  expect(err.includes('over http')).toBe(warns);
});
