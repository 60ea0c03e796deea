import { execFileSync, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { freePort } from '../../../hack/ports.ts';
import type {} from '../../../hack/testing/provided.ts';
import { Home } from '../_home.ts';
import { pushVersions, untilRuns, webView } from '../_web.ts';
import type { Container } from '../engine-port/container.ts';
import { until } from '../engines/_contract.ts';
import { firstEngine } from '../engines/_outside.ts';
import { FakeController, type View } from '../link/_fake-controller.ts';
import { FilledDisk } from './_filled-disk.ts';
import { generator } from './_random.ts';

/** The agent as a process, a real engine, and a disk that is full, read-only, or returns other bytes than were written. */

// Tests wait for conditions, so that they pass on a slow machine.
vi.setConfig({ testTimeout: 300_000 });

const engineUrl = firstEngine().url;
const image = (tag: string) => `${new URL(inject('registryUrl')).host}/disk/sample:${tag}`;
const MiB = 1024 * 1024;

/** A small file system with the agent's data. */
class Disk extends FilledDisk {
  readonly folder: string;
  readonly data: string;

  constructor(megabytes: number) {
    const folder = mkdtempSync(join(tmpdir(), 'skerry-disk-'));
    super(join(folder, 'mount'));
    this.folder = folder;
    this.data = join(this.mount, 'data');
    mkdirSync(this.mount);
    const file = join(this.folder, 'image');
    writeFileSync(file, '');
    truncateSync(file, megabytes * MiB);
    execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', file]);
    this.attach();
  }

  attach(): void {
    execFileSync('mount', ['-o', 'loop', join(this.folder, 'image'), this.mount]);
  }

  /** Mounts it again, as after a restart of the machine. */
  repair(): void {
    execFileSync('umount', [this.mount]);
    // Its exit code reports a repair.
    spawnSync('e2fsck', ['-y', '-f', join(this.folder, 'image')]);
    this.attach();
  }

  /** Makes the file system read-only at once, also for open files, as the kernel does when it finds errors in it. */
  fail(): void {
    execFileSync('mount', ['-o', 'remount,abort', this.mount]);
    // The first write after it has that effect.
    try {
      writeFileSync(join(this.mount, 'probe'), 'x');
    } catch {}
  }

  remove(): void {
    spawnSync('umount', ['-l', this.mount]);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

let controller: FakeController;
let home: Home;
let disk: Disk;
const uuid = randomUUID();
let external: number;
let serial = 0;

const view = (change: Partial<View> = {}): View =>
  webView({ uuid, external, imageId: image('1'), revision: `r-${++serial}` }, change);

beforeAll(async () => {
  await pushVersions(inject('registryUrl'), 'disk/sample', '1', '2');
});

beforeEach(async () => {
  external = await freePort();
  disk = new Disk(8);
  controller = await new FakeController().listen();
  home = new Home({ engineUrl, disk: disk.data });
  await home.up();
  expect(await home.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
  want(view());
  await running();
});
afterEach(async () => {
  await home.remove();
  await controller.close();
  disk.remove();
});

function want(...views: View[]): void {
  controller.change({ microservices: views });
}

async function running(): Promise<Container> {
  await untilRuns(controller, controller.microservices[0] as View);
  return until('one container under its name', only);
}

async function only(): Promise<Container> {
  const all = await home.containers();
  expect(all).toMatchObject([{ state: 'running', name: `skerry-${uuid}` }]);
  return all[0] as Container;
}

const warning = (pattern: RegExp) =>
  until(
    `a warning like ${pattern}`,
    () => controller.said.daemonStatus === 'WARNING' && pattern.test(controller.said.warningMessage ?? ''),
    90_000,
  );
const noWarning = () => until('no warning', () => controller.said.daemonStatus === 'RUNNING', 90_000);

async function stopAll(): Promise<void> {
  const engine = await home.engine();
  for (const { id } of await engine.containers()) await engine.stop(id, 0);
}

async function removeAll(): Promise<void> {
  const engine = await home.engine();
  for (const { id } of await engine.containers()) {
    await engine.stop(id, 0);
    await engine.remove(id);
  }
}

test('an agent whose disk fills up supervises, does not acknowledge what it cannot save, and catches up later', async () => {
  const had = controller.requests.findLast(({ have }) => have)?.have;
  disk.fill();
  want(view({ imageId: image('2') }));
  // No other change on this machine would cause a report.
  await warning(/^database: what the controller said last cannot be kept/);
  expect(home.log).toContain('Cannot keep what the controller said');
  expect((await home.cli('status')).out).toContain('what the controller said last cannot be kept');
  // A new container changes its record, which does not fit on the disk.
  await removeAll();
  const made = await until('a container in its place', only, 60_000);
  await warning(/database: .*; database: /);
  expect((await only()).id).toBe(made.id);
  expect(controller.requests.findLast(({ have }) => have)?.have).toBe(had);
  disk.free();
  expect((await running()).id).not.toBe(made.id);
  await noWarning();
});

test('an agent that starts on a full disk runs its microservices and reports that it cannot save', async () => {
  const before = await only();
  await home.end('SIGKILL');
  disk.fill();
  await stopAll();
  controller.said = {};
  home.start();
  await warning(/^database: .*takes no writes/);
  expect((await running()).id).toBe(before.id);
  // The last change may not be on the disk; the identity is.
  expect(readFileSync(join(disk.data, 'identity.json'), 'utf8')).toContain(home.instance);
  disk.free();
  want(view({ imageId: image('2') }));
  expect((await running()).id).not.toBe(before.id);
  await noWarning();
});

test('an agent whose disk turns read-only supervises, also after a start on that disk', async () => {
  disk.fail();
  await removeAll();
  const made = await until('a container in its place', only, 60_000);
  await warning(/^database: /);
  await home.end('SIGKILL');
  disk.repair();
  disk.make('ro');
  await stopAll();
  controller.said = {};
  home.start();
  await warning(/^database: .*takes no writes/);
  expect((await running()).id).toBe(made.id);
  disk.make('rw');
  want(view({ imageId: image('2') }));
  expect((await running()).id).not.toBe(made.id);
  await noWarning();
});

test('on a full disk a volume mount keeps its content for the container that runs, and the new content arrives with the room', async () => {
  const mount = (value: string) => ({
    uuid: randomUUID(),
    name: 'creds',
    version: 1,
    type: 'secret',
    data: { password: Buffer.from(value).toString('base64') },
  });
  const creds = mount('old');
  controller.volumeMounts = [creds];
  const mapping = { hostDestination: 'creds', containerDestination: '/etc/creds', type: 'volumeMount' } as const;
  want(view({ volumeMappings: [{ ...mapping, accessMode: 'ro', scope: 'private' }] }));
  const { id, pid } = await running();
  const password = () => readFileSync(`/proc/${pid}/root/etc/creds/password`, 'utf8');
  expect(password()).toBe('old');
  disk.fill();
  controller.change({ volumeMounts: [{ ...mount('new'.repeat(10_000)), uuid: creds.uuid }] });
  await warning(/^database: what the controller said last cannot be kept/);
  expect(password()).toBe('old');
  disk.free();
  await until('the new content', () => password() === 'new'.repeat(10_000), 60_000);
  expect((await only()).id).toBe(id);
  await noWarning();
});

test('on a full disk the files of the system keep their content for the container that runs, and the new content arrives with the room', async () => {
  const certificates = (key: string) => [{ name: 'certificates', files: { 'tls.crt': `of ${key}`, 'tls.key': key } }];
  controller.systemFiles = certificates('old');
  const mapping = {
    containerDestination: '/etc/tls',
    type: 'volumeMount',
    accessMode: 'ro',
    scope: 'private',
  } as const;
  want(view({ isSystem: true, volumeMappings: [{ ...mapping, hostDestination: 'system:certificates' }] }));
  const { id, pid } = await running();
  const files = () => ['tls.crt', 'tls.key'].map((name) => readFileSync(`/proc/${pid}/root/etc/tls/${name}`, 'utf8'));
  expect(files()).toEqual(['of old', 'old']);
  const key = 'new'.repeat(10_000);
  const seen = new Set<string>();
  disk.fill();
  controller.change({ systemFiles: certificates(key) });
  await warning(/^database: what the controller said last cannot be kept|system files: certificates: .*ENOSPC/);
  seen.add(JSON.stringify(files()));
  disk.free();
  await until(
    'the new content',
    () => {
      seen.add(JSON.stringify(files()));
      return files()[1] === key;
    },
    90_000,
  );
  expect(
    [...seen].every((each) =>
      [
        ['of old', 'old'],
        [`of ${key}`, key],
      ].some((ok) => JSON.stringify(ok) === each),
    ),
  ).toBe(true);
  expect((await only()).id).toBe(id);
  await noWarning();
});

describe('with damaged bytes on the disk', () => {
  test('in the database, the agent starts and changes no container', async () => {
    const before = await only();
    await home.end('SIGKILL');
    const kept = ['agent.db', 'agent.db-wal'].map((name) => [name, readFileSync(join(disk.data, name))] as const);
    const identity = readFileSync(join(disk.data, 'identity.json'), 'utf8');
    for (let seed = 1; seed <= Number(process.env.SKERRY_NIGHTLY ? 100 : 4); seed++) {
      const random = generator(seed);
      for (const [name, bytes] of kept) {
        const damaged = Buffer.from(bytes);
        for (let n = 0; n < 40; n++) damaged[Math.floor(random() * damaged.length)] = Math.floor(random() * 256);
        writeFileSync(join(disk.data, name), damaged);
      }
      controller.said = {};
      home.start();
      await running();
      expect(await only()).toEqual(before);
      await home.end('SIGKILL');
      expect(readFileSync(join(disk.data, 'identity.json'), 'utf8')).toBe(identity);
    }
  }, 900_000);

  test('in the identity file, the agent reports it, keeps the file, removes no container, and can be provisioned again', async () => {
    const before = await only();
    await home.end('SIGKILL');
    const path = join(disk.data, 'identity.json');
    const bytes = readFileSync(path);
    bytes.fill(0, 40, 80);
    writeFileSync(path, bytes);
    await home.up();
    expect(home.log).toContain('The identity could not be read and was set aside; provision the agent again');
    const [aside] = readdirSync(disk.data).filter((name) => name.startsWith('identity.json.damaged-'));
    expect(readFileSync(join(disk.data, aside ?? ''))).toEqual(bytes);
    const status = JSON.parse((await home.cli('status', '-o', 'json')).out) as Record<string, unknown>;
    expect(status).toMatchObject({ controllerConnection: 'NOT_PROVISIONED' });
    expect(status.warnings).toEqual([expect.stringContaining('provision the agent again')]);
    expect(await only()).toEqual(before);
    // The controller accepts a new key only with a new provisioning key.
    controller.publicKey = undefined;
    controller.said = {};
    expect(await home.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
    await running();
    expect(await only()).toEqual(before);
  });
});
