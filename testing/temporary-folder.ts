import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atEnd } from './at-end.ts';

/** A new folder until the present test ends or, when none runs, the tests of the file; SKERRY_KEEP keeps it. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'skerry-test-'));
  if (!process.env.SKERRY_KEEP) atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
