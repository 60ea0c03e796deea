import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import {
  areAtHand,
  cachedPath,
  compareVersions,
  findTools,
  type Source,
  TOOLS,
  type Tool,
  toolVersion,
  versionInGoMod,
} from './binaries.ts';

function makeSource(name: string, has: Tool[], asked: string[] = []): Source {
  return {
    name,
    async find(wanted) {
      asked.push(`${name}: ${wanted.join(' ')}`);
      return {
        found: Object.fromEntries(wanted.filter((tool) => has.includes(tool)).map((tool) => [tool, `/${name}`])),
        saw: 'looked',
      };
    },
  };
}

function makeEnv(): NodeJS.ProcessEnv {
  const folder = temporaryFolder();
  return { XDG_CACHE_HOME: folder };
}

test('each source is asked only for the tools that earlier sources do not have', async () => {
  const asked: string[] = [];
  const source = (name: string, ...has: Tool[]) => makeSource(name, has, asked);
  const sources = {
    fast: [source('assets', 'etcd'), source('path', 'etcd', 'kubectl'), source('cache')],
    slow: [source('release', 'kube-apiserver'), source('build', 'registry')],
  };
  const paths = await findTools(['etcd', 'kubectl', 'kube-apiserver', 'registry'], { sources, env: makeEnv() });
  expect(paths).toEqual({ etcd: '/assets', kubectl: '/path', 'kube-apiserver': '/release', registry: '/build' });
  expect(asked).toEqual([
    'assets: etcd kubectl kube-apiserver registry',
    'path: kubectl kube-apiserver registry',
    'cache: kube-apiserver registry',
    // Again after the lock was taken: another process may have fetched them meanwhile.
    'cache: kube-apiserver registry',
    'release: kube-apiserver registry',
    'build: registry',
  ]);
});

test('areAtHand is true when no tool needs a download or a build', async () => {
  const env = { ...makeEnv(), PATH: '' };
  expect(await areAtHand(['registry'], env)).toBe(false);
  const path = cachedPath('registry', env);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, '', { mode: 0o755 });
  expect(await areAtHand(['registry'], env)).toBe(true);
  expect(await areAtHand(['registry', 'kube-controller-manager'], env)).toBe(false);
  expect(await findTools(['registry'], { env })).toEqual({ registry: path });
});

test('slow sources are not asked when the fast ones have everything', async () => {
  const asked: string[] = [];
  const sources = { fast: [makeSource('cache', ['etcd'])], slow: [makeSource('build', [], asked)] };
  await findTools(['etcd'], { sources, env: makeEnv() });
  expect(asked).toEqual([]);
});

test('two processes that lack the same tool build it once', async () => {
  const built: Tool[] = [];
  let builds = 0;
  const sources = {
    fast: [makeSource('cache', built)],
    slow: [
      {
        name: 'build',
        find: async () => {
          builds += 1;
          built.push('etcd');
          return { found: { etcd: '/build' }, saw: '' };
        },
      },
    ],
  };
  const env = makeEnv();
  const paths = await Promise.all([1, 2].map(() => findTools(['etcd'], { sources, env })));
  expect(builds).toBe(1);
  expect(paths.map(({ etcd }) => etcd).sort()).toEqual(['/build', '/cache']);
});

test('the error for a missing tool has the reason of every source', async () => {
  const broken: Source = {
    name: 'build',
    find: async () => {
      throw new Error('there is no Go toolchain');
    },
  };
  const sources = { fast: [makeSource('PATH', [])], slow: [broken] };
  await expect(findTools(['etcd'], { sources, env: makeEnv() })).rejects.toThrow(
    /Found no etcd\. Tried:\n {2}PATH: looked\n.*build: there is no Go toolchain/s,
  );
});

test('every tool has a pinned version', () => {
  for (const tool of TOOLS) expect(toolVersion(tool)).toMatch(/^\d+\.\d+\.\d+$/);
});

test('nodes have the version of the API server', () => {
  expect(toolVersion('kubelet')).toBe(toolVersion('kube-apiserver'));
});

test('the version of a required module is read from both forms of go.mod', () => {
  const text =
    'module x\n\nrequire a.b/c v1.2.3\n\nrequire (\n\td.e/f/v3 v3.0.1 // indirect\n)\nreplace d.e/f/v3 => x v9.9.9\n';
  expect(versionInGoMod(text, 'a.b/c')).toBe('1.2.3');
  expect(versionInGoMod(text, 'd.e/f/v3')).toBe('3.0.1');
  expect(versionInGoMod(text, 'no/such')).toBeUndefined();
});

test.each([
  ['1.36.3', '1.32', 1],
  ['1.9', '1.10', -1],
  ['2.0', '2.0.0', 0],
])('versions are compared by number: %s with %s', (a, b, sign) => {
  expect(Math.sign(compareVersions(a, b))).toBe(sign);
});
