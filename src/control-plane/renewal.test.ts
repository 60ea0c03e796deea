import { expect, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { writeWhole } from './files.ts';
import { keyFile, layoutOf } from './layout.ts';
import { renewKeys } from './renewal.ts';

const [MINUTE, DAY] = [60_000, 24 * 3600 * 1000];

/** Runs through so many ms at once, and notes the minutes at which the keys are looked at. */
function setUp({ ms, keys = () => {} }: { ms: number; keys?: (authority: string) => void }) {
  const layout = layoutOf({ SKERRY_CONTROL_PLANE_DATA: temporaryFolder() });
  const authority = keyFile(layout, 'authority.crt');
  writeWhole({ [authority]: 'first' });
  const over = new AbortController();
  const state = { now: 0, wall: 0 };
  const [looks, said]: [number[], unknown[]] = [[], []];
  const clock = {
    now: () => state.now,
    wall: () => state.wall,
    after(wait: number, callback: () => void) {
      state.now += wait;
      state.wall += wait;
      if (state.now === 10 * MINUTE) state.wall += setBy;
      if (state.now > ms) over.abort();
      setImmediate(callback);
      return () => {};
    },
  };
  let setBy = 0;
  const run = (by = 0) => {
    setBy = by;
    const command = async () => {
      looks.push(state.now / MINUTE);
      keys(authority);
    };
    return renewKeys({ layout, command, say: (...all) => said.push(all) }, over.signal, clock);
  };
  return { run, looks, said };
}

test('the keys are looked at each day', async () => {
  const { run, looks } = setUp({ ms: 2 * DAY });
  await run(MINUTE);
  expect(looks).toEqual([1440, 2880]);
});

test('the keys are looked at once when the clock was set, forward or back', async () => {
  for (const by of [20_000 * DAY, -400 * DAY]) {
    const { run, looks } = setUp({ ms: DAY });
    await run(by);
    expect(looks).toEqual([10]);
  }
});

test('keys that cannot be looked at are said, and end nothing', async () => {
  const keys = () => {
    throw new Error('no space left');
  };
  const { run, looks, said } = setUp({ ms: 2 * DAY, keys });
  await run();
  expect(looks).toEqual([1440, 2880]);
  expect(said[0]).toEqual(['The keys were not looked at', { error: 'no space left' }]);
});

test('another authority ends the run, even where a later step of its making has failed', async () => {
  const keys = (authority: string) => {
    writeWhole({ [authority]: 'second' });
    throw new Error('no space left');
  };
  await expect(setUp({ ms: 2 * DAY, keys }).run()).rejects.toThrow('the authority of the API server was made again');
});
