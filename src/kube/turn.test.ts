import { expect, test } from 'vitest';
import { inTurn, isTurnOver } from './turn.ts';

/** Longer than runs may follow each other within one turn. */
const WORK_MS = 12;

function work() {
  const end = performance.now() + WORK_MS;
  while (performance.now() < end);
}

test('work that costs a turn is alone in it, however much of it begins at once', async () => {
  let turn = 0;
  let isOver = false;
  const count = () => {
    turn++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const turns: number[] = [];
  const one = () => {
    turns.push(turn);
    work();
  };
  await Promise.all(Array.from({ length: 8 }, () => inTurn(one)));
  isOver = true;
  expect(new Set(turns).size).toBe(8);
});

test('work is done although others take the beginning of every turn', async () => {
  let isOver = false;
  const others = () => {
    if (!isTurnOver()) work();
    if (!isOver) setImmediate(others);
  };
  others();
  expect(await inTurn(() => 'done')).toBe('done');
  isOver = true;
});
