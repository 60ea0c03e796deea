import { expect, test } from 'vitest';
import { dialectOf } from './dialect.ts';
import { cdiOf, runtimesOf } from './facts.ts';

const docker = dialectOf();
const podman = dialectOf([{ Name: 'Podman Engine' }]);
const installed = { runsc: {}, 'io.containerd.runc.v2': {}, runc: {} };

test('docker has the runtimes that it lists, sorted; podman has its own one, since containers cannot choose', () => {
  expect(runtimesOf({ Runtimes: installed, DefaultRuntime: 'runc' }, docker)).toEqual([
    'io.containerd.runc.v2',
    'runc',
    'runsc',
  ]);
  expect(runtimesOf({ Runtimes: installed, DefaultRuntime: 'crun' }, podman)).toEqual(['crun']);
  expect(runtimesOf({ DefaultRuntime: '/usr/bin/crun' }, podman)).toEqual(['crun']);
  expect([runtimesOf({}, docker), runtimesOf({}, podman)]).toEqual([[], []]);
});

test.each([
  ['docker that names no directories', docker, '28.1.0', {}, { cdi: false }],
  ['docker with CDI off', docker, '28.1.0', { CDISpecDirs: [] }, { cdi: false }],
  ['docker with CDI', docker, '25.0', { CDISpecDirs: ['/srv/cdi'] }, { cdi: true, cdiDirectories: ['/srv/cdi'] }],
  ['podman 4.3', podman, '4.3.1', {}, { cdi: false }],
  ['podman 5.3', podman, '5.3.2', {}, { cdi: false }],
  ['podman 5.4', podman, '5.4.0', {}, { cdi: true }],
  ['podman 6', podman, '6.0.0-rc1', {}, { cdi: true }],
])('%s gives containers CDI devices or not', (_, dialect, version, info, want) =>
  expect(cdiOf(info, version, dialect)).toEqual(want),
);
