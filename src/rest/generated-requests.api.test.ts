import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findSchemathesis } from '../../hack/schemathesis.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { routes } from '../assembly/routes.ts';
import { startTestCluster } from './_cluster.ts';
import { openApiDocument } from './server/openapi.ts';

/** A generator makes requests from the OpenAPI document, valid and invalid ones, for a facade over a real API server. */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;
const EXAMPLES = isNightly ? 50 : 2;
/** By day the same requests each time, by one worker: Python's parser may fail in several threads. */
const REPEATABLE = ['--workers', '1', '--seed', '1'];
const CHECKS = 'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance';
const LIMIT_MS = 3_600_000;

const cluster = await startTestCluster();

test(
  'no generated request gets a 5xx but the listed 501, and every response is as the OpenAPI document says',
  async ({ skip }) => {
    const program = await findSchemathesis().catch((error: Error) => {
      if (isNightly) throw error;
      return skip(`schemathesis needs python3 with venv and a package index: ${error.message.slice(0, 300)}`);
    });
    const { origin } = await cluster.startReplica();
    const folder = temporaryFolder();
    // Logins are off here: their routes answer the 501 that they list.
    const served = routes.filter(({ errors }) => !errors?.includes(501));
    writeFileSync(join(folder, 'openapi.json'), JSON.stringify(openApiDocument(served)));
    const { code, output } = await run(folder, program, [
      ...['run', 'openapi.json', '--url', origin, '--checks', CHECKS, '--max-examples', String(EXAMPLES)],
      ...['--header', `Authorization: Bearer ${await cluster.token('admin')}`, '--output-truncate', 'true'],
      ...['--phases', 'examples,fuzzing', '--no-shrink'],
      ...(isNightly ? ['--workers', '4'] : REPEATABLE),
      ...['--warnings', 'off', '--request-timeout', '40', '--suppress-health-check', 'all'],
    ]);
    expect(code, output.slice(-20_000)).toBe(0);
  },
  LIMIT_MS + 300_000,
);

function run(cwd: string, program: string, args: string[]): Promise<{ code: number | null; output: string }> {
  const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], timeout: LIMIT_MS });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text) => {
      output += text;
    });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
}
