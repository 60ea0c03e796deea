import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { serverCertificate } from './server-certificate.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

describe('the certificate of the local API', () => {
  test('is the same at each start, and only its owner reads the file', () => {
    const path = join(folder, 'local-api.json');
    const made = serverCertificate(path, 'agent.example', silentLog);
    expect(serverCertificate(path, 'agent.example', silentLog)).toEqual(made);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test('is a new one when the file is damaged', () => {
    const path = join(folder, 'local-api.json');
    const made = serverCertificate(path, 'agent.example', silentLog);
    for (const text of ['', '{', '{"cert":"x","key":"y"}']) {
      writeFileSync(path, text);
      expect(serverCertificate(path, 'agent.example', silentLog).cert).not.toBe(made.cert);
    }
  });

  test('is there when it cannot be saved', () => {
    writeFileSync(join(folder, 'file'), '');
    const made = serverCertificate(join(folder, 'file/local-api.json'), 'agent.example', silentLog);
    expect(made.cert).toContain('BEGIN CERTIFICATE');
  });
});
