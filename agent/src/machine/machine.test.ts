import { linkSync, mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { directorySize } from './disk.ts';
import {
  addressIn,
  architectureId,
  architectureOf,
  localMachine,
  type NetworkView,
  processLimits,
  sparing,
} from './machine.ts';
import { cgroupPaths } from './usage.ts';

test("the process's limits are read, and whether it may raise them", () => {
  const limits =
    'Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 20000                files\nMax processes             unlimited            unlimited            processes\n';
  expect(processLimits(limits, 'CapEff:\t000001ffffffffff\n')).toEqual({
    mayRaise: true,
    hard: { nofile: 20000, nproc: -1 },
  });
  expect(processLimits(limits, 'CapEff:\t000001fffeffffff\n').mayRaise).toBe(false);
  expect(processLimits(limits, '', '32768\n').hard).toEqual({ nofile: 20000, nproc: 32768 });
  expect(processLimits('', '')).toEqual({ mayRaise: false, hard: {} });
});

const [ROUTE, ROUTE6] = ['Iface\tDestination\tGateway\neth0\t00000000\t0100000A\n', `${'0'.repeat(32)} 00 x x eth0\n`];
const address = (family: 'IPv4' | 'IPv6', text: string) => ({ family, address: text, internal: false });
const NETWORKS = {
  both: [address('IPv6', 'fe80::1'), address('IPv4', '10.0.0.2'), address('IPv6', 'fd00::2')],
  only6: [address('IPv6', 'fe80::1'), address('IPv6', 'fd00::2')],
};

test.each([
  ['IPv4 before IPv6', 'both', ROUTE, ROUTE6, 'dynamic', '10.0.0.2'],
  ['IPv6 where there is no IPv4, not that of a bridge of the engine', 'only6', '', ROUTE6, 'dynamic', 'fd00::2'],
  ['what there is, without a default route', 'only6', '', '', 'dynamic', '172.17.0.1'],
  ['IPv6 of a named interface', 'only6', '', '', 'eth0', 'fd00::2'],
  ['none of an interface that is not there', 'both', ROUTE, ROUTE6, 'eth9', undefined],
] as const)('the address of a machine: %s', (_, name, routes, routes6, wanted, expected) => {
  const bridge = [address('IPv4', '172.17.0.1')];
  const interfaces = { docker0: bridge, eth0: NETWORKS[name] } as unknown as NetworkView['interfaces'];
  const refusing = `${'0'.repeat(32)} 00 x x lo\n`;
  expect(addressIn({ interfaces, routes, routes6: refusing + routes6 }, wanted)?.address).toBe(expected);
});

test('the first measurement of the CPU leaves out what the process used before', async () => {
  const { cpuUsage } = await localMachine(temporaryFolder()).measure();
  expect(cpuUsage).toBeLessThanOrEqual(100 * (cpus().length + 1));
});

test('what the agent keeps on a small disk is reported to some KiB, not rounded to more than the disk has', async () => {
  const folder = temporaryFolder();
  const kibibytes = 300;
  writeFileSync(join(folder, 'kept'), 'x'.repeat(kibibytes * 1024));
  const { diskUsage = 0 } = await localMachine(folder).measure();
  const seen = diskUsage * 1024 ** 2;
  expect(seen).toBeGreaterThan(kibibytes - 1);
  expect(seen).toBeLessThan(kibibytes + 32);
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
  'the root cgroup': ['0::/\n', [['', '']]],
  'a cgroup outside of the namespace': ['0::/../../elsewhere\n', []],
};
for (const [name, [text, want]] of Object.entries(groups))
  test(`${name} is parsed`, () => expect([...cgroupPaths(text)]).toEqual(want));

test('the size of a directory is that of its files, with hard links counted once', async () => {
  const folder = temporaryFolder();
  const empty = await directorySize(folder);
  mkdirSync(join(folder, 'a/b'), { recursive: true });
  writeFileSync(join(folder, 'a/b/file'), Buffer.alloc(1_000_000, 1));
  linkSync(join(folder, 'a/b/file'), join(folder, 'again'));
  const size = (await directorySize(folder)) - empty;
  expect(size).toBeGreaterThanOrEqual(1_000_000);
  expect(size).toBeLessThan(1_100_000);
  expect(await directorySize(join(folder, 'nothing'))).toBe(0);
});

test('a slow measurement is repeated rarely, and the last value is returned meanwhile', async () => {
  let now = 0;
  let measured = 0;
  const usage = sparing(
    async () => {
      now += 5_000;
      return ++measured;
    },
    () => now,
  );
  expect(await usage()).toBe(1);
  now += 400_000;
  expect(await usage()).toBe(1);
  now += 200_000;
  await expect.poll(usage).toBe(2);
});
