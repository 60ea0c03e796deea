import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import type { AgentError } from '../domain/agent-error.ts';
import { ARTIFACT_KINDS } from '../domain/artifact.ts';
import { untilCall } from '../faults/_frozen-disk.ts';
import { systemClock } from '../machine/clock.ts';
import { openRows } from '../state/rows.ts';
import { LocalArtifacts, localArtifactSchema } from './artifacts.ts';
import { LocalRegistries, localRegistrySchema } from './registries.ts';
import { LocalRuntimeClasses, localRuntimeClassSchema } from './runtime-classes.ts';

/**
 * Registries, models, knowledge and runtime classes of a machine, by an agent that ends at each of its calls that change the disk. Agents that are really killed, with
 * an engine, are in faults/local.engine.test.ts.
 */

/** One thing that a machine knows by its name, in two versions. */
interface Defined {
  define(version: 1 | 2): void;
  remove(): void;
  /** its version; undefined: there is none, or it cannot be read */
  readonly version: number | undefined;
  readonly ownProblems: readonly string[];
}

const base = { clock: systemClock(), log: silentLog, changed: () => {}, policy: () => ({}) };
const empty = (folder: string) => openRows(join(folder, 'none'), localArtifactSchema);

const KINDS: Record<string, (folder: string) => Defined> = {
  'a registry': (folder) => {
    const rows = openRows(join(folder, 'rows'), localRegistrySchema);
    const registries = new LocalRegistries({ ...base, rows, usersOf: () => [] });
    const manifest = { type: 'oci', url: 'registry.example', isPublic: false, username: 'ann', userEmail: '' } as const;
    return {
      define: (version) =>
        void registries.apply({ ...manifest, password: `secret-${version}`, ca: '', insecure: version === 2 }),
      remove: () => registries.remove(4),
      get version() {
        const found = rows.all.get('4');
        return found && (found.insecure ? 2 : 1);
      },
      ownProblems: registries.ownProblems,
    };
  },
  'a runtime class': (folder) => {
    const rows = openRows(join(folder, 'rows'), localRuntimeClassSchema);
    const facts = () => ({ kind: 'docker' as const, runtimes: ['runc-1', 'runc-2'] });
    const classes = new LocalRuntimeClasses({ ...base, rows, facts, managed: () => [], usersOf: () => [] });
    return {
      define: (version) => void classes.apply({ name: 'fast', handler: `runc-${version}` }),
      remove: () => classes.remove('fast'),
      get version() {
        const found = rows.all.get('fast');
        return found && Number(found.handler.slice(-1));
      },
      ownProblems: classes.ownProblems,
    };
  },
  ...Object.fromEntries(
    ARTIFACT_KINDS.map((kind) => [
      `an artifact of the kind ${kind}`,
      (folder: string) => {
        const rows = openRows(join(folder, 'rows'), localArtifactSchema);
        const artifacts = new LocalArtifacts({
          ...base,
          rows: { models: empty(folder), knowledge: empty(folder), [kind]: rows },
          registries: new LocalRegistries({
            ...{ ...base, usersOf: () => [] },
            rows: openRows(join(folder, 'registries'), localRegistrySchema),
          }),
          contents: { items: () => [], pull: async () => {}, removeContent: () => {} },
          boundBy: () => [],
          isWatchdogOn: () => false,
        });
        return {
          define: (version: 1 | 2) =>
            void artifacts.apply(kind, { name: 'tiny', repo: 'a/b', revision: `${version}`, files: [], registry: 3 }),
          remove: () => artifacts.remove(kind, 'tiny'),
          get version() {
            const [row, ...others] = rows.all.values();
            expect(others).toEqual([]);
            return row && Number(row.view.revision);
          },
          ownProblems: artifacts.ownProblems,
        };
      },
    ]),
  ),
};

const CHANGES: Record<string, { from?: 1; act(it: Defined): void; to?: 1 | 2 }> = {
  'the first apply': { act: (it) => it.define(1), to: 1 },
  'another apply': { from: 1, act: (it) => it.define(2), to: 2 },
  'a removal': { from: 1, act: (it) => it.remove() },
};

const root = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'skerry-killed-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe.each(Object.entries(KINDS))('%s', (_, open) => {
  test.each(Object.entries(CHANGES))(
    'is as before or as after %s whose agent ends at any change of the disk, and the next agent ends the work and leaves nothing beside it',
    (_, { from, act, to }) => {
      const before = mkdtempSync(join(root, 'before-'));
      if (from) open(before).define(from);
      let deaths = 0;
      for (let at = 1; ; at++) {
        const folder = mkdtempSync(join(root, 'at-'));
        cpSync(before, folder, { recursive: true });
        const first = open(folder);
        const isDone = untilCall(at, () => act(first));
        const next = open(folder);
        expect(next.ownProblems).toEqual([]);
        expect([from, to], `after an end at call ${at}`).toContain(next.version);
        expect(files(folder)).toEqual(next.version ? [expect.stringMatching(/\.json$/)] : []);
        try {
          act(next);
        } catch (error) {
          // The former agent had finished.
          expect([to, (error as AgentError).code]).toEqual([undefined, 'NOT_FOUND']);
        }
        expect(open(folder).version).toBe(to);
        if (isDone) break;
        deaths++;
      }
      expect(deaths).toBeGreaterThanOrEqual(2);
    },
  );
});

const files = (folder: string): string[] => (existsSync(join(folder, 'rows')) ? readdirSync(join(folder, 'rows')) : []);
