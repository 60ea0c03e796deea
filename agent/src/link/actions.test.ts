import { expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { Actions } from './actions.ts';

test('the end of a membership is the end of its actions, for those too that carry them out', () => {
  const values = new Map<string, string>();
  const database = {
    value: (name: string) => values.get(name),
    saveValue: (name: string, value: string | undefined) =>
      void (value === undefined ? values.delete(name) : values.set(name, value)),
  };
  const did: string[] = [];
  const version = { start: (digest: string) => did.push(digest), forget: () => did.push('forget') };
  const actions = new Actions({ database, log: silentLog, executors: { version } });
  expect(actions.carryOut('version', 'd1', 1)).toBe(true);
  expect(actions.carryOut('version', 'd1', 1)).toBe(false);
  actions.forget();
  expect([actions.digests, actions.echo, values.size]).toEqual([{}, undefined, 0]);
  expect(actions.carryOut('version', 'd1', 1)).toBe(true);
  expect(did).toEqual(['d1', 'forget', 'd1']);
});
