import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { MOUNT, mount, mounted } from '../content/volume-mounts/_mount.ts';
import { VolumeMounts } from '../content/volume-mounts/volume-mounts.ts';
import { type ResolvedMapping, treeBelow } from '../domain/volume-mounts.ts';
import { until } from '../engines/_contract.ts';
import { readTree } from '../machine/atomic-directory.ts';
import { filesOnDisk } from '../machine/mounted-files.ts';
import { makeView } from '../supervise/plan/_util.ts';
import { untilCall } from './_frozen-disk.ts';

/** A process that ends while it writes volume mounts leaves the old content or the new content, never a part. */

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

const ROOT = `secrets/${MOUNT}`;
type Data = Record<string, string>;
const view = makeView({ volumeMappings: ['creds', 'creds/tls', 'creds/user'].map((key) => mounted(key, `/${key}`)) });

/** What a start of the agent does with its volume mounts. Returns the paths that the microservice binds. */
function take(data: Data): string[] {
  const mounts = new VolumeMounts({ files: filesOnDisk(folder), log: silentLog });
  mounts.apply([mount(data)]);
  const result = mounts.resolve(view);
  const paths = 'view' in result ? result.view.volumeMappings.map((each: ResolvedMapping) => each.path ?? '') : [];
  mounts.tidy({ wanted: new Set(paths), isBound: () => false });
  return paths;
}

/** The files that readers of a mounted directory can open, by the names that they see. */
function opened(path: string): Data {
  const found: Data = {};
  const walk = (below: string): void => {
    for (const entry of readdirSync(join(folder, path, below), { withFileTypes: true })) {
      const name = join(below, entry.name);
      if (below === '' && name.startsWith('..')) continue;
      try {
        found[name] = readFileSync(join(folder, path, name), 'utf8');
      } catch (error) {
        // A link of a name that is not in the present content leads nowhere.
        if ((error as NodeJS.ErrnoException).code === 'EISDIR') walk(name);
      }
    }
  };
  walk('');
  return found;
}

const changes: Record<string, [Data, Data]> = {
  'other values': [
    { user: 'ann', 'tls/key': '1' },
    { user: 'bob', 'tls/key': '2' },
  ],
  'more and fewer keys': [
    { user: 'ann', 'tls/key': '1', old: 'x' },
    { user: 'ann', 'tls/cert': '2', new: 'y' },
  ],
  'a key that becomes a directory': [
    { user: 'ann', 'tls/key': '1', a: 'x' },
    { user: 'ann', 'tls/key': '1', 'a/b': 'y' },
  ],
};

describe('a process that ends at any call which changes the disk', () => {
  for (const [name, [before, after]] of Object.entries(changes))
    test(`during ${name} leaves the old content or the new content, and the next start completes it`, () => {
      const shown = new Set<string>();
      for (let n = 1; ; n++) {
        rmSync(folder, { recursive: true, force: true });
        const [, prefix = ''] = take(before);
        const isDone = untilCall(n, () => take(after));
        const content = opened(ROOT);
        expect([before, after], `ended at call ${n}`).toContainEqual(content);
        const below = [before, after].map((data) =>
          Object.fromEntries(treeBelow(new Map(Object.entries(data)), 'tls')),
        );
        expect(below, `ended at call ${n}`).toContainEqual(opened(prefix));
        shown.add(JSON.stringify(content));
        const [root = '', tls = '', user = ''] = take(after);
        expect([opened(root), opened(tls), readFileSync(join(folder, user), 'utf8')]).toEqual([
          after,
          below[1],
          after.user,
        ]);
        const names = [...new Set(Object.keys(after).map((key) => key.split('/')[0]))];
        expect(readdirSync(join(folder, root)).filter((each) => each !== '..data').length).toBe(names.length + 1);
        expect(readdirSync(join(folder, 'secrets')).length).toBe(3);
        if (isDone) break;
      }
      expect(shown.size).toBe(2);
    });

  test('during the first write leaves nothing or everything', () => {
    for (let n = 1; ; n++) {
      rmSync(folder, { recursive: true, force: true });
      const isDone = untilCall(n, () => take({ user: 'ann', 'tls/key': '1' }));
      const tree = readTree(join(folder, ROOT));
      expect([undefined, 2]).toContain(tree?.size);
      if (isDone) break;
    }
  });
});

test('readers of a directory see one version at a time while it is switched, also when its writer is killed', async () => {
  const versions = new Set<string>();
  for (let round = 0; round < 3; round++) {
    const writer = spawn(process.execPath, [join(import.meta.dirname, '_switching.ts'), folder], { stdio: 'ignore' });
    const ended = new Promise((resolve) => writer.once('exit', resolve));
    const seen = versions.size;
    await until('further versions', () => {
      for (let n = 0; n < 20; n++) {
        const version = wholeVersion();
        if (version !== undefined) versions.add(version);
      }
      return versions.size > seen + 10;
    });
    writer.kill('SIGKILL');
    await ended;
    expect(wholeVersion()).toBeDefined();
  }
});

/** The version of all files; undefined where the directory was switched while they were read. */
function wholeVersion(): string | undefined {
  const link = join(folder, '..data');
  try {
    const before = readlinkSync(link);
    const values = ['a', 'b', 'c/d', 'c/e'].map((path) => readFileSync(join(folder, path), 'utf8'));
    if (readlinkSync(link) !== before) return undefined;
    expect(new Set(values).size).toBe(1);
    expect(values[0]).toHaveLength(2000);
    return values[0];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
