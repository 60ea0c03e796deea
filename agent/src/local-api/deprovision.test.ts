import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { sleep } from '../../../src/lib/clock.ts';
import { plainView } from '../_web.ts';
import { EngineError } from '../engine-port/error.ts';
import { LocalAgent } from './_local-agent.ts';

/** `skerry-agent deprovision`, with which a person makes a machine leave its controller. */

let local: LocalAgent;
const names = ['web', 'queue', 'store', 'sensor', 'mail', 'cache'];
const uuids = names.map(() => randomUUID());

beforeEach(async () => {
  local = await LocalAgent.start();
  return () => local[Symbol.asyncDispose]();
});

async function running(): Promise<void> {
  await local.provision(...names.map((name, index) => plainView({ uuid: uuids[index] as string, name })));
}

async function listed(source: string): Promise<{ name: string; state: string; source: string }[]> {
  const { items } = JSON.parse((await local.cli('ms', 'ls', '--source', source, '-o', 'json')).out);
  return items;
}

test('deprovision ends when the last container of the agent is removed', async () => {
  await running();
  // A container takes a moment to stop.
  local.engine.faults.before = (operation) =>
    operation === 'stop' ? sleep(200, new AbortController().signal, local.clock) : undefined;
  const done = await local.cli('deprovision', '--yes');
  expect(await local.engine.containers()).toEqual([]);
  expect(done).toMatchObject({ code: 0, out: 'Deprovisioned\n' });
  expect(local.controller.removing?.toSorted()).toEqual(uuids.toSorted());
});

test('deprovision fails and names the containers that the engine did not remove', async () => {
  await running();
  local.engine.faults.before = (operation) => {
    if (operation !== 'remove') return;
    local.engine.containers = async () => {
      throw new EngineError('Unavailable', 'the engine went away');
    };
  };
  const { code, out, err } = await local.cli('deprovision', '--yes');
  expect([code, out]).toEqual([1, '']);
  expect(err).toMatch(
    /^Error\[INCOMPLETE\]: left the controller, but not removed yet: shop\.\w+.*\n.*skerry-agent doctor/,
  );
  expect(local.agent.identity.node).toBeUndefined();
});

describe('deprovision --keep-local', () => {
  test('leaves the containers running and supervised', async () => {
    await running();
    const before = (await local.engine.containers()).map(({ id }) => id).toSorted();
    expect(await local.cli('deprovision', '--keep-local', '--yes')).toMatchObject({ code: 0 });
    expect(local.agent.identity.node).toBeUndefined();
    expect(local.controller.removing).toEqual([]);
    expect(await local.cli('ms', 'restart', 'shop.web')).toMatchObject({ code: 0, out: 'shop.web: RUNNING.\n' });
    expect(local.engine.running().size).toBe(names.length);
    expect((await local.engine.containers()).map(({ id }) => id).toSorted()).toEqual(before);
    expect((await listed('local')).map(({ name }) => name).toSorted()).toEqual(names.toSorted());
    expect(await listed('managed')).toEqual([]);
  });

  test('leaves containers that a later deprovision removes', async () => {
    await running();
    await local.cli('deprovision', '--scope', 'local', '--yes');
    const out = 'This machine was no node; its microservices are removed\n';
    expect(await local.cli('deprovision', '--yes')).toMatchObject({ code: 0, out });
    expect(await local.engine.containers()).toEqual([]);
    expect(await local.cli('deprovision', '--yes')).toMatchObject({ code: 5 });
  });
});

describe('deprovision without --yes', () => {
  test('asks, names the microservices that would be removed, and stops at a no', async () => {
    await running();
    const questions: string[] = [];
    const ask = async (question: string) => questions.push(question) < 0;
    expect(await local.cliWith({ ask }, 'deprovision')).toMatchObject({ code: 130, out: '' });
    expect(questions).toEqual([
      expect.stringMatching(/leaves http.* node fake\.\nIts microservices are stopped and removed.*shop\.web/),
    ]);
    expect(local.agent.identity.node).toBeDefined();
    expect(local.engine.running().size).toBe(names.length);
  });

  test('asks without the control characters of names', async () => {
    await running();
    Object.assign(local.agent.identity.node ?? {}, { name: 'gw\u001b[2J\u009b1m' });
    const questions: string[] = [];
    const ask = async (question: string) => questions.push(question) < 0;
    await local.cliWith({ ask }, 'deprovision');
    expect(questions).toEqual([expect.stringContaining('node gw\\u001b[2J\\u009b1m.')]);
  });

  test('does nothing without a terminal', async () => {
    await running();
    const { code, err } = await local.cli('deprovision');
    expect(code).toBe(2);
    expect(err).toMatch(/shop\.web.*\nConfirm with --yes/);
    expect(local.agent.identity.node).toBeDefined();
  });
});
