import { expect, test } from 'vitest';
import { architectureId, architectureOf, processLimits } from './machine.ts';
import { cgroupPaths } from './supervise/usage.ts';

test('our own limits, and whether we may exceed them', () => {
  const limits =
    'Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 20000                files\nMax processes             unlimited            unlimited            processes\n';
  expect(processLimits(limits, 'CapEff:\t000001ffffffffff\n')).toEqual({
    mayRaise: true,
    hard: { nofile: 20000, nproc: -1 },
  });
  expect(processLimits(limits, 'CapEff:\t000001fffeffffff\n').mayRaise).toBe(false);
  expect(processLimits('', '')).toEqual({ mayRaise: false, hard: {} });
});

test('architectures have the ids of the v3 API', () => {
  expect(['x64', 'arm64', 'riscv64', 'arm', 'mips'].map((name) => architectureId(architectureOf(name)))).toEqual([
    1, 2, 3, 4, 0,
  ]);
});

const groups: Record<string, [string, [string, string][]]> = {
  'cgroup v2': ['0::/system.slice/docker-abc.scope\n', [['', '/system.slice/docker-abc.scope']]],
  'cgroup v1 with controllers together': [
    '4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n',
    [
      ['memory', '/docker/abc'],
      ['cpu', '/docker/abc'],
      ['cpuacct', '/docker/abc'],
    ],
  ],
  'the root': ['0::/\n', [['', '']]],
  'outside of our view': ['0::/../../elsewhere\n', []],
};
for (const [name, [text, want]] of Object.entries(groups))
  test(`${name} is read`, () => expect([...cgroupPaths(text)]).toEqual(want));
