import { describe, expect, test } from 'vitest';
import { handlersFrom } from './handlers.ts';
import { containerdParts } from './parts.ts';

const PLUGINS = ['bridge', 'host-local', 'loopback', 'portmap', 'firewall'];
const programs = ['/usr/sbin/iptables', '/usr/sbin/runc', '/usr/bin/containerd', '/usr/bin/containerd-shim-runc-v2'];

describe('the parts of a private containerd', () => {
  test('are found in the folders of programs and plugins', () => {
    const plugins = [
      ...PLUGINS.slice(1).map((name) => `/usr/lib/cni/${name}`),
      ...PLUGINS.map((name) => `/opt/cni/bin/${name}`),
    ];
    expect(containerdParts({ programs, plugins })).toMatchObject({
      containerd: '/usr/bin/containerd',
      plugins: '/opt/cni/bin',
    });
  });

  test('are named by their packages where they are missing', () => {
    expect(containerdParts({ programs: [], plugins: [] })).toEqual({
      missing: ['containerd', 'runc', 'containernetworking-plugins', 'iptables'],
    });
  });
});

describe('the runtimes of a machine', () => {
  test('begin with runc, and have the shims of others', () => {
    const found = handlersFrom([
      '/usr/bin/crun',
      '/usr/local/bin/containerd-shim-spin-v1',
      '/usr/local/bin/containerd-shim-spin-v2',
      '/usr/local/bin/containerd-shim-runsc-v1',
      '/usr/local/bin/containerd-shim-Bad"-v1',
      ...programs,
    ]);
    expect(found).toEqual([
      { name: 'runc', type: 'io.containerd.runc.v2', program: '/usr/sbin/runc' },
      { name: 'crun', type: 'io.containerd.runc.v2', program: '/usr/bin/crun' },
      { name: 'runsc', type: 'io.containerd.runsc.v1' },
      { name: 'spin', type: 'io.containerd.spin.v2' },
    ]);
  });
});
