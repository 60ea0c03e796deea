import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findSchemathesis } from '../../hack/schemathesis.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { routes } from '../assembly/routes.ts';
import { poll, startTestCluster } from './_cluster.ts';
import type { AnyRoute, TaggedRoute } from './contract/route.ts';
import { openApiDocument } from './server/openapi.ts';

/** A generator makes requests from the OpenAPI document, valid and invalid ones, for a facade over a real API server. */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;
/** By day the same requests each time, by one worker: Python's parser may fail in several threads. */
const REPEATABLE = ['--workers', '1', '--seed', '1'];
const CHECKS = 'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance';
const LIMIT_MS = 3_600_000;

const cluster = await startTestCluster();

/** Routes that answer the 501 that they list where logins are off. */
const isOfLogins = ({ errors }: AnyRoute) => errors?.includes(501) === true;
/** By day one route of each method in each group. */
const isFirstOfItsKind = ({ tag, method }: TaggedRoute, index: number, all: readonly TaggedRoute[]) =>
  all.findIndex((other) => other.tag === tag && other.method === method) === index;

test.for([
  {
    what: 'without logins',
    served: routes.filter((one) => !isOfLogins(one)).filter(isNightly ? () => true : isFirstOfItsKind),
    examples: isNightly ? 50 : 1,
    start: async () => (await cluster.startReplica()).origin,
  },
  {
    what: 'about logins',
    served: routes.filter(isOfLogins),
    examples: isNightly ? 50 : 4,
    async start() {
      const { url, client } = await cluster.startController({ CONTROLLER_PUBLIC_URL: 'http://127.0.0.1:51121' });
      await poll(async () => (await fetch(`${url}/oidc/jwks`)).status).toBe(200);
      // Without logins the routes would answer 501, which they list.
      expect((await client.post('/user/login', { json: {} })).status).toBe(400);
      return url;
    },
  },
])(
  'no generated request $what gets a 5xx but the listed 501, and every response is as the OpenAPI document says',
  { timeout: LIMIT_MS + 300_000 },
  async ({ served, examples, start }, { skip }) => {
    const program = await findSchemathesis().catch((error: Error) => {
      if (isNightly) throw error;
      return skip(`schemathesis needs python3 with venv and a package index: ${error.message.slice(0, 300)}`);
    });
    const origin = await start();
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'openapi.json'), JSON.stringify(openApiDocument(served)));
    const { code, output } = await run(folder, program, [
      ...['run', 'openapi.json', '--url', origin, '--checks', CHECKS, '--max-examples', String(examples)],
      ...['--header', `Authorization: Bearer ${await cluster.token('admin')}`, '--output-truncate', 'true'],
      ...['--phases', 'examples,fuzzing', '--no-shrink'],
      ...(isNightly ? ['--workers', '4'] : REPEATABLE),
      ...['--warnings', 'off', '--request-timeout', '40', '--suppress-health-check', 'all'],
    ]);
    expect(code, output.slice(-20_000)).toBe(0);
  },
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
