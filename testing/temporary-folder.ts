import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, onTestFinished } from 'vitest';

/** A folder that is removed when the present test has ended; for a test and its `beforeEach`. */
export function folderOfTest(): string {
  const { folder, remove } = make();
  onTestFinished(remove);
  return folder;
}

/** A folder that is removed when all tests of a file, or of a `describe`, have ended. */
export function folderOfSuite(): string {
  const { folder, remove } = make();
  afterAll(remove);
  return folder;
}

function make() {
  const folder = mkdtempSync(join(tmpdir(), 'skerry-test-'));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
