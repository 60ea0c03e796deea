import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createTestAgent, runAgent } from '../_agent.ts';
import { plainView } from '../_web.ts';
import type { Agent } from '../app.ts';
import { until } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { FakeController } from '../link/_fake-controller.ts';
import type { Scope } from '../link/membership.ts';
import type { LocalRow } from '../local/row.ts';
import { memoryIdentity } from '../state/_identity.ts';
import { memoryRows } from '../state/_rows.ts';
import { type Database, memoryDatabase } from '../state/database.ts';
import type { IdentityStore } from '../state/identity.ts';
import { makeView } from '../supervise/plan/_util.ts';

/**
 * A machine that leaves its controller, with a fault at each write: status, provision and deprovision agree on whether it is a
 * node, the controller received the end only where it is none, and the next start sees the same.
 */

let controller: FakeController;
let engine: MemoryEngine;
let disk: Disk;
let end: () => Promise<void>;
const uuid = randomUUID();

/** What an agent saves, on a disk whose n-th write from now on and all later ones fail. */
class Disk {
  readonly #database = memoryDatabase();
  readonly #identity = memoryIdentity();
  #writes = Number.POSITIVE_INFINITY;

  failAt(write: number): void {
    this.#writes = write;
  }

  get hasFailed(): boolean {
    return this.#writes <= 0;
  }

  repair(): void {
    this.#writes = Number.POSITIVE_INFINITY;
  }

  #counted<A extends unknown[]>(write: (...args: A) => void): (...args: A) => void {
    return (...args) => {
      if (--this.#writes <= 0) throw new Error('no space left on device');
      write(...args);
    };
  }

  get database(): Database {
    const database = this.#database;
    return {
      ...database,
      saveResponses: this.#counted(database.saveResponses),
      saveValue: this.#counted(database.saveValue),
      forgetController: this.#counted(database.forgetController),
      // The supervisor writes when it likes: such a write fails with the others and is not counted.
      saveRecords: (...args) => {
        if (this.hasFailed) throw new Error('no space left on device');
        database.saveRecords(...args);
      },
    };
  }

  get identity(): IdentityStore {
    return { load: this.#identity.load, save: this.#counted(this.#identity.save) };
  }
}

beforeEach(async () => {
  controller = await new FakeController().listen();
  controller.microservices = [plainView({ uuid })];
  engine = new MemoryEngine({ anyImage: true });
  disk = new Disk();
});

afterEach(async () => {
  await end();
  await controller.close();
});

function start(): Agent {
  const { database, identity } = disk;
  const agent = createTestAgent({ folder: '/nowhere', random: () => 0, engine: () => engine, database, identity });
  end = runAgent(agent);
  return agent;
}

/** Whether the machine is a node; fails where what people ask disagrees. */
async function agreed(agent: Agent): Promise<boolean> {
  const isNode = agent.identity.node !== undefined;
  expect(agent.connection.state === 'NOT_PROVISIONED').toBe(!isNode);
  expect(controller.deleted).toBe(!isNode);
  const refusal = await agent.provision(controller.joinString).then(
    () => 'joined',
    (error: Error) => error.message,
  );
  if (isNode) expect(refusal).toMatch(/^already provisioned as node/);
  else expect(refusal).toMatch(/^this cannot be saved/);
  return isNode;
}

/** The writes that fail, by scope: all of them and one more, and those that differ. */
const WRITES: Record<Scope, number[]> = { all: [1, 2, 3, 4, 5, 6, 7, 8, 9], local: [1, 2, 9] };

for (const [scope, writes] of Object.entries(WRITES) as [Scope, number[]][])
  describe(`deprovision with the scope ${scope}`, () => {
    let hasFailed = true;
    for (const write of writes)
      test(`leaves no half of a node when write ${write} and those after it fail`, async () => {
        const agent = start();
        await agent.provision(controller.joinString);
        await until('RUNNING', () => controller.microservice(uuid)?.status === 'RUNNING');
        disk.failAt(write);
        const failure = await agent.deprovision(scope).then(
          () => undefined,
          (error: Error) => error.message,
        );
        hasFailed = disk.hasFailed;
        disk.failAt(0);
        const isNode = await agreed(agent);
        if (isNode)
          expect(failure).toMatch(/^this cannot be saved, so nothing was changed, and the controller was not told/);
        else expect(failure).toBeUndefined();
        const isRunning = isNode || scope === 'local';
        await until('the containers', () => engine.running().size === (isRunning ? 1 : 0));
        // The disk is still full, as after a loss of power.
        await end();
        const later = start();
        await until('a look', () => later.supervisor.hasLooked && later.supervisor.pending === 0);
        expect(await agreed(later)).toBe(isNode);
        expect(engine.running().size).toBe(isRunning ? 1 : 0);
        disk.repair();
        if (isNode) await later.deprovision(scope);
        expect(controller.deleted).toBe(true);
        await later.provision(controller.joinString);
        expect(later.identity).toMatchObject({ node: { uuid: controller.nodeUuid } });
        expect(later.identity.ending).toBeUndefined();
      });

    test('has no further write than those that fail here', () => expect(hasFailed).toBe(false));
  });

/** Manifest and view of a microservice of the machine. */
const deployed = {
  name: 'web',
  view: (of: string) => makeView({ uuid: of, application: 'skerry-agent', name: 'web' }),
  manifest: '',
};

test('a microservice that is deployed after an end that could not be saved whole runs on after the next start', async () => {
  const rows = memoryRows<LocalRow>();
  const begin = () => {
    const { database, identity } = disk;
    const own = {
      ...{ folder: '/nowhere', random: () => 0, engine: () => engine, database, identity },
      ownMicroservices: rows,
    };
    const agent = createTestAgent(own);
    end = runAgent(agent);
    return agent;
  };
  const agent = begin();
  await agent.provision(controller.joinString);
  await until('RUNNING', () => controller.microservice(uuid)?.status === 'RUNNING');
  // The write that decides is saved, and the others are not.
  disk.failAt(3);
  await agent.deprovision('all');
  expect(agent.identity).toMatchObject({ ending: 'all' });
  expect(() => agent.own.deploy(deployed)).toThrow(/nothing was deployed/);
  disk.repair();
  agent.own.deploy(deployed);
  await until('the microservice', () => engine.running().size === 1 && !engine.running().has(uuid));
  await end();
  const later = begin();
  await until('a look', () => later.supervisor.hasLooked && later.supervisor.pending === 0);
  expect(engine.running().size).toBe(1);
  expect([...rows.all.values()]).toMatchObject([{ name: 'web', desiredState: 'running' }]);
});

test('a removal whose row stays on the disk is looked at no more often', async () => {
  const rows = memoryRows<LocalRow>();
  const { database, identity } = disk;
  const remove = () => {
    throw new Error('read-only file system');
  };
  const own = { ...rows, remove };
  const agent = createTestAgent({
    ...{ folder: '/nowhere', random: () => 0, engine: () => engine, database, identity },
    ownMicroservices: own,
  });
  end = runAgent(agent);
  await until('a look', () => agent.supervisor.hasLooked);
  const { row } = agent.own.deploy(deployed);
  await until('the microservice', () => engine.running().size === 1);
  agent.own.remove(row.uuid);
  await until('the removal', () => engine.running().size === 0 && agent.supervisor.pending === 0);
  let looks = 0;
  agent.supervisor.onChange(() => {
    looks++;
  });
  for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve));
  expect(looks).toBeLessThan(20);
});

test('deprovision ends a microservice of a machine without a node that has no container yet', async () => {
  engine = new MemoryEngine();
  const rows = memoryRows<LocalRow>();
  const { database, identity } = disk;
  const agent = createTestAgent({
    ...{ folder: '/nowhere', random: () => 0, engine: () => engine, database, identity },
    ownMicroservices: rows,
  });
  end = runAgent(agent);
  await until('a look', () => agent.supervisor.hasLooked);
  agent.own.deploy(deployed);
  expect(agent.supervisor.present).toEqual([]);
  await agent.deprovision('all');
  await until('the row', () => rows.all.size === 0);
  await expect(agent.deprovision('all')).rejects.toThrow('not provisioned');
});
