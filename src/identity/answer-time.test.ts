import { expect, test } from 'vitest';
import { untilAnswer } from './answer-time.ts';

test.each([
  [0, 250],
  [70, 250],
  [101.5, 250],
  [250, 250],
  [251, 500],
  [749, 750],
])('a failed attempt that took %d ms is answered %d ms after it began', (elapsed, answered) => {
  expect(elapsed + untilAnswer(elapsed)).toBeCloseTo(answered);
});
