import { describe, expect, test } from 'vitest';
import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import { ANYWHERE } from '../../domain/_reach.ts';
import type { Entry } from '../../domain/entry.ts';
import type { MicroserviceRecord, Records } from '../../domain/record.ts';
import type { Step } from '../../domain/step.ts';
import { EngineError } from '../../engine-port/error.ts';
import { MemoryEngine } from '../../engines/memory/_engine.ts';
import { generator } from '../../faults/_random.ts';
import { executeAlone } from '../executors/_executors.ts';
import type { MachineAccess } from '../executors/executors.ts';
import { imageOf, makeDesired, makeEntry, makeHold, makePlanInput, UUID } from './_util.ts';
import { plan } from './plan.ts';
import { noteBegin, noteResult } from './step-result.ts';
import { updateRecords } from './update-records.ts';

const DIED = 'the process ends here';
class Died extends Error {
  override message = DIED;
}

/**
 * A small agent: it reads an engine in memory, updates its records, plans, and carries out one step at a time. A test can
 * end it before or after any operation of the engine; only what it saved survives.
 */
class Machine {
  now = 1_000_000;
  engine: MemoryEngine;
  desired: Entry[] | undefined = [];
  saved = new Map<string, string>();
  records: Records = new Map();
  first = true;
  deaths = 0;
  /** whether the agent ends before or after an operation */
  dies: (moment: string) => boolean = () => false;
  /** images whose containers cannot be started or created */
  noStart = new Set<string>();
  noCreate = new Set<string>();
  /** ports that other programs of the machine listen on */
  foreignPorts = new Set<number>();
  random = () => 0.5;
  seen: string[] = [];

  constructor() {
    this.engine = new MemoryEngine({
      now: () => this.now,
      faults: {
        before: (operation, subject) => {
          if (this.dies(`before ${operation}`)) throw new Died();
          if (operation === 'start' && this.noStart.has(this.engine.specOf(subject).image))
            throw new EngineError('Failed', 'no such file');
          if (operation === 'create' && [...this.noCreate].some((image) => this.wants(image)))
            throw new EngineError('Invalid', 'bad settings');
        },
        after: (operation) => {
          this.checkOneRuns(operation);
          if (this.dies(`after ${operation}`)) throw new Died();
        },
      },
    });
  }

  wants(image: string): boolean {
    return (this.desired ?? []).some((entry) => entry.kind === 'run' && entry.view.imageId === image);
  }

  checkOneRuns(operation: string): void {
    for (const [uuid, containers] of this.engine.running())
      expect(containers.length, `${operation}: containers running of ${uuid}`).toBeLessThanOrEqual(1);
  }

  /** Reads the engine and carries out one step. False: there was nothing to do. */
  async turn(choose: (steps: Step[]) => Step | undefined = (steps) => steps[0]): Promise<boolean> {
    try {
      const snapshot = { containers: await this.engine.containers(), networkId: (await this.engine.network())?.id };
      this.records = updateRecords(this.records, {
        desired: makeDesired(this.desired),
        snapshot,
        now: this.now,
        wall: this.now,
        random: this.random,
        first: this.first,
        rebooted: false,
      });
      this.first = false;
      if (this.dies('before save')) throw new Died();
      this.save();
      const facts = await this.engine.connect();
      const { desired, records, now } = this;
      const input = makePlanInput({ desired: makeDesired(desired), snapshot, records, now });
      const step = choose(plan({ ...input, machine: { ...input.machine, facts } }).steps);
      if (!step) return false;
      this.seen.push(
        step.kind === 'network' ? 'network' : `${step.kind} ${'reason' in step ? step.reason : ''}`.trim(),
      );
      await this.carryOut(step);
      return true;
    } catch (error) {
      if (!(error instanceof Died)) throw error;
      this.restart();
      return true;
    }
  }

  async carryOut(step: Step): Promise<void> {
    if (step.kind !== 'network') this.update(step.uuid, (row) => noteBegin(row, step));
    const machine: MachineAccess = {
      pathRefusal: () => undefined,
      exchangedPath: () => undefined,
      prepareMounts: ({ mounts }) => mounts,
      whileVolumesStay: (make) => make(),
      cdiDevices: () => [],
      portTaken: async ({ external }) => this.foreignPorts.has(external),
      reach: () => ANYWHERE,
      lookup: async (name) => name,
    };
    const outcome = await executeAlone(step, { engine: this.engine, machine });
    const diedInside = typeof outcome !== 'string' && !outcome.ok && outcome.message === DIED;
    if (diedInside || this.dies('before conclusion')) throw new Died();
    if (typeof outcome === 'string' || step.kind === 'network') return;
    this.update(step.uuid, (row) => noteResult(row, step, outcome, this.now, this.random));
    this.save();
  }

  update(uuid: string, change: (row: MicroserviceRecord) => MicroserviceRecord): void {
    const row = this.records.get(uuid);
    if (row) this.records = new Map(this.records).set(uuid, change(row));
  }

  save(): void {
    this.saved = new Map([...this.records].map(([uuid, { live, ...row }]) => [uuid, JSON.stringify(row)]));
  }

  restart(): void {
    this.deaths++;
    this.first = true;
    this.records = new Map([...this.saved].map(([uuid, text]) => [uuid, { ...JSON.parse(text), live: {} }]));
  }

  /** Takes turns until nothing is left to do, and moves the clock for waits. */
  async settle(patience = 3600_000): Promise<void> {
    const end = this.now + patience;
    for (let turns = 0; turns < 5000; turns++) {
      if (await this.turn()) continue;
      if (this.now >= end) return;
      this.now += 5_000;
    }
    throw new Error(`does not settle: ${this.seen.slice(-20).join(', ')}`);
  }

  provide(...references: string[]): void {
    for (const reference of references) this.engine.registry.set(reference, imageOf(reference));
  }

  async runningImage(uuid = UUID): Promise<string | undefined> {
    return this.engine.running().get(uuid)?.[0]?.imageId;
  }

  async count(uuid = UUID): Promise<number> {
    return (await this.engine.containers()).filter((container) => container.uuid === uuid).length;
  }
}

const good = 'example/app:1';
const better = 'example/app:2';

async function started(): Promise<Machine> {
  const machine = new Machine();
  machine.provide(good, better);
  machine.desired = [makeEntry({ imageId: good })];
  await machine.settle(0);
  expect(await machine.runningImage()).toBe(imageOf(good));
  machine.engine.history.length = 0;
  machine.seen.length = 0;
  return machine;
}

test('an old container stops only after the new image is pulled and the new container is created', async () => {
  const machine = await started();
  machine.desired = [makeEntry({ imageId: better })];
  await machine.settle(0);
  expect(machine.seen).toEqual([
    'image',
    'create SpecChanged',
    'stop Replacing',
    'start Replacement',
    'remove Replaced',
    'rename',
  ]);
  expect(await machine.runningImage()).toBe(imageOf(better));
  expect(await machine.count()).toBe(1);
});

describe('while a new container cannot run because', () => {
  const causes: Record<string, (machine: Machine) => void> = {
    'its image cannot be pulled': (machine) => machine.engine.registry.delete(better),
    'it cannot be created': (machine) => machine.noCreate.add(better),
    'it cannot be started': (machine) => machine.noStart.add(better),
  };
  for (const [name, broken] of Object.entries(causes))
    test(`${name}, the old one runs with the reason, and the new one runs once the cause is gone`, async () => {
      const machine = await started();
      broken(machine);
      machine.desired = [makeEntry({ imageId: better })];
      await machine.settle(60_000);
      expect(await machine.runningImage()).toBe(imageOf(good));
      expect(machine.records.get(UUID)?.failure?.message).toMatch(/no image|bad settings|no such file/);
      if (name !== 'it cannot be started')
        expect(machine.engine.history.filter((h) => h.startsWith('stop'))).toEqual([]);
      machine.provide(better);
      machine.noCreate.clear();
      machine.noStart.clear();
      await machine.settle(600_000);
      expect(await machine.runningImage()).toBe(imageOf(better));
      expect(machine.records.get(UUID)?.failure).toBeUndefined();
      expect(await machine.count()).toBe(1);
    });

  test('neither it nor the old one can be started, both are retried at growing intervals', async () => {
    const machine = await started();
    machine.noStart.add(better).add(good);
    machine.desired = [makeEntry({ imageId: better })];
    await machine.settle(3600_000);
    const starts = machine.seen.filter((step) => step.startsWith('start')).length;
    expect(starts).toBeGreaterThan(8);
    expect(starts).toBeLessThan(60);
    machine.noStart.clear();
    await machine.settle(600_000);
    expect(await machine.runningImage()).toBe(imageOf(better));
  });
});

describe('an agent that ends in the middle of a replacement', () => {
  const moments = ['image', 'pull', 'create', 'stop', 'start', 'remove', 'rename'].flatMap((operation) => [
    `before ${operation}`,
    `after ${operation}`,
  ]);
  for (const moment of [...moments, 'before save', 'before conclusion'])
    test(`${moment} continues it when it starts again`, async () => {
      const machine = await started();
      machine.desired = [makeEntry({ imageId: better })];
      machine.dies = (at) => at === moment && machine.deaths === 0;
      await machine.settle(0);
      expect(await machine.runningImage()).toBe(imageOf(better));
      expect(await machine.count()).toBe(1);
      expect(machine.records.get(UUID)?.restartCount).toBe(0);
    });
});

describe('external ports', () => {
  const uuids = [UUID, '22222222-2222-4222-8222-222222222222', '33333333-3333-4333-8333-333333333333'];
  const [first = '', second = '', third = ''] = uuids;
  const at = (uuid: string, external: number, change: Partial<MicroserviceView> = {}) =>
    makeEntry({ uuid, imageId: good, portMappings: [{ internal: 80, external, protocol: 'tcp' }], ...change });

  async function holding(...ports: number[]): Promise<Machine> {
    const machine = new Machine();
    machine.provide(good, better);
    machine.desired = ports.map((port, i) => at(uuids[i] as string, port));
    await machine.settle(0);
    machine.seen.length = 0;
    machine.engine.history.length = 0;
    return machine;
  }
  const portsOf = (machine: Machine) =>
    uuids.map((uuid) => machine.engine.running().get(uuid)?.[0]?.ports[0]?.external).filter(Boolean);

  const edits: Record<string, { from: number[]; to: () => Entry[] }> = {
    'two microservices that swap ports': { from: [1, 2], to: () => [at(first, 2), at(second, 1)] },
    'three microservices that rotate their ports': {
      from: [1, 2, 3],
      to: () => [at(first, 2), at(second, 3), at(third, 1)],
    },
    'two microservices that move up by one port': { from: [1, 2], to: () => [at(first, 2), at(second, 3)] },
    'a new microservice that takes the port of one that moves': { from: [1], to: () => [at(first, 2), at(second, 1)] },
    'a new microservice that takes the port of one that is removed': { from: [1], to: () => [at(second, 1)] },
  };
  for (const [name, { from, to }] of Object.entries(edits)) {
    const wanted = to().map((entry) => entry.kind === 'run' && entry.view.portMappings[0]?.external);
    test(`${name}: each is stopped once and started once`, async () => {
      const machine = await holding(...from);
      machine.desired = to();
      await machine.settle(0);
      expect(portsOf(machine)).toEqual(wanted);
      const count = (what: string) => machine.seen.filter((step) => step.startsWith(what)).length;
      expect([count('stop'), count('start')]).toEqual([from.length, wanted.length]);
    });

    for (const moment of ['create', 'stop', 'start', 'remove'].flatMap((o) => [`before ${o}`, `after ${o}`]))
      for (const turn of [1, 2])
        test(`${name}: an agent that ends ${moment} no. ${turn} continues when it starts again`, async () => {
          const machine = await holding(...from);
          machine.desired = to();
          let seen = 0;
          machine.dies = (at) => at === moment && ++seen === turn;
          await machine.settle(0);
          expect(portsOf(machine)).toEqual(wanted);
          expect(machine.seen.filter((step) => step.startsWith('start Returned'))).toEqual([]);
        });
  }

  test('no container stops for a port that is not free yet, and both move when it is', async () => {
    const machine = await holding(1, 2);
    machine.desired = [at(first, 2), at(second, 1, { imageId: 'example/app:missing' })];
    await machine.settle(60_000);
    expect(portsOf(machine)).toEqual([1, 2]);
    expect(machine.engine.history.filter((h) => h.startsWith('stop'))).toEqual([]);
    machine.provide('example/app:missing');
    await machine.settle(600_000);
    expect(portsOf(machine)).toEqual([2, 1]);
  });

  test('a microservice whose new port is taken by another program keeps running and moves when the port is free', async () => {
    const machine = await holding(1);
    machine.foreignPorts.add(9);
    machine.desired = [at(first, 9)];
    await machine.settle(120_000);
    expect(portsOf(machine)).toEqual([1]);
    expect(machine.engine.history.filter((h) => h.startsWith('stop'))).toEqual([]);
    expect(machine.records.get(UUID)?.failure).toMatchObject({
      step: 'stop',
      reason: 'PortTaken',
      message: 'port 9/tcp of this machine is taken by another program',
    });
    machine.foreignPorts.clear();
    await machine.settle(600_000);
    expect(portsOf(machine)).toEqual([9]);
    expect(machine.records.get(UUID)?.failure).toBeUndefined();
  });

  test('a microservice that leaves the network of the machine gets a port at which it listened there itself', async () => {
    const machine = new Machine();
    machine.provide(good);
    machine.desired = [at(first, 9, { hostNetworkMode: true, portMappings: [] })];
    await machine.settle(0);
    const isOnHost = () => machine.engine.running().get(first)?.[0]?.hostNetwork;
    expect(isOnHost()).toBe(true);
    machine.foreignPorts.add(9);
    machine.desired = [at(first, 9)];
    await machine.settle(0);
    expect([isOnHost(), portsOf(machine)]).toEqual([false, [9]]);
  });
});

test('a crash loop slows down to one start in five minutes and never ends', async () => {
  const machine = await started();
  const [container] = await machine.engine.containers();
  const starts: number[] = [];
  for (const end = machine.now + 3600_000; machine.now < end; machine.now += 1000) {
    const before = machine.engine.running().size;
    while (await machine.turn());
    if (machine.engine.running().size > before) starts.push(machine.now);
    if (container && machine.engine.running().size > 0) machine.engine.exit(container.id, 1);
  }
  const gaps = starts.map((at, i) => Math.round((at - (starts[i - 1] ?? at)) / 1000)).slice(1);
  // Each gap is the pause and the one second that the container ran.
  expect(gaps.slice(0, 6)).toEqual([21, 41, 81, 161, 301, 301]);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(330);
  expect(starts.length).toBeGreaterThan(12);
  expect(machine.records.get(UUID)?.restartCount).toBe(starts.length);
  expect(machine.records.get(UUID)?.lastError).toBe('exitCode=1 oomKilled=false');
});

describe('random events', () => {
  const uuids = [UUID, '22222222-2222-4222-8222-222222222222', '33333333-3333-4333-8333-333333333333'];
  for (let seed = 1; seed <= 60; seed++)
    test(`with seed ${seed} never make a microservice run twice, and in the end the desired state runs`, async () => {
      const random = generator(seed);
      const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
      const machine = new Machine();
      machine.random = random;
      machine.provide('a:1', 'a:2', 'a:3');
      const broken = { images: ['a:missing', 'a:nostart'] };
      machine.provide('a:nostart');
      machine.noStart.add('a:nostart');
      const views = new Map<string, Partial<MicroserviceView>>();
      for (let round = 0; round < 25; round++) {
        machine.dies = () => random() < 0.03;
        const uuid = pick(uuids);
        const event = random();
        if (event < 0.4)
          views.set(uuid, { uuid, imageId: pick(['a:1', 'a:2', 'a:3', ...broken.images]), rebuildCount: 0 });
        else if (event < 0.5) views.delete(uuid);
        else if (event < 0.6 && views.has(uuid))
          views.set(uuid, { ...views.get(uuid), rebuildCount: (views.get(uuid)?.rebuildCount ?? 0) + 1 });
        else if (event < 0.8) {
          const container = (await machine.engine.containers()).find((c) => c.state === 'running');
          if (container) machine.engine.exit(container.id, 1);
        } else if (event < 0.9) machine.restart();
        const entries: Entry[] = [...views.values()].map((view) => makeEntry(view));
        machine.desired = random() < 0.1 ? undefined : entries.map((e) => (random() < 0.1 ? makeHold(e.uuid) : e));
        for (let turns = 0; turns < 10; turns++) {
          await machine.turn((steps) => (steps.length > 0 ? pick(steps) : undefined));
          machine.now += Math.floor(random() * 20_000);
        }
      }
      machine.dies = () => false;
      machine.desired = [...views.values()].map((view) => makeEntry(view));
      await machine.settle(1800_000);
      for (const uuid of uuids) {
        const image = views.get(uuid)?.imageId;
        if (!image) expect(await machine.count(uuid), 'containers of what is not wanted').toBe(0);
        else if (!broken.images.includes(image)) {
          expect(await machine.runningImage(uuid)).toBe(imageOf(image));
          expect(await machine.count(uuid)).toBe(1);
        }
      }
    });
});
