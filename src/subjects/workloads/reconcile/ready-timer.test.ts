import { expect, test } from 'vitest';
import { createReadyTimer } from './ready-timer.ts';

const at = (generation: number) => ({ apiVersion: 'v', kind: 'K', metadata: { name: 'a', generation } });

type What = 'start' | 'stop' | 'forget';

/** Steps are `second what generation`. */
test.each<[string, `${number} ${What} ${number}`[], number[]]>([
  ['a change is measured until Ready', ['0 start 1', '5 stop 1'], [5]],
  ['Ready again without a change is not measured', ['0 start 1', '1 stop 1', '9 stop 1'], [1]],
  ['of two changes the time counts from the newer generation', ['0 start 1', '4 start 2', '5 stop 1', '6 stop 2'], [2]],
  ['a generation that is seen twice keeps its start', ['0 start 1', '4 start 1', '6 stop 1'], [6]],
  ['an object that existed before is not measured', ['5 stop 3'], []],
  ['a deleted object is not measured', ['0 start 1', '1 forget 1', '2 stop 1'], []],
])('%s', (_, steps, expected) => {
  let now = 0;
  const observed: number[] = [];
  const timer = createReadyTimer(
    () => now,
    (seconds) => observed.push(seconds),
  );
  for (const step of steps) {
    const [seconds, what, generation] = step.split(' ') as [string, What, string];
    now = Number(seconds) * 1000;
    timer[what]('a', at(Number(generation)));
  }
  expect(observed).toEqual(expected);
});
