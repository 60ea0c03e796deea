import { expect } from 'vitest';

/** Milliseconds of the processor that one turn of the event loop may take. */
const TURN_BUDGET = 50;
const MIB = 2 ** 20;

const cpu = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

const SEARCHES = 8;

/** How much slower this machine is now than a machine that searches a megabyte in a millisecond; at least 1. */
function slowness(): number {
  const text = 'a'.repeat(MIB);
  const began = cpu();
  for (let i = 0; i < SEARCHES; i++) /[^a]/.test(text);
  return Math.max(1, (cpu() - began) / SEARCHES);
}

/** Calls at each turn of the event loop, until its end. */
export function eachTurn(act: () => void): Disposable {
  let isOver = false;
  const turn = () => {
    act();
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  return {
    [Symbol.dispose]() {
      isOver = true;
    },
  };
}

/** The longest turn while something is done, in ms of the processor. */
async function longestTurn(act: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let last = cpu();
  const note = () => {
    const now = cpu();
    longest = Math.max(longest, now - last);
    last = now;
  };
  using _turns = eachTurn(note);
  await act();
  note();
  return longest;
}

/** The best of some times: the first ones compile, and any may meet a collection of garbage, or others on its core. */
export async function expectShortTurns(
  act: () => Promise<unknown>,
  { budget = TURN_BUDGET, times = 6 }: { budget?: number; times?: number } = {},
): Promise<void> {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < times && best > budget; i++) {
    const before = slowness();
    const turn = await longestTurn(act);
    best = Math.min(best, turn / Math.max(before, slowness()));
  }
  expect(best).toBeLessThan(budget);
}
