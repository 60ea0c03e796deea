import { appendFileSync, readFileSync } from 'node:fs';
import { beforeEach, expect, test } from 'vitest';
import { until } from '../../../engines/_contract.ts';
import { LocalAgent } from '../../_local-agent.ts';
import { changeSettings } from './change-settings.ts';

/** `skerry-agent config` with a file of settings. */

let local: LocalAgent;

beforeEach(async () => {
  local = await LocalAgent.start({ writesSettings: true });
  await local.agent.provision(local.controller.joinString);
  return () => local[Symbol.asyncDispose]();
});

test('a new address of the controller is tried, and taken with a warning where no controller answers', async () => {
  const { code, out, err } = await local.cli('config', 'controllerUrl=http://127.0.0.1:1');
  expect([code, out]).toEqual([0, 'Changed.\n']);
  expect(err).toMatch(/^Warning: the controller at http:\/\/127\.0\.0\.1:1 does not answer: .*ECONNREFUSED/);
  expect(err).toContain(`back to the former address: skerry-agent config controllerUrl=${local.controller.url}`);
  expect(local.agent.identity.node?.controllerUrl).toBe('http://127.0.0.1:1');
  expect(readFileSync(local.configFile, 'utf8')).toContain('controllerUrl: http://127.0.0.1:1');
  expect(await local.cli('config', `controllerUrl=${local.controller.url}`)).toEqual({
    ...{ code: 0, out: 'Changed.\n', err: '' },
  });
  expect(local.agent.identity.node?.controllerUrl).toBe(local.controller.url);
});

test('the last contact with the controller outlasts a change of its address', async () => {
  await until('a contact', () => local.agent.connection.lastContact > 0);
  await local.cli('config', 'controllerUrl=http://127.0.0.1:1');
  const { out } = await local.cli('status');
  expect(out).toMatch(/Last contact: +\d+s ago/);
});

test('a command reaches an agent whose file of settings has become invalid', async () => {
  appendFileSync(local.configFile, '\nstatusFrequency: x\n');
  expect(await local.cli('status')).toMatchObject({ code: 0, out: expect.stringContaining('Agent:') });
});

test('a setting that has no effect is taken with a warning that says so', async () => {
  const { code, out, err } = await local.cli('config', 'edgeGuardFrequency=3', 'statusFrequency=5');
  expect([code, out]).toEqual([0, 'Changed.\n']);
  expect(err).toBe('Warning: edgeGuardFrequency has no effect: this agent does not support it yet\n');
});

test('a setting that is changed while a new address is tried stays changed', async () => {
  const asked = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<undefined>();
  const agent = {
    identity: {},
    controlled: () => ({}),
    moveController: () => {},
    controllerProblemAt: () => {
      asked.resolve();
      return answered.promise;
    },
  };
  const change = (set: object) => changeSettings({ ...set }, { ...local.writer, agent, reload: () => {} });
  const slow = change({ controllerUrl: 'http://127.0.0.1:1' });
  await asked.promise;
  await change({ statusFrequency: 17 });
  answered.resolve(undefined);
  await slow;
  const text = readFileSync(local.configFile, 'utf8');
  expect(text).toContain('statusFrequency: 17');
  expect(text).toContain('controllerUrl: http://127.0.0.1:1');
});

test('a new address at which a controller does not know this node has a warning', async () => {
  await using other = await LocalAgent.start();
  const { code, err } = await local.cli('config', `controllerUrl=${other.controller.url}`);
  expect(code).toBe(0);
  expect(err).toMatch(/^Warning: .*401 AGENT_NODE_NOT_FOUND/);
});
