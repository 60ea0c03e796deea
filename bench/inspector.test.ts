import { expect, test } from 'vitest';
import { hotSpots, type Profile } from './inspector.ts';

const frame = (functionName: string, file = '', line = 0) => ({
  functionName,
  url: file && `file:///repo/${file}`,
  lineNumber: line - 1,
});

const PROFILE: Profile = {
  nodes: [
    { id: 1, callFrame: frame('(root)'), children: [2, 3] },
    { id: 2, callFrame: frame('(idle)') },
    { id: 3, callFrame: frame('serve', 'src/server.ts', 10), children: [4, 5] },
    { id: 4, callFrame: frame('verify') },
    { id: 5, callFrame: frame('serve', 'src/server.ts', 10) },
  ],
  samples: [2, 3, 4, 4, 5],
  timeDeltas: [1_000, 100, 200, 200, 500],
};

test('hot spots are sorted by self time, with the total time of each function, and without idle time', () => {
  expect(hotSpots(PROFILE, '/repo')).toEqual([
    { name: 'serve', place: 'src/server.ts:10', self: 0.6, total: 1 },
    { name: 'verify', place: 'native', self: 0.4, total: 0.4 },
  ]);
});
