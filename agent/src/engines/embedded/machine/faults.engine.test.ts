import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { chownSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { type Containerd, startContainerd } from '../../../../../hack/containerd.ts';
import { pushImage, saveImage } from '../../../../../hack/image.ts';
import { sampleImage } from '../../../../../hack/sample.ts';
import { shellImage } from '../../../../../hack/shell-image.ts';
import type {} from '../../../../../hack/testing/provided.ts';
import { temporaryFolder } from '../../../../../testing/temporary-folder.ts';
import type { EngineFacts } from '../../../engine-port/facts.ts';
import { findContainer, INSTANCE, makeSpec, prepare, until } from '../../_contract.ts';
import { Containerd as ContainerdClient } from '../client.ts';
import { EmbeddedEngine } from '../engine.ts';
import { Unpacking } from '../unpacking.ts';
import { CRI } from '../wire/cri.ts';

/**
 * What happens to the agent's own engine. By day its containerd is killed beside a container; the nightly run has the slow faults.
 */
const run = promisify(execFile);
const nightly = test.runIf(process.env.SKERRY_NIGHTLY);
const COUNT = 'i=0; while :; do i=$((i+1)); echo line $i; sleep 0.02; done';
const folder = temporaryFolder();
let containerd: Containerd;
let engine: EmbeddedEngine;
let facts: EngineFacts;
let reference: string;

const runsHere = () => process.env.SKERRY_ENGINE === undefined || process.env.SKERRY_ENGINE === 'embedded';
const ctr = (...args: string[]) => run('ctr', ['--address', containerd.socket, ...args]);
const isAlive = (pid: number) => {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.[0] !== 'Z';
  } catch {
    return false;
  }
};

/** A container that counts its lines, and its first process. */
async function counting(command = COUNT) {
  const spec = makeSpec({ facts, view: { imageId: reference, cmd: ['sh', '-c', command] } });
  const { id } = await engine.create(spec);
  await engine.start(id);
  onTestFinished(async () => {
    await engine.stop(id, 0);
    await engine.remove(id);
  });
  return { id, pid: await until('it to run', async () => (await engine.processOf(id)) || undefined) };
}

async function lines(id: string): Promise<number[]> {
  const numbers: number[] = [];
  for await (const { line } of engine.logs(id, { tail: Infinity })) numbers.push(Number(line.replace('line ', '')));
  return numbers;
}

/** A file system of its own, which can lose what it has not written to its disk yet. */
class PowerlessDisk {
  readonly mount: string;
  readonly #image: string;

  private constructor(mount: string) {
    this.mount = mount;
    this.#image = `${mount}.img`;
  }

  static async make(mount: string): Promise<PowerlessDisk> {
    const disk = new PowerlessDisk(mount);
    mkdirSync(mount);
    await run('truncate', ['--size', '512M', disk.#image]);
    await run('mkfs.ext4', ['-q', disk.#image]);
    await disk.#attach();
    return disk;
  }

  async #attach(): Promise<void> {
    await run('mount', ['-o', 'loop', this.#image, this.mount]);
  }

  /** The disk as its blocks are now; what waits in memory is lost. Nothing may write meanwhile. */
  async losePower(): Promise<void> {
    await run('cp', ['--sparse=always', this.#image, `${this.#image}.now`]);
    await run('umount', [this.mount]);
    renameSync(`${this.#image}.now`, this.#image);
    await this.#attach();
  }

  async remove(): Promise<void> {
    await run('umount', ['--lazy', this.mount]);
  }
}

/** A pull that is not over when its layers are unpacked. */
async function pullUnsynced(_engine: EmbeddedEngine, image: string, own: Containerd): Promise<void> {
  const client = new ContainerdClient(own.url);
  const pulled = Promise.withResolvers<void>();
  const pull = async () => {
    await client.call(CRI.pullImage, { image: { image } }, { deadline: 0 });
    pulled.resolve();
    await new Promise(() => {});
  };
  void new Unpacking({ containerd: client, root: own.started.root, bootId: 'the former' }).during(pull);
  await pulled.promise;
}

const reconnected = () => until('the engine to answer', () => engine.connect());

describe.runIf(runsHere())('the containerd of the agent', () => {
  beforeAll(async () => {
    containerd = await startContainerd({ dir: join(folder, 'engine') });
    ({ reference } = await pushImage(inject('registryUrl'), 'faults/shell', '1', shellImage()));
    engine = new EmbeddedEngine({ url: containerd.url, instance: INSTANCE });
    facts = await prepare(engine, reference);
  }, 120_000);
  afterAll(() => containerd?.stop(), 60_000);

  test('is killed, and its containers run on with their logs', async () => {
    const { id, pid } = await counting();
    await until('lines', async () => (await lines(id)).length > 3);
    await containerd.kill();
    expect(isAlive(pid)).toBe(true);
    await containerd.start();
    await reconnected();
    expect(await engine.processOf(id)).toBe(pid);
    expect((await findContainer(engine, id)).state).toBe('running');
    const before = (await lines(id)).length;
    const after = await until('further lines', async () => {
      const all = await lines(id);
      return all.length > before + 3 && all;
    });
    expect(after).toEqual(after.map((_, at) => at + 1));
  }, 60_000);

  nightly(
    'is stopped for a minute beside a container that logs, which loses no line',
    async () => {
      const { id, pid } = await counting();
      await containerd.halt();
      await sleep(60_000);
      expect(isAlive(pid)).toBe(true);
      await containerd.start();
      await reconnected();
      const all = await until(
        'lines after the stop',
        async () => {
          const found = await lines(id);
          return found.length > 3000 && found;
        },
        120_000,
      );
      expect(all).toEqual(all.map((_, at) => at + 1));
    },
    300_000,
  );

  // With SKERRY_CONTAINERD=2 there is no older one to come from.
  test.runIf(process.env.SKERRY_NIGHTLY && process.env.SKERRY_CONTAINERD !== '2')(
    'is upgraded from 1.6 to 2 with a container that runs, which then can be stopped and replaced',
    async () => {
      const { id, pid } = await counting();
      await containerd.halt();
      await containerd.start('2');
      expect((await reconnected()).version).toMatch(/^2\./);
      expect(await engine.processOf(id)).toBe(pid);
      await engine.stop(id, 1);
      expect((await findContainer(engine, id)).state).toBe('exited');
      await engine.start(id);
      await until('it to run again', async () => (await engine.processOf(id)) > 0);
      const next = await counting();
      expect(isAlive(next.pid)).toBe(true);
    },
    900_000,
  );

  nightly(
    'loses power in a pull, and pulls the image whole afterwards',
    async () => {
      const content = Buffer.alloc(64 * 1024 ** 2, 'not so small');
      for (let at = 0; at < content.length; at += 4096) content.writeUInt32LE(Math.imul(at, 2654435761) >>> 0, at);
      const image = shellImage({ files: [{ path: '/tmp/big', content }] });
      const { reference: big } = await pushImage(inject('registryUrl'), 'faults/big', '1', image);
      const pulling = engine.pull({ reference: big, platform: '' }).catch((error: Error) => error);
      await sleep(300);
      await containerd.kill();
      expect(await pulling).toBeInstanceOf(Error);
      await containerd.start();
      await reconnected();
      await engine.pull({ reference: big, platform: '' });
      const { pid } = await counting();
      expect(isAlive(pid)).toBe(true);
    },
    300_000,
  );

  test.runIf(process.env.SKERRY_NIGHTLY).each([
    ['right after a pull', (onDisk: EmbeddedEngine, reference: string) => onDisk.pull({ reference, platform: '' })],
    ['when a pull has unpacked layers that are not on the disk', pullUnsynced],
  ] as const)(
    'loses power %s, and the next pull brings a whole image',
    async (_when, pull) => {
      const content = randomBytes(8 * 1024 ** 2);
      const image = shellImage({ files: [{ path: '/tmp/whole', content }] });
      const { reference: whole } = await pushImage(inject('registryUrl'), 'faults/whole', '1', image);
      const disk = await PowerlessDisk.make(join(folder, randomUUID()));
      onTestFinished(() => disk.remove());
      const own = await startContainerd({ dir: disk.mount });
      onTestFinished(() => own.stop());
      const onDisk = new EmbeddedEngine({ url: own.url, instance: INSTANCE });
      await onDisk.connect();
      await pull(onDisk, whole, own);
      await own.kill();
      await disk.losePower();
      await own.start();
      const next = new EmbeddedEngine({ url: own.url, instance: INSTANCE, bootId: 'the next' });
      const itsFacts = await until('the engine to answer', () => next.connect());
      await next.pull({ reference: whole, platform: '' });
      const { id } = await next.create(makeSpec({ facts: itsFacts, view: { imageId: whole, cmd: ['sleep', '3000'] } }));
      await next.start(id);
      const pid = await next.processOf(id);
      expect(readFileSync(`/proc/${pid}/root/tmp/whole`).equals(content)).toBe(true);
    },
    120_000,
  );

  nightly(
    'leaves containers in another namespace alone, which it does not list',
    async () => {
      const archive = join(folder, 'foreign.tar');
      writeFileSync(archive, saveImage(await sampleImage(), 'example.com/foreign/web:1'));
      await ctr('--namespace', 'default', 'images', 'import', archive);
      await ctr('--namespace', 'default', 'run', '--detach', 'example.com/foreign/web:1', 'foreign');
      onTestFinished(async () => {
        await ctr('--namespace', 'default', 'tasks', 'delete', '--force', 'foreign');
        await ctr('--namespace', 'default', 'containers', 'delete', 'foreign');
      });
      expect(await engine.containers()).toEqual([]);
      for (const { id } of await engine.listImages()) await engine.removeImage(id).catch(() => {});
      expect((await ctr('--namespace', 'default', 'tasks', 'list')).stdout).toMatch(/foreign +\d+ +RUNNING/);
      await engine.pull({ reference, platform: '' });
    },
    120_000,
  );

  nightly(
    'has a full disk: a pull says so, a container runs on, and with room the pull succeeds',
    async () => {
      const disk = join(folder, 'disk');
      mkdirSync(disk);
      await run('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', disk]);
      onTestFinished(async () => void (await run('umount', ['--lazy', disk])));
      const small = await startContainerd({ dir: disk });
      onTestFinished(() => small.stop());
      const onSmall = new EmbeddedEngine({ url: small.url, instance: INSTANCE });
      const itsFacts = await prepare(onSmall, reference);
      const { id } = await onSmall.create(makeSpec({ facts: itsFacts, view: { imageId: reference } }));
      await onSmall.start(id);
      const filler = join(disk, 'filler');
      await run('dd', ['if=/dev/zero', `of=${filler}`, 'bs=1M']).catch(() => {});
      const files = [{ path: '/tmp/some', content: randomBytes(1024 ** 2) }];
      const { reference: other } = await pushImage(inject('registryUrl'), 'faults/other', '1', shellImage({ files }));
      await expect(onSmall.pull({ reference: other, platform: '' })).rejects.toThrow(/no space left/);
      expect(await onSmall.processOf(id)).toBeGreaterThan(0);
      rmSync(filler);
      await onSmall.pull({ reference: other, platform: '' });
      await onSmall.stop(id, 0);
      await onSmall.remove(id);
    },
    300_000,
  );

  nightly(
    'takes its socket back from another user when it starts',
    async () => {
      chownSync(containerd.socket, 65534, 65534);
      await containerd.halt();
      await containerd.start();
      const { stdout } = await run('stat', ['--format', '%U %a', containerd.socket]);
      expect(stdout.trim()).toBe('root 660');
      await reconnected();
    },
    60_000,
  );
});
