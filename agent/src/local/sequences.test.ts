import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { createTestAgent, runAgent } from '../_agent.ts';
import { plainView } from '../_web.ts';
import type { Agent } from '../app.ts';
import { until } from '../engines/_contract.ts';
import { imageIdOf, MemoryEngine } from '../engines/memory/_engine.ts';
import { generator } from '../faults/_random.ts';
import { FakeController } from '../link/_fake-controller.ts';
import { memoryIdentity } from '../state/_identity.ts';
import { memoryDatabase } from '../state/database.ts';
import { openRows } from '../state/rows.ts';
import { manifestOf } from './_manifest.ts';
import { readMicroserviceManifest } from './manifest.ts';
import { localRowSchema } from './row.ts';

/**
 * Random edits of a machine and of its controller, with starts of the agent, lost and damaged files, and memberships that begin and
 * end, against a model: wanted microservices run and are not touched, and the others end. SKERRY_FUZZ_SEED=<seed> repeats from there.
 */

const LONG = Boolean(process.env.SKERRY_NIGHTLY);
const [SEEDS, LENGTH] = LONG ? [30, 40] : [3, 22];
/** Other seeds every night. */
const FIRST = Number(process.env.SKERRY_FUZZ_SEED ?? (LONG ? Date.now() % 2 ** 31 : 1));

/** A microservice as the model has it. */
interface Expected {
  source: 'managed' | 'deployed' | 'kept';
  application: string;
  name: string;
  image: string;
  isRunning: boolean;
  /** its row is lost or damaged */
  isLost?: true;
}

class World {
  readonly folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'skerry-sequence-'));
  readonly rows = join(this.folder, 'rows');
  readonly engine = new MemoryEngine({ anyImage: true });
  readonly controller = new FakeController();
  readonly identity = memoryIdentity();
  database = memoryDatabase();
  agent!: Agent;
  end: () => Promise<void> = async () => {};
  /** by uuid */
  readonly model = new Map<string, Expected>();
  isNode = false;
  readonly log: string[] = [];
  readonly random: () => number;

  constructor(seed: number) {
    this.random = generator(seed);
  }

  pick<T>(items: readonly T[]): T | undefined {
    return items[Math.floor(this.random() * items.length)];
  }

  of(...sources: Expected['source'][]): [string, Expected][] {
    return [...this.model].filter(([, { source }]) => sources.includes(source));
  }

  start(): void {
    this.agent = createTestAgent({
      ...{ folder: this.folder, database: this.database, identity: this.identity, engine: () => this.engine },
      ownMicroservices: openRows(this.rows, localRowSchema),
    });
    this.end = runAgent(this.agent);
  }

  async restart(between: () => void = () => {}): Promise<void> {
    await this.end();
    between();
    this.start();
  }

  /** Waits until the machine is as the model says; what the last step did not change was not touched. */
  async agree(untouched: ReadonlyMap<string, string>): Promise<void> {
    const { agent, engine, controller } = this;
    const ids = async () => new Map((await engine.containers()).map(({ uuid, id, state }) => [uuid, `${id} ${state}`]));
    await until(
      this.log.slice(-12).join('\n'),
      async () => {
        if (!agent.supervisor.hasLooked || agent.supervisor.pending > 0) return false;
        if (this.isNode && controller.said.microserviceList !== controller.due.microserviceList) return false;
        if ([...agent.own.rows.values()].some(({ desiredState }) => desiredState === 'deleted')) return false;
        const containers = await engine.containers();
        const running = containers.filter(({ state }) => state === 'running').map(({ uuid }) => uuid);
        expect(running.toSorted()).toEqual(
          [...this.model].flatMap(([uuid, { isRunning }]) => (isRunning ? [uuid] : [])).toSorted(),
        );
        expect(new Set(containers.map(({ uuid }) => uuid)).size).toBe(containers.length);
        for (const { uuid, imageId, state } of containers)
          if (state === 'running') expect(imageId).toBe(imageIdOf(this.model.get(uuid)?.image ?? ''));
        return true;
      },
      8_000,
    );
    const now = await ids();
    for (const [uuid, id] of untouched) expect(now.get(uuid), `${uuid} after ${this.log.at(-1)}`).toBe(id);
    for (const [uuid, containers] of engine.running()) expect(containers.length, uuid).toBe(1);
    for (const [uuid, { source }] of this.model)
      if (source !== 'managed' && this.isNode) expect(controller.microservice(uuid)?.containerId).toBeUndefined();
  }

  async untouched(but: readonly string[] = []): Promise<Map<string, string>> {
    const containers = await this.engine.containers();
    const kept = containers.filter(({ uuid }) => this.model.has(uuid) && !but.includes(uuid));
    return new Map(kept.map(({ uuid, id, state }) => [uuid, `${id} ${state}`]));
  }

  deliver(): void {
    const views = this.of('managed').map(([uuid, { application, name, image }]) =>
      plainView({ uuid, application, name, imageId: image, revision: `r-${image}` }),
    );
    this.controller.change({ microservices: views });
  }

  async dispose(): Promise<void> {
    await this.end();
    await this.controller.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

let world: World;
afterEach(() => world.dispose());

const NAMES = ['web', 'queue', 'store'];
const IMAGES = ['a:1', 'a:2', 'a:3'];

/** What may happen; answers the uuids that it may touch, or undefined where it cannot happen now. */
const EVENTS: Record<string, (world: World) => Promise<readonly string[] | undefined> | readonly string[] | undefined> =
  {
    deploy: (w) => {
      const [name, image] = [w.pick(NAMES) as string, w.pick(IMAGES) as string];
      const { view } = readMicroserviceManifest(manifestOf(name, image));
      const before = w.of('deployed').find(([, each]) => each.name === name);
      const { row } = w.agent.own.deploy({ name, view, manifest: manifestOf(name, image) });
      // A row that was lost is mended, and its microservice stays the same.
      if (before) expect(row.uuid).toBe(before[0]);
      w.model.set(row.uuid, { source: 'deployed', application: 'skerry-agent', name, image, isRunning: true });
      return before?.[1].image === image && before[1].isRunning ? [] : [row.uuid];
    },
    'stop on the machine': (w) => {
      const [uuid, one] = w.pick(w.of('deployed', 'kept').filter(([, each]) => each.isRunning && !each.isLost)) ?? [];
      if (!uuid || !one) return undefined;
      w.agent.supervisor.local.stop(uuid);
      one.isRunning = false;
      return [uuid];
    },
    'start on the machine': (w) => {
      const [uuid, one] = w.pick(w.of('deployed', 'kept').filter(([, each]) => !each.isRunning)) ?? [];
      if (!uuid || !one) return undefined;
      w.agent.supervisor.local.start(uuid);
      one.isRunning = true;
      return [uuid];
    },
    remove: (w) => {
      const [uuid] = w.pick(w.of('deployed', 'kept')) ?? [];
      if (!uuid) return undefined;
      // A removed one is free for a controller that sends its uuid.
      if (w.isNode) w.deliver();
      w.agent.own.remove(uuid);
      w.model.delete(uuid);
      return [uuid];
    },
    'place by the controller': (w) => {
      if (!w.isNode) return undefined;
      const uuid = randomUUID();
      w.model.set(uuid, {
        source: 'managed',
        application: 'shop',
        name: `m${uuid.slice(0, 4)}`,
        image: 'a:1',
        isRunning: true,
      });
      w.deliver();
      return [uuid];
    },
    'change by the controller': (w) => {
      const [uuid, one] = w.pick(w.of('managed')) ?? [];
      if (!uuid || !one) return undefined;
      one.image = w.pick(IMAGES) as string;
      w.deliver();
      return [uuid];
    },
    'remove by the controller': (w) => {
      const [uuid] = w.pick(w.of('managed')) ?? [];
      if (!uuid) return undefined;
      w.model.delete(uuid);
      w.deliver();
      return [uuid];
    },
    'send what is not its own': (w) => {
      const [uuid] = w.pick(w.of('deployed', 'kept')) ?? [];
      if (!uuid || !w.isNode) return undefined;
      w.deliver();
      w.controller.change({
        microservices: [...w.controller.microservices, plainView({ uuid, name: 'hostile', imageId: 'evil:1' })],
      });
      return [];
    },
    provision: async (w) => {
      if (w.isNode) return undefined;
      w.controller.flags = {};
      // Else the last report of the former membership counts.
      w.controller.said = {};
      // The controller sends some of what it had left to the machine.
      const back = w.of('kept').filter(([, { isRunning, isLost }]) => isRunning && !isLost && w.random() < 0.5);
      for (const [, one] of back) one.source = 'managed';
      w.deliver();
      await w.agent.provision(w.controller.joinString);
      w.isNode = true;
      return [];
    },
    'leave, and keep all': async (w) => {
      if (!w.isNode) return undefined;
      await w.agent.deprovision('local');
      w.isNode = false;
      for (const [, one] of w.of('managed')) one.source = 'kept';
      return [];
    },
    'leave, and end all': async (w) => {
      if (!w.isNode || w.random() < 0.7) return undefined;
      await w.agent.deprovision('all');
      w.isNode = false;
      w.model.clear();
      return [];
    },
    'delete the node': async (w) => {
      if (!w.isNode || w.random() < 0.5) return undefined;
      w.controller.change({ flags: { deleteNode: 'ff' } });
      await until('the end of the membership', () => w.agent.identity.node === undefined);
      w.isNode = false;
      const managed = w.of('managed').map(([uuid]) => uuid);
      for (const uuid of managed) w.model.delete(uuid);
      return managed;
    },
    'start the agent again': async (w) => {
      await w.restart();
      return [];
    },
    'lose the database': async (w) => {
      // Without its row as well, nothing says that it was stopped, or that a controller left it.
      const last = w
        .of('deployed', 'kept')
        .some(([, { isLost, source, isRunning }]) => isLost && (source === 'kept' || !isRunning));
      if (last) return undefined;
      await w.restart(() => {
        w.database = memoryDatabase();
      });
      return [];
    },
    'lose a row': async (w) => {
      const [uuid, one] =
        w.pick(w.of('deployed', 'kept').filter(([, { isLost, isRunning }]) => !isLost && isRunning)) ?? [];
      if (!uuid || !one) return undefined;
      await w.restart(() => rmSync(join(w.rows, `${uuid}.json`)));
      one.isLost = true;
      return [];
    },
    'damage a row': async (w) => {
      const [uuid, one] =
        w.pick(w.of('deployed', 'kept').filter(([, { isLost, isRunning }]) => !isLost && isRunning)) ?? [];
      if (!uuid || !one) return undefined;
      await w.restart(() => writeFileSync(join(w.rows, `${uuid}.json`), Buffer.alloc(64, 0x5a)));
      one.isLost = true;
      return [];
    },
  };

describe('random edits of a machine and its controller', () => {
  for (let seed = FIRST; seed < FIRST + SEEDS; seed++)
    test(
      `with seed ${seed} touch no wanted microservice, and end the rest`,
      async () => {
        world = new World(seed);
        await world.controller.listen();
        world.start();
        const names = Object.keys(EVENTS);
        for (let step = 0; step < LENGTH; ) {
          const name = world.pick(names) as string;
          const before = await world.untouched();
          const touched = await EVENTS[name]?.(world);
          if (!touched) continue;
          step++;
          world.log.push(`${step}. ${name} ${touched.join(' ')}`);
          for (const uuid of [...before.keys()])
            if (touched.includes(uuid) || !world.model.has(uuid)) before.delete(uuid);
          await world.agree(before);
        }
      },
      120_000 * (LONG ? 5 : 1),
    );
});
