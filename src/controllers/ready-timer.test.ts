import { expect, test } from 'vitest';
import { createReadyLag } from './ready-timer.ts';

const at = (generation: number) => ({ apiVersion: 'v', kind: 'K', metadata: { name: 'a', generation } });

/** Seconds observed after steps: `[time in s, what happens]`. */
const cases: Record<string, { steps: [number, 'changed' | 'ready' | 'not ready' | 'gone', number][]; want: number[] }> =
  {
    'a change is ready after its time': {
      steps: [
        [0, 'changed', 1],
        [3, 'not ready', 1],
        [5, 'ready', 1],
      ],
      want: [5],
    },
    'ready again without a change says nothing': {
      steps: [
        [0, 'changed', 1],
        [1, 'ready', 1],
        [9, 'ready', 1],
      ],
      want: [1],
    },
    'the age is that of the newest generation': {
      steps: [
        [0, 'changed', 1],
        [4, 'changed', 2],
        [5, 'ready', 1],
        [6, 'ready', 2],
      ],
      want: [2],
    },
    'seeing a generation again does not make it younger': {
      steps: [
        [0, 'changed', 1],
        [4, 'changed', 1],
        [6, 'ready', 1],
      ],
      want: [6],
    },
    'what was there before says nothing': { steps: [[5, 'ready', 3]], want: [] },
    'what is gone says nothing': {
      steps: [
        [0, 'changed', 1],
        [1, 'gone', 1],
        [2, 'ready', 1],
      ],
      want: [],
    },
  };
for (const [name, { steps, want }] of Object.entries(cases))
  test(name, () => {
    let now = 0;
    const seen: number[] = [];
    const lag = createReadyLag(
      () => now,
      (seconds) => seen.push(seconds),
    );
    for (const [time, what, generation] of steps) {
      now = time * 1000;
      if (what === 'changed') lag.changed('a', at(generation));
      else if (what === 'gone') lag.gone('a');
      else lag.judged('a', at(generation), what === 'ready');
    }
    expect(seen).toEqual(want);
  });
