import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { silentLog } from '../../../../src/lib/log.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { systemClock } from '../../machine/clock.ts';
import { filesOnDisk } from '../../machine/mounted-files.ts';
import { MountedContent } from './mounted-content.ts';

test('files stay as long as the engine has not been read, since containers may bind them', () => {
  const folder = temporaryFolder();
  const files = filesOnDisk(folder);
  const path = 'secrets/22222222-2222-4222-8222-222222222222';
  files.write(path, new Map([['user', Buffer.from('ann')]]));
  const observed = {
    desired: [],
    knowsAll: true,
    containers: [],
    pending: 0,
    hasLooked: false,
    record: () => undefined,
  };
  const content = new MountedContent({
    files,
    clock: systemClock(),
    log: silentLog,
    identity: () => ({}) as never,
    tokens: {} as never,
    authority: () => undefined,
    observed,
  });
  content.write({ volumeMounts: [] } as never);
  content.observed();
  expect(existsSync(join(folder, path))).toBe(true);
  observed.hasLooked = true;
  content.observed();
  expect(existsSync(join(folder, path))).toBe(false);
});
