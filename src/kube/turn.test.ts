import { expect, test } from 'vitest';
import { eachTurn } from '../../testing/turns.ts';
import { inTurn, isTurnOver } from './turn.ts';

/** Longer than runs may follow each other within one turn. */
const WORK_MS = 12;

function work() {
  const end = performance.now() + WORK_MS;
  while (performance.now() < end);
}

test('work that costs a turn is alone in it, however much of it begins at once', async () => {
  let turn = 0;
  using _turns = eachTurn(() => turn++);
  const turns: number[] = [];
  const one = () => {
    turns.push(turn);
    work();
  };
  await Promise.all(Array.from({ length: 8 }, () => inTurn(one)));
  expect(new Set(turns).size).toBe(8);
});

test('work is done although others take the beginning of every turn', async () => {
  const others = () => {
    if (!isTurnOver()) work();
  };
  others();
  using _turns = eachTurn(others);
  expect(await inTurn(() => 'done')).toBe('done');
});
