import { X509Certificate } from 'node:crypto';
import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { LocalAuthority } from './local-authority.ts';

const DAY = 24 * 3600 * 1000;
const START = Date.UTC(2027, 0, 1);
const HOST = 'skerry-agent.default.svc.bridge.local';

let file: string;
let now: number;
beforeEach(() => {
  file = join(temporaryFolder(), 'local-api.json');
  now = START;
});

const start = (path = file) => new LocalAuthority({ file: path, host: HOST, wall: () => now, log: silentLog });
const endOf = (cert: string) => Date.parse(new X509Certificate(cert).validTo);
const verifies = (ca: string, cert: string) =>
  new X509Certificate(cert).checkIssued(new X509Certificate(ca)) &&
  new X509Certificate(cert).verify(new X509Certificate(ca).publicKey);

describe('the authority of the local API', () => {
  test('is the same at each start, is valid for ten years, and only its owner reads the file', () => {
    const { certificate } = start();
    expect(start().certificate).toBe(certificate);
    expect(endOf(certificate)).toBe(START + 3650 * DAY);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test('is a new one when the file is damaged', () => {
    const { certificate } = start();
    const whole = JSON.parse(readFileSync(file, 'utf8'));
    const other = start(join(temporaryFolder(), 'other.json'));
    const strange = JSON.stringify({ ...whole, cert: other.certificate });
    for (const text of ['', '{', '{"cert":"x","key":"y"}', strange]) {
      writeFileSync(file, text);
      expect(start().certificate).not.toBe(certificate);
    }
  });

  test('is there when it cannot be saved', () => {
    writeFileSync(`${file}-x`, '');
    expect(start(join(`${file}-x`, 'local-api.json')).certificate).toContain('BEGIN CERTIFICATE');
  });

  test('is renewed before it ends, with the same key, so that nobody notices', () => {
    const authority = start();
    const { certificate } = authority;
    now += 3300 * DAY;
    expect(authority.certificate).not.toBe(certificate);
    const { cert } = authority.server(['127.0.0.1']);
    expect([verifies(authority.certificate, cert), verifies(certificate, cert)]).toEqual([true, true]);
  });

  test('keeps the key that the release before has, whose certificate still verifies the server', () => {
    copyFileSync(join(import.meta.dirname, 'testdata/local-api-0.1.json'), file);
    const { cert: former } = JSON.parse(readFileSync(file, 'utf8'));
    const authority = start();
    const { certificate } = authority;
    expect(certificate).not.toBe(former);
    const { cert } = authority.server(['127.0.0.1']);
    expect([verifies(certificate, cert), verifies(former, cert)]).toEqual([true, true]);
    // The release before serves the file as it is, after a way back.
    expect(new X509Certificate(JSON.parse(readFileSync(file, 'utf8')).cert).checkHost(HOST)).toBe(HOST);
  });
});

describe('the certificate of the server', () => {
  test('stays until it is valid for less than 30 days, and its renewal leaves the authority as it is', () => {
    const authority = start();
    const { certificate } = authority;
    const first = authority.server(['127.0.0.1']);
    now += 334 * DAY;
    expect(authority.server(['127.0.0.1'])).toBe(first);
    now += 2 * DAY;
    const second = authority.server(['127.0.0.1']);
    expect(second.cert).not.toBe(first.cert);
    expect(endOf(second.cert)).toBe(now + 365 * DAY);
    expect([authority.certificate === certificate, verifies(certificate, second.cert)]).toEqual([true, true]);
  });

  test('gets a further address without losing the others', () => {
    const authority = start();
    authority.server(['127.0.0.1']);
    const { cert } = authority.server(['172.18.0.1']);
    expect(new X509Certificate(cert).subjectAltName).toBe(
      `DNS:${HOST}, DNS:localhost, IP Address:127.0.0.1, IP Address:172.18.0.1`,
    );
    expect(authority.server(['127.0.0.1']).cert).toBe(cert);
  });

  test('is valid whatever the clock said when it was made', () => {
    now = 0;
    const authority = start();
    const { cert } = authority.server(['127.0.0.1']);
    expect([endOf(cert) > Date.UTC(2026, 11), endOf(authority.certificate) > Date.UTC(2035, 11)]).toEqual([true, true]);
    // A clock that was years ahead leaves no certificate that no client accepts.
    now = Date.UTC(2060, 0);
    authority.server(['127.0.0.1']);
    now = START;
    expect(endOf(authority.server(['127.0.0.1']).cert)).toBe(START + 365 * DAY);
    expect(endOf(authority.certificate)).toBe(START + 3650 * DAY);
  });
});
