import { createPrivateKey, X509Certificate } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { keepKeys } from './keys.ts';
import { layoutOf } from './layout.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');
const DAY = 24 * 3600 * 1000;

function setUp() {
  const data = temporaryFolder();
  const layout = layoutOf({ SKERRY_CONTROL_PLANE_DATA: data });
  const path = (name: string) => join(data, 'keys', name);
  const certificate = (name: string) => new X509Certificate(readFileSync(path(`${name}.crt`)));
  return { layout, path, certificate };
}

test('a control plane makes its keys once, and certificates again before they end', async () => {
  const { layout, path, certificate } = setUp();
  await keepKeys(layout, NOW);
  const [authority, first] = [certificate('authority'), certificate('api-server')];
  expect(first.verify(authority.publicKey)).toBe(true);
  expect(first.checkIP('127.0.0.1')).toBe('127.0.0.1');
  const accounts = readFileSync(path('service-accounts.key'), 'utf8');
  await keepKeys(layout, NOW + 300 * DAY);
  expect(certificate('api-server').serialNumber).toBe(first.serialNumber);
  await keepKeys(layout, NOW + 310 * DAY);
  expect(certificate('api-server').serialNumber).not.toBe(first.serialNumber);
  expect(certificate('authority').serialNumber).toBe(authority.serialNumber);
  expect(readFileSync(path('service-accounts.key'), 'utf8')).toBe(accounts);
});

test('the keys of a control plane are readable by its user alone, and each user has its name and groups', async () => {
  const { layout, path, certificate } = setUp();
  await keepKeys(layout, NOW);
  for (const name of ['authority.key', 'admin.key', 'service-accounts.key', 'controller.kubeconfig'])
    expect(statSync(path(name)).mode & 0o077).toBe(0);
  expect(certificate('admin').subject).toBe('O=system:masters\nCN=admin');
  expect(certificate('controller').subject).toContain('CN=system:serviceaccount:skerry:skerry-controller');
});

test('a process that ended between a key and its certificate is followed by a process that makes both', async () => {
  const { layout, path, certificate } = setUp();
  await keepKeys(layout, NOW);
  rmSync(path('authority.crt'));
  await keepKeys(layout, NOW);
  expect(certificate('api-server').verify(certificate('authority').publicKey)).toBe(true);
});

test('a renewal that ended between a key and its certificate is followed by a renewal that makes both', async () => {
  const { layout, path, certificate } = setUp();
  await keepKeys(layout, NOW);
  copyFileSync(path('controller.key'), path('admin.key'));
  await keepKeys(layout, NOW);
  expect(certificate('admin').checkPrivateKey(createPrivateKey(readFileSync(path('admin.key'))))).toBe(true);
});

test('a renewal that cannot be written leaves the former pair, and fails once that has ended', async () => {
  const { layout, path, certificate } = setUp();
  await keepKeys(layout, NOW);
  mkdirSync(path('api-server.crt.new'));
  const refused = await keepKeys(layout, NOW + 310 * DAY);
  expect(refused).toEqual([expect.stringMatching(/^api-server was not made again: EISDIR/)]);
  expect(certificate('api-server').checkPrivateKey(createPrivateKey(readFileSync(path('api-server.key'))))).toBe(true);
  expect(Date.parse(certificate('admin').validFrom)).toBe(NOW + 309 * DAY);
  await expect(keepKeys(layout, NOW + 366 * DAY)).rejects.toThrow('EISDIR');
});

test('an authority that ends, or that a wrong clock made, is made again with all that it signed', async () => {
  for (const first of [Date.parse('1970-01-02T00:00:00Z'), NOW + 5000 * DAY, NOW - 3600 * DAY]) {
    const { layout, certificate } = setUp();
    await keepKeys(layout, first);
    await keepKeys(layout, NOW);
    const authority = certificate('authority');
    expect(Date.parse(authority.validFrom)).toBe(NOW - DAY);
    for (const name of ['api-server', 'admin', 'controller']) {
      expect(certificate(name).verify(authority.publicKey)).toBe(true);
      expect(Date.parse(certificate(name).validFrom)).toBe(NOW - DAY);
    }
  }
});

test('a certificate that a clock made which was ahead is made again', async () => {
  const { layout, certificate } = setUp();
  await keepKeys(layout, NOW);
  const authority = certificate('authority').serialNumber;
  await keepKeys(layout, NOW + 400 * DAY);
  await keepKeys(layout, NOW);
  expect(Date.parse(certificate('admin').validFrom)).toBe(NOW - DAY);
  expect(certificate('authority').serialNumber).toBe(authority);
});
