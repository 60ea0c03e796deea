import { expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import type { OtherAgentContainer } from '../engine-port/ownership.ts';
import { watch } from './watchdog.ts';

/** An engine with foreign containers; `stuck` ones cannot be removed. */
function makeEngine(names: string[], { others = [] as string[], stuck = [] as string[] } = {}) {
  const present = new Set(names);
  return {
    present,
    foreignContainers: async () => [...present],
    containersOfOtherAgents: async () => others.map((name) => ({ name }) as OtherAgentContainer),
    become: () => {},
    stop: async () => {},
    kill: async () => {},
    remove: async (name: string) => {
      if (stuck.includes(name)) throw new Error('device is busy');
      present.delete(name);
    },
  };
}

test('the watchdog only reports unless the machine has chosen otherwise', async () => {
  const engine = makeEngine(['db', 'proxy']);
  expect(await watch({ engine, log: silentLog }, false)).toEqual(['db', 'proxy']);
  expect(engine.present.size).toBe(2);
});

test('the watchdog removes what no agent made, and reports what is left', async () => {
  const engine = makeEngine(['db', 'proxy', 'skerry-1', 'stuck'], { others: ['skerry-1'], stuck: ['stuck'] });
  expect(await watch({ engine, log: silentLog }, true)).toEqual(['skerry-1', 'stuck']);
  expect([...engine.present]).toEqual(['skerry-1', 'stuck']);
});

test('one look removes at most eight containers', async () => {
  const engine = makeEngine(Array.from({ length: 20 }, (_, i) => `c${i}`));
  await watch({ engine, log: silentLog }, true);
  expect(engine.present.size).toBe(12);
});
