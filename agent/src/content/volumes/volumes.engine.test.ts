import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest';
import { pushImage } from '../../../../hack/image.ts';
import { sampleImage } from '../../../../hack/sample.ts';
import type {} from '../../../../hack/testing/provided.ts';
import { silentLog } from '../../../../src/lib/log.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import type { EngineFacts } from '../../engine-port/facts.ts';
import { cleanUp, makeSpec, prepare } from '../../engines/_contract.ts';
import { openTestEngine, outsideOf, suiteEngines } from '../../engines/_outside.ts';
import { FilledDisk } from '../../faults/_filled-disk.ts';
import { systemClock } from '../../machine/clock.ts';
import { followLinks, locate, mountsBelow } from '../../machine/disk.ts';
import { ownLimits } from '../../machine/machine.ts';
import { mountsInUse } from '../../machine/mounts.ts';
import { memoryDatabase } from '../../state/database.ts';
import { prepareMounts } from '../../supervise/executors/mounts.ts';
import { VolumeMachine } from './_machine.ts';
import { Volumes } from './volumes.ts';

/** Volumes that real containers and the machine have mounted, on every engine. */

for (const tested of suiteEngines())
  describe(tested.kind, () => {
    const outside = outsideOf(tested);
    const instance = randomUUID().replaceAll('-', '');
    const engine = openTestEngine(tested, instance);
    const folder = temporaryFolder();
    const directory = join(folder, 'volumes');
    let facts: EngineFacts;
    let image: string;
    let uuid: string;
    let path: string;
    const volumes = new Volumes({
      ...{ directory, database: memoryDatabase(), clock: systemClock(), log: silentLog, engine, mountsInUse },
      observed: { desired: [], knowsAll: true, record: () => undefined },
      views: () => new Map(),
      sourceOf: () => 'managed' as const,
      places: { follow: followLinks, locate, mountsBelow },
      isControlPlane: () => false,
    });
    const destroy = (force = true) => volumes.destroyPrivate(uuid, 'db', force);

    beforeAll(async () => {
      ({ reference: image } = await pushImage(inject('registryUrl'), 'volumes/sample', '1', await sampleImage()));
      facts = await prepare(engine, image);
    });
    afterAll(() => cleanUp(engine));
    beforeEach(() => {
      uuid = randomUUID();
      path = join(directory, 'data', uuid, 'db');
      mkdirSync(join(path, 'deep'), { recursive: true });
      writeFileSync(join(path, 'deep/file'), 'precious');
    });

    async function stays(by: RegExp | string): Promise<void> {
      for (const force of [false, true])
        await expect(destroy(force)).rejects.toMatchObject({ code: 'CONFLICT', message: expect.stringMatching(by) });
      const { skipped } = await volumes.prune({ yes: true, force: true, dryRun: false });
      expect(skipped).toContainEqual(expect.objectContaining({ uuid, reason: expect.stringMatching(by) }));
      expect((await volumes.purge()).skipped).toContainEqual(expect.objectContaining({ uuid }));
      expect(existsSync(join(path, 'deep/file'))).toBe(true);
    }

    async function goes(): Promise<void> {
      await destroy(false);
      expect(existsSync(path)).toBe(false);
    }

    /** Also a container that the test has removed. */
    const removeAny = (id: string) => outside.remove(id).catch(() => {});

    /** A container of this agent that has the volume. */
    async function own(): Promise<string> {
      const mapping = {
        type: 'volume',
        scope: 'private',
        hostDestination: 'db',
        containerDestination: '/data',
      } as const;
      const view = {
        uuid,
        imageId: image,
        volumeMappings: [{ ...mapping, accessMode: 'rw' as const }],
      };
      const spec = makeSpec({ facts, limits: ownLimits(), instance, volumesDirectory: directory, view });
      spec.mounts = prepareMounts(spec, undefined, directory);
      const { id } = await engine.create(spec);
      onTestFinished(() => removeAny(id));
      return id;
    }

    /** A container of somebody else that binds a directory. */
    async function foreign(source: string): Promise<string> {
      const id = await outside.make({ name: `volumes-${randomUUID()}`, image, source });
      onTestFinished(() => removeAny(id));
      return id;
    }

    test('stay while a container of this agent is made, runs, is paused, or has stopped, and go after it', async () => {
      const id = await own();
      const name = new RegExp(`mounted by the container skerry-${uuid}`);
      await stays(name);
      await engine.start(id);
      await stays(name);
      await outside.pause(id);
      await stays(name);
      await engine.resume(id);
      await engine.stop(id, 0);
      await stays(name);
      await engine.remove(id);
      await goes();
    });

    test.each(['', 'deep', '..'])(
      'stay while a foreign container binds them at "%s", and go after it',
      async (below) => {
        const id = await foreign(join(path, below));
        await stays(/mounted by the container volumes-/);
        await outside.remove(id);
        await goes();
      },
    );

    test('go although a foreign container binds the root of the machine', async () => {
      await foreign('/');
      await goes();
    });

    const MOUNTS: Record<string, () => [args: string[], at: string]> = {
      'a file system is mounted in them': () => [['-t', 'tmpfs', 'tmpfs'], join(path, 'deep')],
      'something is bound in them': () => [['--bind', '/etc'], join(path, 'deep')],
      'they are bound elsewhere': () => [['--bind', path], join(temporaryFolder(), 'elsewhere')],
      'a directory in them is bound elsewhere': () => [
        ['--bind', join(path, 'deep')],
        join(temporaryFolder(), 'elsewhere'),
      ],
      'they are a file system of their own': () => [['--bind', path], path],
    };
    test.each(Object.entries(MOUNTS))('stay while %s, and go after it', async (_, make) => {
      const [args, at] = make();
      mkdirSync(at, { recursive: true });
      execFileSync('mount', [...args, at]);
      let isMounted = true;
      const unmount = () => {
        if (isMounted) execFileSync('umount', [at]);
        isMounted = false;
      };
      onTestFinished(unmount);
      await expect(destroy()).rejects.toMatchObject({
        code: 'CONFLICT',
        message: expect.stringMatching(/mounted by the mount at/),
      });
      unmount();
      expect(existsSync(join(path, 'deep/file'))).toBe(true);
      await goes();
    });

    test('stay while a process has them mounted in a namespace of its own', async () => {
      const script = `mount --bind ${path} /mnt && echo ready && exec sleep 1000`;
      const { spawn } = await import('node:child_process');
      const child = spawn('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', script]);
      onTestFinished(() => void child.kill());
      await new Promise((resolve) => child.stdout.once('data', resolve));
      await stays(new RegExp(`mounted by the process ${child.pid}`));
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill();
      await ended;
      await goes();
    });

    test('stay whole or are new for a container that is made while they are destroyed', async () => {
      for (let round = 0; round < 3; round++) {
        mkdirSync(join(path, 'deep'), { recursive: true });
        writeFileSync(join(path, 'deep/file'), 'precious');
        const [id] = await Promise.all([volumes.whileVolumesStay(own), destroy(false).catch(() => {})]);
        await engine.start(id);
        expect(existsSync(path)).toBe(true);
        await stays(/mounted/);
        await engine.stop(id, 0);
        await engine.remove(id);
      }
    });
  });

describe('volumes on a disk of their own', () => {
  const A = 'a'.repeat(8);

  /** A machine whose volumes are on a small file system of their own. */
  function small(): { machine: VolumeMachine; disk: FilledDisk } {
    const machine = new VolumeMachine();
    mkdirSync(machine.directory);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,nr_inodes=2048', 'tmpfs', machine.directory]);
    onTestFinished(() => void execFileSync('umount', [machine.directory]));
    machine.mounts = mountsInUse();
    machine.make(A, 'db');
    return { machine, disk: new FilledDisk(machine.directory) };
  }

  test('a read-only disk keeps a volume, and the error says so', async () => {
    const { machine, disk } = small();
    disk.make('ro');
    const text = /nothing was destroyed: volume db of a+: the disk refuses it: .*EROFS/;
    await expect(machine.volumes.destroyPrivate(A, 'db', false)).rejects.toMatchObject({
      ...{ code: 'UNAVAILABLE', message: expect.stringMatching(text) },
    });
    expect(await machine.volumes.prune({ yes: true, force: true, dryRun: false })).toMatchObject({
      ...{ status: 'partial', deleted: [], skipped: [{ name: 'db', reason: expect.stringMatching(text) }] },
    });
    expect(machine.has(A, 'db')).toBe(true);
    disk.make('rw');
    await machine.volumes.destroyPrivate(A, 'db', false);
    expect(await machine.volumes.list()).toEqual([]);
  });

  test('a full disk gives up a volume', async () => {
    const { machine, disk } = small();
    disk.fill();
    for (let n = 0; ; n++)
      try {
        mkdirSync(join(machine.directory, `none-${n}`));
      } catch {
        break;
      }
    await machine.volumes.destroyPrivate(A, 'db', false);
    expect(await machine.volumes.list()).toEqual([]);
  });
});
