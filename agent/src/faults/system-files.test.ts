import { hash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { FileSets } from '../content/system-files/file-sets.ts';
import { mounted } from '../content/volume-mounts/_mount.ts';
import { readFileSets } from '../domain/system-files.ts';
import type { ResolvedMapping } from '../domain/volume-mounts.ts';
import { type FileSetTexts, fileSetView } from '../link/_fake-controller.ts';
import { readTree } from '../machine/atomic-directory.ts';
import { filesOnDisk } from '../machine/mounted-files.ts';
import { makeView } from '../supervise/plan/_util.ts';
import { untilCall } from './_frozen-disk.ts';

/** A process that ends while it writes files of the system leaves, of each set, the old content or the new content. */

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

type Texts = Record<string, string>;
type Lists = readonly FileSetTexts[];
const view = makeView({
  volumeMappings: ['certificates', 'certificates/tls.key', 'router'].map((name) =>
    mounted(`system:${name}`, `/${name}`),
  ),
});

/** What a start of the agent does with its list. Returns the paths that the microservice binds, and how much was fetched. */
function take(sets: Lists): { paths: string[]; fetched: string[]; isComplete: boolean } {
  const texts = sets.flatMap(({ files }) => Object.values(files));
  const contents = Object.fromEntries(
    texts.map((text) => [hash('sha256', text), Buffer.from(text).toString('base64')] as const),
  );
  const parts = new FileSets({ files: filesOnDisk(folder), log: silentLog });
  const sent = readFileSets(sets.map(fileSetView));
  parts.apply(sent);
  const { missing } = parts;
  parts.take(missing, contents);
  parts.apply(sent);
  const result = parts.resolve(view);
  const paths = 'view' in result ? result.view.volumeMappings.map((each: ResolvedMapping) => each.path ?? '') : [];
  parts.tidy({ wanted: new Set(paths), isBound: () => false });
  return { paths, fetched: missing.map(({ name }) => name), isComplete: parts.isComplete };
}

/** The content of a set, as a reader of its directory opens it. */
function opened(name: string): Texts | undefined {
  const root = join(folder, 'system', name);
  const tree = readTree(root);
  return tree && Object.fromEntries([...tree.keys()].map((path) => [path, readFileSync(join(root, path), 'utf8')]));
}

const certificates = (serial: number, more: Texts = {}): FileSetTexts => ({
  name: 'certificates',
  files: { 'tls.crt': `certificate ${serial}`, 'tls.key': `key ${serial}`, 'ca/ca.crt': 'authority', ...more },
});
const router = (text: string): FileSetTexts => ({ name: 'router', files: { 'router.json': text } });

const changes: Record<string, [Lists, Lists]> = {
  'a renewed certificate': [
    [certificates(1), router('{}')],
    [certificates(2), router('{}')],
  ],
  'two changed sets': [
    [certificates(1), router('{}')],
    [certificates(2), router('{"a":1}')],
  ],
  'more and fewer files': [
    [certificates(1, { old: 'x' }), router('{}')],
    [certificates(1, { new: 'y' }), router('{}')],
  ],
  'a set that goes away': [
    [certificates(1), router('{}'), { name: 'old', files: { x: '1' } }],
    [certificates(1), router('{}')],
  ],
  'contents that change places': [
    [
      { name: 'certificates', files: { 'tls.key': 'one' } },
      { name: 'router', files: { 'router.json': 'two' } },
    ],
    [
      { name: 'certificates', files: { 'tls.key': 'two' } },
      { name: 'router', files: { 'router.json': 'one' } },
    ],
  ],
};

describe('a process that ends at any call which changes the disk', () => {
  for (const [name, [before, after]] of Object.entries(changes))
    test(`during ${name} leaves each set with its old content or its new content, and the next start completes them`, () => {
      for (let n = 1; ; n++) {
        rmSync(folder, { recursive: true, force: true });
        take(before);
        const isDone = untilCall(n, () => take(after));
        for (const each of ['certificates', 'router']) {
          const both = [before, after].map((sets) => sets.find((set) => set.name === each)?.files);
          expect(both, `ended at call ${n}`).toContainEqual(opened(each));
        }
        const { paths, isComplete } = take(after);
        expect(isComplete).toBe(true);
        for (const { name: each, files } of after) expect(opened(each)).toEqual(files);
        expect(readFileSync(join(folder, paths[1] ?? ''), 'utf8')).toBe(after[0]?.files['tls.key']);
        expect(readdirSync(join(folder, 'system')).length).toBe(3);
        for (const each of ['certificates', 'router'])
          expect(readdirSync(join(folder, 'system', each)).filter((file) => file.startsWith('..')).length).toBe(2);
        // Nothing is fetched that is on the disk.
        expect(take(after).fetched).toEqual([]);
        if (isDone) break;
      }
    });

  test('during the first write leaves nothing of a set or all of it', () => {
    for (let n = 1; ; n++) {
      rmSync(folder, { recursive: true, force: true });
      const isDone = untilCall(n, () => take([certificates(1)]));
      expect([undefined, certificates(1).files]).toContainEqual(opened('certificates'));
      if (isDone) break;
    }
  });
});
