import { beforeEach, describe, expect, test } from 'vitest';
import { createTestAgent, runAgent } from '../_agent.ts';
import { plainView } from '../_web.ts';
import type { Agent } from '../app.ts';
import { EngineError } from '../engine-port/error.ts';
import { until } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { FakeController } from '../link/_fake-controller.ts';
import { memoryIdentity } from '../state/_identity.ts';
import { memoryDatabase } from '../state/database.ts';

let controller: FakeController;
let engine: MemoryEngine;
let agent: Agent;
let end: () => Promise<void>;
const identity = { value: memoryIdentity() };
const database = { value: memoryDatabase() };

beforeEach(async () => {
  controller = await new FakeController().listen();
  engine = new MemoryEngine({ anyImage: true });
  identity.value = memoryIdentity();
  database.value = memoryDatabase();
  start();
  return async () => {
    await end();
    await controller.close();
  };
});

function start(): void {
  agent = createTestAgent({
    folder: '/nowhere',
    settings: 'statusFrequency: 1\nchangeFrequency: 1',
    engine: () => engine,
    database: database.value,
    identity: identity.value,
  });
  end = runAgent(agent);
}

const states = () => new Map(agent.microservices()?.map(({ id, status }) => [id, status]));
const allRun = () => states().size === 3 && [...states().values()].every((state) => state === 'RUNNING');

async function running(): Promise<void> {
  controller.microservices = [
    plainView({ uuid: 'first', name: 'a', schedule: 10 }),
    plainView({ uuid: 'second', name: 'b', schedule: 60 }),
    plainView({ uuid: 'router', name: 'c', isSystem: true }),
  ];
  await agent.provision(controller.joinString);
  await until('all to run', allRun);
}

/** The microservices whose containers are stopped from now on, in order. */
async function noteStops(): Promise<(string | undefined)[]> {
  const uuids = new Map((await engine.containers()).map(({ id, uuid }) => [id, uuid]));
  const stopped: (string | undefined)[] = [];
  engine.faults.before = (operation, subject) => {
    if (operation === 'stop') stopped.push(uuids.get(subject));
  };
  return stopped;
}

describe('a drain', () => {
  test('stops the containers that start last first, and nothing starts again until the agent does, without a crash', async () => {
    await running();
    const stops = await noteStops();
    expect(await agent.drain(5000)).toEqual({ stopped: ['second', 'first', 'router'], remaining: [] });
    expect(stops).toEqual(['second', 'first', 'router']);
    await until('the state', () => [...states().values()].every((state) => state !== 'RUNNING'));
    expect(agent.problems).toEqual(['drained: nothing is started until the agent starts again']);
    const before = engine.history.length;
    controller.change({ microservices: [plainView({ uuid: 'first', name: 'a', revision: 'r2' })] });
    await until('a look at the new list', () => agent.supervisor.desired?.length === 1);
    agent.supervisor.wake();
    expect(engine.history.length).toBe(before);
    controller.change({ microservices: controller.microservices });
    await end();
    start();
    await until('the containers to run', () => states().get('first') === 'RUNNING');
    expect(agent.supervisor.record('first')).toMatchObject({ restartCount: 0 });
    expect(agent.supervisor.record('first')?.crash).toBeUndefined();
  });

  test('names what does not end in time, and stops it the next time', async () => {
    await running();
    let isStuck = true;
    const first = (await engine.containers()).find(({ uuid }) => uuid === 'first');
    engine.faults.before = (operation, subject) => {
      if (isStuck && operation === 'stop' && subject === first?.id) throw new EngineError('Failed', 'it does not end');
    };
    expect(await agent.drain(5000)).toEqual({ stopped: ['second', 'router'], remaining: ['first'] });
    isStuck = false;
    expect(await agent.drain(5000)).toEqual({ stopped: ['first'], remaining: [] });
  });

  test('ends within its time, whatever the engine does', async () => {
    await running();
    engine.faults.before = (operation) => (operation === 'stop' ? new Promise(() => {}) : undefined);
    const began = performance.now();
    const { stopped } = await agent.drain(300);
    expect([stopped, performance.now() - began < 3000]).toEqual([[], true]);
    engine.faults.before = undefined;
  });

  test('is refused while the engine is not connected', async () => {
    await end();
    const broken = new MemoryEngine();
    broken.connect = () => Promise.reject(new EngineError('Unavailable', 'no engine'));
    const other = createTestAgent({ folder: '/nowhere', engine: () => broken });
    end = runAgent(other);
    await expect(other.drain(1000)).rejects.toThrow(/^the container engine is not connected/);
  });
});

test('an agent says that it starts until it has looked at the engine, and that it stops when it ends', async () => {
  await end();
  const gate = Promise.withResolvers<void>();
  const slow = new MemoryEngine();
  const connect = slow.connect.bind(slow);
  slow.connect = async () => {
    await gate.promise;
    return connect();
  };
  agent = createTestAgent({ folder: '/nowhere', engine: () => slow });
  end = runAgent(agent);
  const state = async () => (await agent.report(false)).daemonStatus;
  expect(await state()).toBe('STARTING');
  gate.resolve();
  await until('the look', async () => (await state()) === 'RUNNING');
  agent.stopping();
  expect(await state()).toBe('STOPPED');
});
