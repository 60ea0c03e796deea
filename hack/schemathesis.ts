import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { lock } from './lock.ts';
import { cacheFolder } from './paths.ts';

const run = promisify(execFile);
const INSTALL_MS = 300_000;

/**
 * Path of schemathesis, a generator of requests from an OpenAPI document, with the packages of
 * `hack/tools/schemathesis/requirements.txt` in the user's cache folder. Needs python3 with venv, and a package index.
 */
export async function findSchemathesis(): Promise<string> {
  const pins = join(import.meta.dirname, 'tools/schemathesis/requirements.txt');
  const hash = createHash('sha256').update(readFileSync(pins)).digest('hex').slice(0, 12);
  const folder = join(cacheFolder(), `schemathesis-${hash}`);
  const program = join(folder, 'bin/schemathesis');
  const complete = join(folder, 'complete');
  if (existsSync(complete)) return program;
  await using _one = await lock(join(cacheFolder(), 'schemathesis.lock'));
  if (existsSync(complete)) return program;
  rmSync(folder, { recursive: true, force: true });
  await run('python3', ['-m', 'venv', folder], { timeout: INSTALL_MS });
  const pip = ['install', '--quiet', '--disable-pip-version-check', '--no-deps', '--requirement', pins];
  await run(join(folder, 'bin/pip'), pip, { timeout: INSTALL_MS });
  await run(program, ['--version'], { timeout: INSTALL_MS });
  writeFileSync(complete, '');
  return program;
}
