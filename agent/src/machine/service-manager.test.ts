import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { isService, serviceManager } from './service-manager.ts';

/** A systemd-notify that notes what it is to say. */
function makeProgram() {
  const folder = temporaryFolder();
  const file = join(folder, 'said');
  writeFileSync(file, '');
  writeFileSync(join(folder, 'systemd-notify'), `#!/bin/sh\necho "$@" >> '${file}'\n`, { mode: 0o755 });
  const said = () => readFileSync(file, 'utf8').trim().split('\n').filter(Boolean);
  return { said, env: { PATH: `${folder}:${process.env.PATH}`, NOTIFY_SOCKET: '/nowhere' } };
}

test('an agent that systemd started says when it is ready, and then that it lives as often as systemd asks', async () => {
  const { said, env } = makeProgram();
  using manager = serviceManager({ ...env, WATCHDOG_USEC: '60000' }, silentLog);
  manager.ready();
  await expect.poll(() => said().length).toBeGreaterThan(2);
  expect(said().slice(0, 2)).toEqual(['--ready --status=Running', 'WATCHDOG=1']);
});

test('without a watchdog the agent says only that it is ready', async () => {
  const { said, env } = makeProgram();
  using manager = serviceManager(env, silentLog);
  manager.ready();
  await expect.poll(said).toEqual(['--ready --status=Running']);
});

test('an agent that no service manager started says nothing', () => {
  const { said, env } = makeProgram();
  using manager = serviceManager({ PATH: env.PATH }, silentLog);
  manager.ready();
  expect(said()).toEqual([]);
});

test('an agent runs on where systemd-notify is missing', async () => {
  const warned = Promise.withResolvers<string>();
  const log = { ...silentLog, warn: (_: object, message: string) => warned.resolve(message) };
  using manager = serviceManager({ PATH: '/nowhere', NOTIFY_SOCKET: '/nowhere' }, log);
  manager.ready();
  expect(await warned.promise).toBe('The service manager cannot be told');
});

test('the unit of the packages starts the agent only with the usual file of settings, where systemd runs and has the unit', () => {
  const usual = '/etc/skerry-agent/config.yaml';
  expect(isService(usual, () => true)).toBe(true);
  expect(isService('/tmp/config.yaml', () => true)).toBe(false);
  expect(isService(usual, (path) => path.startsWith('/run'))).toBe(false);
  expect(isService(usual, (path) => path.endsWith('.service'))).toBe(false);
});
