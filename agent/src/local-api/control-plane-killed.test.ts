import { cpSync, existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { until } from '../engines/_contract.ts';
import { imageIdOf, MemoryEngine } from '../engines/memory/_engine.ts';
import { controlPlaneManifest } from '../local/_control-plane.ts';
import type { LocalRow } from '../local/row.ts';
import { memoryRows } from '../state/_rows.ts';
import { copyDatabase, memoryDatabase } from '../state/database.ts';
import { LocalAgent } from './_local-agent.ts';

/**
 * The control plane of a machine, by an agent that ends before and after each of its calls that change anything: the engine, its rows, its
 * database. By day every tenth of them, at another one in each change; all of them by night.
 */
const NIGHTLY = process.env.SKERRY_NIGHTLY !== undefined;
const EVERY = NIGHTLY ? 1 : 10;

const APPLY = '/v1/deploy/controlplane:apply';
const CONTROL_PLANE = '/v1/system/controlplane';
const CHANGES = new Set(['network', 'pull', 'create', 'start', 'stop', 'rename', 'remove']);
/** An image that starts, and does not become ready. */
const BROKEN = 'broken';

const imageOf = (tag: string) => `example/control-plane:${tag}`;

/** A machine whose agent ends and starts again; what outlives the agent is here. */
class Machine {
  readonly engine = new MemoryEngine({ anyImage: true });
  readonly sockets = temporaryFolder();
  readonly rows = memoryRows<LocalRow>();
  database = memoryDatabase();
  data = mkdtempSync(join(temporaryFolder(), 'data-'));
  local: LocalAgent | undefined;
  /** moments of the present agent, and the one at which it ends */
  #seen = 0;
  #end = Number.POSITIVE_INFINITY;
  /** what outlives an agent that has ended and continues in this process */
  #left: Pick<Machine, 'database' | 'data'> | undefined;

  constructor() {
    const called = async (operation: string) => {
      // What an agent that has ended asks for again and again leaves the others their turn.
      if (this.hasEnded) await sleep(25);
      if (CHANGES.has(operation)) this.#moment();
    };
    this.engine.faults.before = called;
    this.engine.faults.after = (operation, subject) => {
      if (operation === 'start') this.#started(subject);
      return called(operation);
    };
  }

  get hasEnded(): boolean {
    return this.#left !== undefined;
  }

  /** The agent ends at its n-th moment from now. */
  arm(n: number): void {
    this.#seen = 0;
    this.#end = n;
  }

  /** Starts an agent; the former one ends. */
  async begin(): Promise<LocalAgent> {
    await this.local?.[Symbol.asyncDispose]();
    Object.assign(this, this.#left);
    this.#left = undefined;
    this.#end = Number.POSITIVE_INFINITY;
    const { engine, data, database } = this;
    const deps = { ownMicroservices: this.#watched(this.rows), database: this.#watched(database) };
    this.local = await LocalAgent.start({ folder: this.sockets, data, engine, deps });
    const { supervisor } = this.local.agent;
    await until('a look', () => supervisor.hasLooked || this.hasEnded);
    return this.local;
  }

  writeData(uuid: string): void {
    mkdirSync(this.dataOf(uuid), { recursive: true });
    writeFileSync(join(this.dataOf(uuid), 'kept'), '');
  }

  dataOf = (uuid: string): string => join(this.data, 'volumes', 'data', uuid, 'data');

  /** An agent that has ended changes nothing more. */
  #moment(): void {
    this.#seen++;
    if (this.#seen >= this.#end && !this.#left) {
      const database = memoryDatabase();
      copyDatabase(this.database, database);
      const data = mkdtempSync(join(temporaryFolder(), 'data-'));
      cpSync(this.data, data, { recursive: true });
      this.#left = { database, data };
    }
    if (this.#left) throw new Error('the process has ended');
  }

  #watched<T extends object>(target: T): T {
    const around =
      (act: (...args: unknown[]) => unknown) =>
      (...args: unknown[]) => {
        this.#moment();
        const result = act(...args);
        this.#moment();
        return result;
      };
    return new Proxy(target, {
      get: (of, name) => {
        const value: unknown = Reflect.get(of, name);
        const isChange = typeof value === 'function' && /^(save|remove|forget)/.test(String(name));
        return isChange ? around(value as (...args: unknown[]) => unknown) : value;
      },
    });
  }

  /** The health check of an image that becomes ready succeeds at once. */
  #started(id: string): void {
    const isBroken = this.engine.specOf(id).image === imageOf(BROKEN);
    this.engine.setHealth(id, isBroken ? 'unhealthy' : 'healthy');
    for (const containers of this.engine.running().values()) expect(containers.length).toBe(1);
  }
}

interface Change {
  /** asks for the change */
  act(local: LocalAgent): Promise<number>;
  /** whether there is a control plane before */
  isFirst?: true;
  /** the tags that may run at the end, where the agent is not asked again; undefined: nothing has to run */
  ends: readonly (string | undefined)[];
  /** the least number of moments */
  deaths: number;
  /** left to the night: an image gets a while to become ready */
  isLong?: true;
}

const apply = async (local: LocalAgent, tag: string) => {
  const spec = { controller: { image: imageOf(tag), registry: 1 } };
  return (await local.upload(APPLY, controlPlaneManifest(spec))).status;
};
const ask = (method: string, path: string) => async (local: LocalAgent) => (await local.ask(method, path)).status;

const TABLE: Record<string, Change> = {
  'the first apply': { act: (local) => apply(local, '2'), isFirst: true, ends: [undefined, '2'], deaths: 8 },
  'an apply of another image': { act: (local) => apply(local, '2'), ends: ['1', '2'], deaths: 14 },
  'an apply of an image that does not become ready': {
    ...{ act: (local) => apply(local, BROKEN), ends: ['1'], deaths: 20 },
    isLong: true,
  },
  'a restart': { act: ask('POST', `${CONTROL_PLANE}/restart`), ends: ['1'], deaths: 4 },
  'a restart with pull': { act: ask('POST', `${CONTROL_PLANE}/restart?pull=true`), ends: ['1'], deaths: 14 },
  'a removal': { act: ask('DELETE', CONTROL_PLANE), ends: ['1', undefined], deaths: 6 },
};

const running = (machine: Machine) => [...machine.engine.running().values()].flat();

const runOf = (machine: Machine) => running(machine).map(({ id, startedAt }) => `${id} ${startedAt}`)[0];

/** Waits until nothing is under way and another run has begun, and answers the tag that runs. */
async function settled(machine: Machine, local: LocalAgent, former?: string): Promise<string | undefined> {
  const { agent } = local;
  await until('the end of an apply', () => agent.controlPlaneApplies.running.length === 0);
  return until('one container, or nothing at all', async () => {
    const all = await machine.engine.containers();
    if (former !== undefined && former === runOf(machine)) return false;
    const [row] = machine.rows.all.values();
    if (!row) return all.length === 0 && { tag: undefined };
    const status = agent.microservices()?.find(({ id }) => id === row.uuid);
    const isPresent = status?.revision === row.view?.revision && status?.healthStatus?.toLowerCase() === 'healthy';
    const isOver = row.desiredState === 'running' && row.controlPlane?.isApplying === undefined;
    return isPresent && isOver && all.length === 1 && { tag: row.view?.imageId.split(':')[1] };
  }).then(({ tag }) => tag);
}

describe('an agent that ends at any call of', () => {
  test.each(Object.entries(TABLE).filter(([, { isLong }]) => NIGHTLY || !isLong))(
    '%s leaves what ran or what was asked for, with its data, and the next apply works',
    { timeout: 600_000 },
    async (name, { act, isFirst, ends, deaths }) => {
      // Every change begins at another moment of the day.
      let at = EVERY === 1 ? 1 : 1 + (Object.keys(TABLE).indexOf(name) % 3);
      for (; ; at += EVERY) {
        const machine = new Machine();
        let local = await machine.begin();
        try {
          if (!isFirst) {
            expect(await apply(local, '1')).toBe(202);
            expect(await settled(machine, local)).toBe('1');
          }
          const before = [...machine.rows.all.keys()];
          for (const uuid of before) machine.writeData(uuid);
          machine.arm(at);
          const former = runOf(machine);
          let isOver = false;
          const over = act(local).then(() => settled(machine, local, former));
          over.then(
            () => {
              isOver = true;
            },
            () => {},
          );
          await until('the end of the agent, or of the change', () => machine.hasEnded || isOver);
          const { hasEnded } = machine;
          local = await machine.begin();
          const tag = await settled(machine, local);
          expect(ends, `after an end at moment ${at}`).toContain(tag);
          for (const uuid of before) {
            expect(existsSync(machine.dataOf(uuid)), `data after an end at moment ${at}`).toBe(tag !== undefined);
          }
          expect(await apply(local, '3')).toBe(202);
          expect(await settled(machine, local)).toBe('3');
          if (tag !== undefined && !isFirst) expect([...machine.rows.all.keys()]).toEqual(before);
          expect(running(machine).map(({ imageId }) => imageId)).toEqual([imageIdOf(imageOf('3'))]);
          if (!hasEnded) break;
        } finally {
          await local[Symbol.asyncDispose]();
        }
      }
      expect(at).toBeGreaterThan(deaths);
    },
  );
});
