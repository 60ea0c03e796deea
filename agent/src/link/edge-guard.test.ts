import { beforeEach, describe, expect, test } from 'vitest';
import { createTestAgent, runAgent, TEST_MACHINE } from '../_agent.ts';
import { plainView } from '../_web.ts';
import type { Agent } from '../app.ts';
import { until } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { memoryIdentity } from '../state/_identity.ts';
import { memoryDatabase } from '../state/database.ts';
import type { IdentityStore } from '../state/identity.ts';
import { FakeController } from './_fake-controller.ts';

/** The data of an agent on the machine that it was made on, and on another one, as a copy of the disk would have it. */

let controller: FakeController;
let engine: MemoryEngine;
let identity: IdentityStore;
let database = memoryDatabase();
let ends: (() => Promise<void>)[];

beforeEach(async () => {
  controller = await new FakeController().listen();
  controller.microservices = [plainView({ uuid: 'web' })];
  engine = new MemoryEngine({ anyImage: true });
  identity = memoryIdentity();
  database = memoryDatabase();
  ends = [];
  return async () => {
    await end();
    await controller.close();
  };
});

async function end(): Promise<void> {
  for (const each of ends.splice(0)) await each();
}

/** Starts the agent with its data on a machine. */
async function startOn(hardware: Record<string, string>, settings = 'edgeGuardFrequency: 1'): Promise<Agent> {
  await end();
  const agent = createTestAgent({
    folder: '/nowhere',
    settings: `statusFrequency: 1\nchangeFrequency: 1\n${settings}`,
    engine: () => engine,
    ...{ database, identity },
    machine: { ...TEST_MACHINE, hardware: () => hardware },
  });
  ends.push(runAgent(agent));
  return agent;
}

const OLD = { 'product-uuid': 'u-1', 'board-serial': 'b-1' };
const NEW = { 'product-uuid': 'u-2', 'board-serial': 'b-1' };
const polls = () => controller.requests.length;
const runs = () => controller.microservice('web')?.status === 'RUNNING';

async function provisioned(settings?: string): Promise<Agent> {
  const agent = await startOn(OLD, settings);
  await agent.provision(controller.joinString);
  await until('the microservice', runs);
  return agent;
}

/** The agent has looked at the engine, and would have polled by now. */
async function settled(agent: Agent): Promise<void> {
  await until('a look', () => agent.supervisor.hasLooked);
  const before = engine.history.length;
  agent.supervisor.wake();
  await until('the container', () => agent.microservices()?.[0]?.status === 'RUNNING');
  expect(engine.history.length).toBe(before);
}

describe('on another machine', () => {
  test('the identity is not used, what runs runs on, and status and doctor say why', async () => {
    await provisioned();
    const former = engine.history.length;
    await end();
    const before = polls();
    const agent = await startOn(NEW);
    await settled(agent);
    expect([polls(), engine.history.slice(former)]).toEqual([before, []]);
    expect(agent.edgeGuard).toEqual({
      state: 'other machine',
      members: ['product-uuid', 'board-serial'],
      differing: ['product-uuid'],
    });
    expect(agent.problems).toEqual([
      expect.stringMatching(
        /^edge guard: this is another machine .* \(product-uuid\).*skerry-agent edge-guard accept$/,
      ),
    ]);
    expect(agent.connection).toMatchObject({
      state: 'NOT_CONNECTED',
      error: expect.stringContaining('another machine'),
    });
    expect(await agent.controllerProblemAt('http://127.0.0.1:1')).toMatch(/another machine/);
    expect(polls()).toBe(before);
  });

  test('the agent leaves without a word to the controller, which would take it for the node', async () => {
    await provisioned();
    const agent = await startOn(NEW);
    await settled(agent);
    const before = polls();
    expect(await agent.deprovision('local')).toEqual({ controllerTold: false });
    expect([polls(), controller.removing]).toEqual([before, undefined]);
    [controller.key, controller.publicKey] = ['key-of-another-node', undefined];
    await agent.provision(controller.joinString);
    expect(agent.edgeGuard.state).toBe('matching');
  });

  test('the identity is used once the machine was accepted, and only then', async () => {
    const first = await provisioned();
    expect(() => first.acceptMachine()).toThrow(
      'there is nothing to accept: the edge guard is content with this machine',
    );
    const agent = await startOn(NEW);
    await settled(agent);
    const before = polls();
    agent.acceptMachine();
    await until('a poll', () => polls() > before);
    expect([agent.edgeGuard.state, agent.problems]).toEqual(['matching', []]);
    const back = await startOn(OLD);
    await until('a refusal', () => back.edgeGuard.state === 'other machine');
  });

  test('the acceptance that cannot be saved is an error, and the identity stays unused', async () => {
    await provisioned();
    const agent = await startOn(NEW);
    identity.save = () => {
      throw new Error('ENOSPC');
    };
    expect(() => agent.acceptMachine()).toThrow(/^this cannot be saved, so the former machine stays/);
    expect(agent.edgeGuard.state).toBe('other machine');
  });

  test('a guard that is off in the file of this machine looks at nothing, whatever the controller wants', async () => {
    await provisioned();
    controller.change({ config: { edgeGuardFrequency: 1 } });
    const before = polls();
    const agent = await startOn(NEW, '');
    await until('polls', () => polls() > before + 3);
    expect(agent.edgeGuard.state).toBe('off');
    expect(() => agent.acceptMachine()).toThrow('there is nothing to accept: the edge guard is off');
  });

  test('a note that another key signed, or that was changed, fits no machine', async () => {
    await provisioned();
    await end();
    const kept = identity.load();
    if (!kept?.fingerprint) throw new Error('no fingerprint was noted');
    identity.save({ ...kept, fingerprint: { ...kept.fingerprint, members: {} } });
    expect((await startOn(OLD)).edgeGuard).toMatchObject({ differing: ['signature'] });
  });
});

describe('on the same machine', () => {
  test.each([
    ['the same numbers', OLD],
    ['one number that cannot be read', { 'board-serial': 'b-1' }],
    ['one more number', { ...OLD, 'chip-serial': 'c' }],
  ])('with %s the identity is used', async (_, hardware) => {
    await provisioned();
    const before = polls();
    const agent = await startOn(hardware);
    await until('a poll', () => polls() > before);
    expect(agent.edgeGuard.state).toBe('matching');
  });

  test('no number in common is another machine', async () => {
    await provisioned();
    expect((await startOn({ 'chip-serial': 'c' })).edgeGuard.state).toBe('other machine');
  });

  test('a machine without any number is not watched, and says so', async () => {
    const agent = await startOn({});
    await agent.provision(controller.joinString);
    await until('the microservice', runs);
    expect(agent.edgeGuard.state).toBe('unknown');
    expect(agent.problems).toEqual(['edge guard: nothing tells this machine from any other, so it is not watched']);
  });

  test('hardware that changes while the agent runs is noticed, and so is its return', async () => {
    const hardware: Record<string, string> = { ...OLD };
    const agent = await startOn(hardware);
    await agent.provision(controller.joinString);
    await until('the microservice', runs);
    hardware['board-serial'] = 'b-2';
    await until('the refusal', () => agent.connection.state === 'NOT_CONNECTED');
    const before = polls();
    hardware['board-serial'] = 'b-1';
    await until('a poll', () => polls() > before);
  });
});

test('the note of a machine has digests, and none of its numbers', async () => {
  await provisioned();
  const text = JSON.stringify(identity.load()?.fingerprint);
  expect(text).toMatch(/"board-serial":"[0-9a-f]{64}"/);
  expect(text).not.toContain('b-1');
});
