import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { generator } from '../../faults/_random.ts';
import { HOUR, having, VolumeMachine } from './_machine.ts';

const A = 'a'.repeat(8);
const B = 'b'.repeat(8);
const DAY = 24 * HOUR;
const DRY = { yes: false, force: false, dryRun: true };
const YES = { yes: true, force: false, dryRun: false };

let machine: VolumeMachine;
beforeEach(() => {
  machine = new VolumeMachine();
});

/** Lets counted time pass. */
function pass(ms: number): void {
  machine.now += ms;
  machine.wall += ms;
}

test('the claims are the directories on the disk, with who wants them, and since when nothing does', async () => {
  machine.make(B, 'db');
  machine.make(A, 'z');
  machine.make(A, 'a');
  machine.make(null, 'pool');
  machine.make(null, 'old');
  symlinkSync('/etc', machine.pathOf({ uuid: A, name: 'link' }));
  writeFileSync(machine.pathOf({ uuid: A, name: 'file' }), '');
  machine.want(having(A, 'a', 'z', '+pool'), having('c'.repeat(8), '+pool'));
  const consumer = (uuid: string) => ({ uuid, application: 'app', name: `m${uuid.slice(0, 2)}`, source: 'managed' });
  const base = { kind: 'workload', hostPath: expect.stringContaining(`${machine.directory}/`) };
  const since = { unreferencedAt: '2026-01-01T00:00:00.000Z' };
  expect(await machine.volumes.list()).toEqual([
    { ...base, scope: 'private', uuid: A, name: 'a', desired: true, consumers: [consumer(A)] },
    { ...base, scope: 'private', uuid: A, name: 'z', desired: true, consumers: [consumer(A)] },
    { ...base, scope: 'private', uuid: B, name: 'db', desired: false, consumers: [], ...since },
    { ...base, scope: 'shared', uuid: null, name: 'old', desired: false, consumers: [], ...since },
    {
      ...base,
      scope: 'shared',
      uuid: null,
      name: 'pool',
      desired: true,
      consumers: [consumer(A), consumer('c'.repeat(8))],
    },
  ]);
  machine.desired = undefined;
  expect((await machine.volumes.list()).every(({ desired, unreferencedAt }) => desired && !unreferencedAt)).toBe(true);
});

test('a prune says what it would destroy, and destroys it when it is confirmed', async () => {
  machine.make(A, 'db');
  machine.make(B, 'db');
  machine.make(null, 'pool');
  machine.want(having(A, 'db'));
  await machine.volumes.list();
  pass(DAY);
  machine.make(null, 'young');
  const dry = await machine.volumes.prune(DRY);
  const names = (list: { uuid: string | null; name: string }[]) => list.map(({ uuid, name }) => `${uuid}/${name}`);
  expect(dry).toMatchObject({ status: 'ok', orphans: true, dryRun: true, deleted: [] });
  expect(names(dry.candidates)).toEqual([`${B}/db`, 'null/pool']);
  expect(dry.skipped).toMatchObject([{ name: 'young', reason: expect.stringContaining('0 min of the 24 h') }]);
  expect(machine.has(B, 'db')).toBe(true);

  const done = await machine.volumes.prune(YES);
  expect(names(done.deleted)).toEqual([`${B}/db`, 'null/pool']);
  expect(readdirSync(join(machine.directory, 'data'))).toEqual([A]);
  expect(readdirSync(join(machine.directory, 'shared'))).toEqual(['young']);
  expect(machine.has(A, 'db')).toBe(true);
  expect((await machine.volumes.prune({ ...YES, force: true })).deleted).toMatchObject([{ name: 'young' }]);
});

test('nothing is pruned or purged while the desired state is not known', async () => {
  machine.make(A, 'db');
  await machine.volumes.list();
  pass(DAY);
  machine.desired = undefined;
  await expect(machine.volumes.prune({ ...YES, force: true })).rejects.toMatchObject({ code: 'CONFLICT' });
  await expect(machine.volumes.purge()).rejects.toMatchObject({ code: 'CONFLICT' });
  expect(machine.has(A, 'db')).toBe(true);
});

describe('the grace', () => {
  const isDue = async () => (await machine.volumes.prune(DRY)).candidates.length === 1;
  beforeEach(async () => {
    machine.make(A, 'db');
    machine.want();
    await machine.volumes.list();
  });

  const JUMPS: Record<string, () => void> = {
    'the wall clock wakes up in 1970': () => {
      machine.wall = 0;
    },
    'the wall clock jumps from 1970 to now': () => {
      machine.wall = Date.parse('2026-01-01T00:00:00Z');
    },
    'the wall clock is set a day ahead': () => {
      machine.wall += DAY + 1;
    },
    'the wall clock is set a year ahead, and the agent starts again': () => {
      machine.wall += 365 * DAY;
      machine.restart();
    },
    'the agent starts again with a steady clock that is a year ahead': () => machine.restart(machine.now + 365 * DAY),
    'the records are lost': () => {
      machine.database.saveValue('unreferencedVolumes', undefined);
      machine.restart(machine.now + 365 * DAY);
    },
    'the counted time is lost': () => {
      machine.database.saveValue('countedTime', undefined);
      machine.restart(machine.now + 365 * DAY);
    },
    'the records are not what they were': () => {
      machine.database.saveValue('unreferencedVolumes', `{"data/${A}/db":{"at":1,"since":"x"}}`);
      machine.restart(machine.now + 365 * DAY);
    },
    'it was wanted for a moment': () => {
      pass(DAY - 1);
      machine.want(having(A, 'db'));
      machine.want();
    },
    'the desired state is not known for a year': () => {
      machine.desired = undefined;
      machine.volumes.look();
      pass(365 * DAY);
      machine.want();
    },
  };
  test.each(Object.entries(JUMPS))('is not over when %s', async (_, jump) => {
    jump();
    pass(HOUR);
    expect(await isDue()).toBe(false);
  });

  test('is over after 24 hours of steady time, over starts of the agent', async () => {
    for (let hour = 1; hour < 24; hour++) {
      pass(HOUR);
      // As every ten minutes, and at the end.
      await machine.volumes.markForCleanup(B);
      machine.volumes.look();
      expect(await isDue(), `after ${hour} hours`).toBe(false);
    }
    machine.wall = 0;
    pass(HOUR);
    expect(await isDue()).toBe(true);
  });

  test('is skipped for what a person removed with its volumes, also after a start', async () => {
    expect(await machine.volumes.markForCleanup(A)).toBe(true);
    machine.restart();
    expect(await isDue()).toBe(true);
  });

  test('is not skipped for a microservice that is wanted, or is wanted again', async () => {
    machine.want(having(A, 'db'));
    expect(await machine.volumes.markForCleanup(A)).toBe(false);
    machine.want();
    expect(await machine.volumes.markForCleanup(A)).toBe(true);
    machine.want(having(A, 'db'));
    machine.want();
    expect(await isDue()).toBe(false);
  });

  test('is saved every ten minutes while something waits for it, and never afterwards', async () => {
    const stop = new AbortController();
    const done = machine.volumes.run(stop.signal);
    const turns = async (count: number) => {
      const before = machine.counted.writes;
      for (let n = 0; n < count; n++) {
        await machine.sleeps();
        pass(600_000);
        await machine.wake();
      }
      await machine.sleeps();
      return machine.counted.writes - before;
    };
    expect(await turns(3)).toBe(3);
    pass(DAY);
    await turns(1);
    expect(await turns(3)).toBe(0);
    stop.abort();
    await done;
  });

  test('a mark that cannot be saved is refused', async () => {
    machine.database.saveValue = () => {
      throw new Error('disk full');
    };
    await expect(machine.volumes.markForCleanup(A)).rejects.toThrow(/keep their grace: disk full/);
  });
});

describe('a private volume', () => {
  const destroy = (name?: string, force = false) => machine.volumes.destroyPrivate(A, name, force);
  beforeEach(() => {
    machine.make(A, 'db');
    machine.make(A, 'log');
  });

  test('is destroyed by name, or with all others of its microservice', async () => {
    expect(await destroy('log')).toEqual(['log']);
    expect(readdirSync(join(machine.directory, 'data', A))).toEqual(['db']);
    machine.make(A, 'log');
    expect(await destroy()).toEqual(['db', 'log']);
    expect(readdirSync(join(machine.directory, 'data'))).toEqual([]);
  });

  test('has to be there', async () => {
    await expect(destroy('other')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(machine.volumes.destroyPrivate(B, undefined, true)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test.each(['..', '.', 'a/b', '.destroyed-1', '', '-x', 'x'.repeat(129), 'a\0b'])(
    'is not named by %j',
    async (name) => {
      await expect(destroy(name, true)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
      await expect(machine.volumes.destroyPrivate(name, undefined, true)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
      await expect(machine.volumes.destroyShared(name, true)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
      expect(await machine.volumes.shared(name)).toBeUndefined();
    },
  );

  test('stays with all others when one of them is mounted', async () => {
    machine.binds.set('stranger', machine.pathOf({ uuid: A, name: 'log' }));
    await expect(destroy(undefined, true)).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('mounted by the container stranger'),
    });
    expect(machine.has(A, 'db')).toBe(true);
  });

  test('stays when a container binds it by a link of another place', async () => {
    symlinkSync(machine.directory, join(machine.folder, 'elsewhere'));
    machine.binds.set('stranger', join(machine.folder, 'elsewhere/data', A, 'db'));
    await expect(destroy('db', true)).rejects.toMatchObject({ code: 'CONFLICT' });
  });

  test('stays while the engine does not answer, whoever says force', async () => {
    machine.engineError = new Error('the engine is away');
    await expect(destroy('db', true)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(machine.has(A, 'db')).toBe(true);
  });

  test('stays when its microservice becomes wanted while the engine is asked', async () => {
    const done = destroy('db');
    machine.want(having(A, 'db'));
    await expect(done).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(machine.has(A, 'db')).toBe(true);
  });

  test('gets its place back when a program mounts it at the last moment', async () => {
    let looks = 0;
    Object.defineProperty(machine, 'mounts', {
      get: () => {
        if (++looks < 2) return [];
        const [taken = ''] = readdirSync(join(machine.directory, 'data', A)).filter((name) => name.startsWith('.'));
        return [{ place: '', point: join(machine.directory, 'data', A, taken), by: 'the process 7' }];
      },
    });
    await expect(destroy('db')).rejects.toMatchObject({ message: expect.stringContaining('the process 7') });
    expect(machine.has(A, 'db')).toBe(true);
  });

  test('is destroyed however deep and wide it is, with links in it that lead elsewhere', async () => {
    const outside = join(machine.folder, 'outside');
    mkdirSync(outside);
    writeFileSync(join(outside, 'file'), 'precious');
    let at = machine.pathOf({ uuid: A, name: 'db' });
    for (let depth = 0; depth < 60; depth++) {
      for (const name of ['to', 'out']) symlinkSync(outside, join(at, name));
      at = join(at, 'd'.repeat(60));
      mkdirSync(at);
    }
    await destroy('db');
    expect(readdirSync(join(machine.directory, 'data', A))).toEqual(['log']);
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('precious');
  });

  const outside = () => {
    const folder = join(machine.folder, 'outside');
    mkdirSync(join(folder, A, 'db/deep/er'), { recursive: true });
    mkdirSync(join(folder, 'data', A, 'db/deep/er'), { recursive: true });
    for (const path of [join(folder, A), join(folder, 'data', A)]) writeFileSync(join(path, 'db/deep/er/file'), 'x');
    return folder;
  };
  /** Puts a link in place of a directory. */
  const swap = (path: string, target: string) => {
    renameSync(path, `${path}.moved`);
    symlinkSync(target, path);
  };
  const COMPONENTS: Record<string, (folder: string) => void> = {
    'the directory of volumes': (folder) => swap(machine.directory, folder),
    'the folder of private ones': (folder) => swap(join(machine.directory, 'data'), folder),
    'the directory of its microservice': (folder) => swap(join(machine.directory, 'data', A), join(folder, A)),
    'the volume': (folder) => swap(join(machine.directory, 'data', A, 'db'), join(folder, A, 'db')),
  };
  describe.each(Object.entries(COMPONENTS))('with a link in place of %s', (_, deed) => {
    test.each(['before', 'while the engine is asked'])('put there %s, destroys nothing elsewhere', async (when) => {
      const folder = outside();
      if (when === 'before') deed(folder);
      else {
        const { binds } = machine;
        machine.engineError = undefined;
        Object.defineProperty(machine, 'binds', {
          get: () => {
            deed(folder);
            Object.defineProperty(machine, 'binds', { value: binds });
            return binds;
          },
          configurable: true,
        });
      }
      // The link itself may go: it was the volume.
      await destroy('db', true).catch((error: { code: string }) =>
        expect(['CONFLICT', 'NOT_FOUND']).toContain(error.code),
      );
      for (const path of [join(folder, A), join(folder, 'data', A)])
        expect(readFileSync(join(path, 'db/deep/er/file'), 'utf8')).toBe('x');
    });
  });

  test('is removed without leaving it while links are swapped in it all the time', async () => {
    const folder = outside();
    const path = machine.pathOf({ uuid: A, name: 'db' });
    for (let i = 0; i < 40; i++) mkdirSync(join(path, `d${i}/in`), { recursive: true });
    let busy = true;
    const random = generator(7);
    // By a descriptor of the directory, as a process that has it open.
    const fd = (await import('node:fs')).openSync(path, 'r');
    const swapper = (async () => {
      for (; busy; await new Promise((done) => setImmediate(done))) {
        const at = `/proc/self/fd/${fd}/d${Math.floor(random() * 40)}`;
        try {
          rmSync(at, { recursive: true });
          symlinkSync(folder, at);
          rmSync(at);
          mkdirSync(join(at, 'in'), { recursive: true });
          symlinkSync(folder, join(at, 'in/out'));
        } catch {}
      }
    })();
    await destroy('db').catch(() => {});
    busy = false;
    await swapper;
    await machine.volumes.list();
    expect(machine.has(A, 'db')).toBe(false);
    expect(readFileSync(join(folder, A, 'db/deep/er/file'), 'utf8')).toBe('x');
  });
});

describe('a shared volume', () => {
  beforeEach(() => {
    machine.make(null, 'pool');
  });

  test('is destroyed when nothing has it', async () => {
    await machine.volumes.destroyShared('pool', false);
    expect(await machine.volumes.list()).toEqual([]);
    await expect(machine.volumes.destroyShared('pool', false)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('stays with a consumer, and when it is mounted, whoever says force', async () => {
    machine.want(having(A, '+pool'));
    for (const force of [false, true])
      await expect(machine.volumes.destroyShared('pool', force)).rejects.toMatchObject({ code: 'CONFLICT' });
    machine.want();
    machine.binds.set('x', join(machine.directory, 'shared/pool/deep'));
    for (const force of [false, true])
      await expect(machine.volumes.destroyShared('pool', force)).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(machine.has(null, 'pool')).toBe(true);
  });
});

test('volumes of the control plane are claims of their own kind, which nothing destroys', async () => {
  machine.make(A, 'etcd');
  machine.controlPlane = A;
  await machine.volumes.list();
  pass(DAY);
  expect(await machine.volumes.list()).toMatchObject([{ kind: 'controlplane', desired: false }]);
  await expect(machine.volumes.destroyPrivate(A, undefined, true)).rejects.toMatchObject({ code: 'CONFLICT' });
  expect(await machine.volumes.prune({ ...YES, force: true })).toMatchObject({
    deleted: [],
    skipped: [{ name: 'etcd' }],
  });
  expect(await machine.volumes.purge()).toMatchObject({ deleted: [], skipped: [{ name: 'etcd' }] });
  expect(machine.has(A, 'etcd')).toBe(true);
});

const MANY = process.env.SKERRY_NIGHTLY ? 10_000 : 1000;
test('a prune of many claims asks the engine once, reads the mounts twice, and saves once', async () => {
  for (let i = 0; i < MANY / 2; i++) {
    mkdirSync(machine.pathOf({ uuid: `u${i}`, name: 'db' }), { recursive: true });
    mkdirSync(machine.pathOf({ uuid: null, name: `s${i}` }), { recursive: true });
  }
  machine.want();
  expect(await machine.volumes.list()).toHaveLength(MANY);
  pass(DAY);
  Object.assign(machine.counted, { engine: 0, mounts: 0, writes: 0 });
  const { deleted } = await machine.volumes.prune(YES);
  expect(deleted).toHaveLength(MANY);
  // Two values: the records and their time.
  expect(machine.counted).toEqual({ engine: 1, mounts: 2, writes: 2 });
  expect(existsSync(join(machine.directory, 'data/u1'))).toBe(false);
  expect(readdirSync(join(machine.directory, 'shared'))).toEqual([]);
});
