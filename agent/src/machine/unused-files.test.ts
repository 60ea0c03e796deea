import { beforeEach, expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { Entry } from '../domain/entry.ts';
import type { Observed } from '../domain/part.ts';
import { makeContainer, makeEntry, makeHold, makeView } from '../supervise/plan/_util.ts';
import { filesInMemory } from './_mounted-files.ts';
import { removeUnused, UnusedFiles } from './unused-files.ts';

/** Which files a microservice needs: a directory `f/set`, and files of its own beside it. */

const [OLD, NEW] = ['f/set@old', 'f/set@new'];
const binding = (path: string): MicroserviceView => ({
  ...makeView(),
  volumeMappings: [{ hostDestination: 'x', containerDestination: '/x', type: 'volumeMount', path } as never],
});
const container = (path: string) => makeContainer(makeEntry(), { binds: [{ source: `/v/${path}`, writable: false }] });

let files: ReturnType<typeof filesInMemory>;
let observed: { -readonly [K in keyof Observed]: Observed[K] };
let unused: UnusedFiles;
let looks: number;
beforeEach(() => {
  files = filesInMemory();
  for (const path of ['f/set', OLD, NEW]) files.writeOnce(path, Buffer.from('x'));
  observed = {
    desired: [run(NEW)],
    knowsAll: true,
    containers: [],
    pending: 0,
    hasLooked: true,
    record: () => undefined,
  };
  looks = 0;
  unused = new UnusedFiles({
    observed,
    log: silentLog,
    what: 'files',
    remove: (inUse) => {
      looks++;
      return removeUnused(files, 'f', { listed: new Set(['f/set']), inUse, removed: () => {} });
    },
  });
});

const run = (path: string): Entry => ({ ...makeEntry(), view: binding(path) });
const lastGood = (path: string) => {
  observed.record = () => ({ lastGood: binding(path) });
};

test('a file that nothing needs is removed, and then there is nothing to look for', () => {
  unused.look();
  unused.look();
  expect([files.list('f'), looks]).toEqual([['f/set', NEW], 1]);
});

test('a file of a container stays, and is removed once the container is', () => {
  observed.containers = [container(OLD)];
  unused.look();
  expect(files.has(OLD)).toBe(true);
  observed.containers = [container(NEW)];
  unused.look();
  expect(files.has(OLD)).toBe(false);
});

test('a file of a view that ran last stays, since its container may be made again, and is removed once another view ran', () => {
  lastGood(OLD);
  unused.look();
  expect(files.has(OLD)).toBe(true);
  lastGood(NEW);
  unused.look();
  expect(files.has(OLD)).toBe(false);
});

test('a microservice that may not be changed keeps what it ran with last', () => {
  observed.desired = [makeHold()];
  lastGood(OLD);
  unused.look();
  expect(files.list('f')).toEqual(['f/set', OLD]);
});

test('nothing is removed while a container is being made, the entries are not known, or the engine was not read', () => {
  for (const unknown of [{ pending: 1 }, { knowsAll: false }, { hasLooked: false }]) {
    const before = { ...observed };
    Object.assign(observed, unknown);
    unused.look();
    expect([files.list('f').length, looks], JSON.stringify(unknown)).toEqual([3, 0]);
    Object.assign(observed, before);
  }
});
