import { existsSync } from 'node:fs';
import { installPackages } from './apt.ts';
import { hostArchitecture } from './image.ts';
import type { Log } from './progress.ts';

const TRIPLES = { amd64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' } as const;

/**
 * The environment in which a program's clock is wrong: `+3600s` and `-3600s` shift it, `@1970-01-01 00:10:00` (UTC) makes
 * it start at that time. Its monotonic clock, and so its timers, stay correct. Uses libfaketime, which is installed on a
 * Debian-like system when it is missing.
 */
export async function fakeTime(clock: string, log?: Log): Promise<Record<string, string>> {
  const library = `/usr/lib/${TRIPLES[hostArchitecture()]}/faketime/libfaketimeMT.so.1`;
  await installPackages({
    packages: ['faketime'],
    missing: () => (existsSync(library) ? '' : 'libfaketime'),
    why: 'To set the clock of one program',
    elsewhere: 'https://github.com/wolfcw/libfaketime',
    log,
  });
  return { LD_PRELOAD: library, FAKETIME: clock, FAKETIME_DONT_FAKE_MONOTONIC: '1', TZ: 'UTC' };
}
