import { expect, test } from 'vitest';
import { shimsOf } from './shims.ts';

test('the shims of a containerd are the ones that name its socket', () => {
  const shim = (socket: string) => [
    '/usr/bin/containerd-shim-runc-v2',
    '-namespace',
    'k8s.io',
    '-id',
    'a',
    '-address',
    socket,
  ];
  const processes = [
    { pid: 1, command: shim('/run/skerry-containerd/containerd.sock') },
    { pid: 2, command: shim('/run/containerd/containerd.sock') },
    { pid: 3, command: ['/usr/bin/containerd', '-address', '/run/skerry-containerd/containerd.sock'] },
    { pid: 4, command: [] },
  ];
  expect(shimsOf(processes, '/run/skerry-containerd/containerd.sock')).toEqual([1]);
});
