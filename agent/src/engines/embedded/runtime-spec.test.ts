import { expect, test } from 'vitest';
import { readSpec, specBytes, withOwnFields } from './runtime-spec.ts';

const made =
  '{"process":{"args":["a"],"rlimits":[{"type":"RLIMIT_NOFILE","hard":18446744073709551615,"soft":1}]},"mounts":[{"destination":"/dev/shm","type":"bind"},{"destination":"/etc/hosts"}],"linux":{"resources":{"memory":{"limit":9223372036854771712}}}}';

test('a specification keeps numbers that JavaScript would round', () => {
  expect(specBytes(readSpec(Buffer.from(made))).toString()).toBe(made);
});

test('a specification gets limits, file systems in memory and the soft limit of memory', () => {
  const spec = {
    ulimits: [{ name: 'nofile', soft: 1000, hard: -1 }],
    fields: { tmpfs: [{ containerPath: '/scratch', size: 8, mode: '1770' }], shmSize: 16, memoryReservation: 32 },
  } as unknown as Parameters<typeof withOwnFields>[1];
  const text = specBytes(withOwnFields(readSpec(Buffer.from(made)), spec)).toString();
  expect(text).toContain('"rlimits":[{"type":"RLIMIT_NOFILE","soft":1000,"hard":18446744073709551615}]');
  expect(text).toContain('"memory":{"limit":9223372036854771712,"reservation":33554432}');
  const { mounts } = JSON.parse(text) as { mounts: { destination: string; type: string; options: string[] }[] };
  expect(mounts.map(({ destination, type }) => [destination, type])).toEqual([
    ['/scratch', 'tmpfs'],
    ['/etc/hosts', undefined],
    ['/dev/shm', 'tmpfs'],
  ]);
  expect(mounts[0]?.options).toEqual(['noexec', 'nosuid', 'nodev', 'size=8388608', 'mode=1770']);
});

test('a file system in memory is mounted before the mounts below it, and after those above it', () => {
  const mounts = ['/proc', '/dev', '/dev/shm', '/data/cache/kept'].map((destination) => ({ destination }));
  const fields = { tmpfs: [{ containerPath: '/data/cache' }, { containerPath: '/dev/own/' }], shmSize: 16 };
  const spec = { ulimits: [], fields } as unknown as Parameters<typeof withOwnFields>[1];
  expect(withOwnFields({ mounts }, spec).mounts?.map(({ destination }) => destination)).toEqual([
    ...['/proc', '/dev', '/data/cache', '/dev/own/', '/dev/shm', '/data/cache/kept'],
  ]);
});
