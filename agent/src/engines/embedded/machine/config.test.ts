import { describe, expect, test } from 'vitest';
import { containerdConfig, containerdVersionIn, knowsCdi } from './config.ts';
import { containerdPlaces } from './places.ts';

const places = containerdPlaces({ root: '/data', state: '/state', name: 'skerry0', systemd: true });
const settingsOf = (text: string) => ({
  version: containerdVersionIn(`containerd x ${text} y`) as NonNullable<ReturnType<typeof containerdVersionIn>>,
  places,
  handlers: [
    { name: 'runc', type: 'io.containerd.runc.v2', program: '/usr/sbin/runc' },
    { name: 'spin', type: 'io.containerd.spin.v2' },
  ],
  plugins: '/usr/lib/cni',
  systemd: true,
  pauseImage: 'skerry.local/pause:1',
});

describe('the version of containerd', () => {
  test.each([
    ['containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3', 1, 6, false],
    ['containerd github.com/containerd/containerd/v2 v2.1.3 0123abcd', 2, 1, true],
    ['containerd github.com/containerd/containerd/v2 2.4.2+unknown ', 2, 4, true],
    ['containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da', 1, 7, true],
  ])('is read from "%s"', (text, major, minor, cdi) => {
    const version = containerdVersionIn(text);
    expect(version).toMatchObject({ major, minor });
    expect(version && knowsCdi(version)).toBe(cdi);
  });

  test('is unknown where the program prints another text', () => {
    expect(containerdVersionIn('containerd: command not found')).toBeUndefined();
  });
});

describe('the settings of containerd', () => {
  test.each(['1.6.20', '1.7.27', '2.4.2'])('name no folder outside its own with %s', (version) => {
    const text = containerdConfig(settingsOf(version));
    const paths = [...text.matchAll(/"(\/[^"]*)"/g)].map(([, path]) => path);
    const own = /^\/(data|state)(\/|$)|^\/usr\/(sbin\/runc|lib\/cni)$/;
    expect(paths.filter((path) => !own.test(path ?? ''))).toEqual([]);
    expect(paths).toEqual(
      expect.arrayContaining(['/data', '/state', '/state/containerd.sock', '/data/networks', '/state/runc']),
    );
  });

  test('have the form of the version', () => {
    const old = containerdConfig(settingsOf('1.6.20'));
    const recent = containerdConfig(settingsOf('2.4.2'));
    expect(old).toMatch(/^version = 2\n/);
    expect(old).toContain('["plugins"."io.containerd.grpc.v1.cri"."containerd"."runtimes"."runc"."options"]');
    expect(recent).toMatch(/^version = 3\n/);
    expect(recent).toContain('["plugins"."io.containerd.cri.v1.runtime"."containerd"."runtimes"."runc"."options"]');
    expect(recent).toContain('["plugins"."io.containerd.nri.v1.nri"]\ndisable = true\n');
    expect(recent).toContain('socket_dir = "/state/s"');
    expect(recent).toContain('bin_dirs = ["/usr/lib/cni"]');
    for (const each of [old, containerdConfig(settingsOf('2.0.5'))]) expect(each).toContain('bin_dir = "/usr/lib/cni"');
  });

  test('switch CDI on where containerd 1.7 leaves it off', () => {
    expect(containerdConfig(settingsOf('1.7.27'))).toContain('enable_cdi = true');
    expect(containerdConfig(settingsOf('1.6.20'))).not.toContain('cdi');
  });

  test('give options to the shim of runc alone', () => {
    const text = containerdConfig(settingsOf('1.6.20'));
    expect(text).toContain('runtime_type = "io.containerd.spin.v2"');
    expect(text.match(/BinaryName/g)).toHaveLength(1);
    expect(text).toContain('default_runtime_name = "runc"');
  });
});
