import { expect, test } from 'vitest';
import { layoutOf } from './layout.ts';
import { programs } from './programs.ts';

const all = programs(layoutOf({}), {
  SERVER_PORT: '8443',
  CERTIFICATE_HOSTS: 'localhost',
  OIDC_CLIENT_SECRET: 'canary',
});

test('the programs of a control plane start in the order in which they need each other', () => {
  expect(all.map(({ name }) => name)).toEqual(['etcd', 'kube-apiserver', 'kube-controller-manager', 'controller']);
});

test('the programs of a control plane end within the ten seconds that an engine gives', () => {
  expect(all.reduce((sum, { endMs }) => sum + endMs, 0)).toBeLessThan(10_000);
});

test('etcd and the API server of a control plane listen on the loopback alone', () => {
  for (const { name, args } of all.slice(0, 2)) {
    const addresses = args.filter((_, at) => /^--(listen-.*-urls|bind-address)$/.test(args[at - 1] ?? ''));
    expect([name, addresses.length > 0, addresses.every((one) => one.includes('127.0.0.1'))]).toEqual([
      name,
      true,
      true,
    ]);
  }
});

test('an etcd that has reached its quota is ready, so that the start makes room in it', () => {
  expect(all[0]?.ready).toBe('http://127.0.0.1:2379/health?exclude=NOSPACE');
});

test('only the controller has its settings, and no argument has one', () => {
  const withSetting = all.filter(({ env }) => Object.values(env).includes('canary'));
  expect(withSetting.map(({ name }) => name)).toEqual(['controller']);
  expect(all.flatMap(({ args }) => args).join(' ')).not.toContain('canary');
  expect(all[3]?.env).toMatchObject({ CONTROL_PLANE: 'remote', SKERRY_TLS_HOSTS: 'localhost' });
});
