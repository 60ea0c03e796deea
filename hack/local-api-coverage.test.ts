import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { localApi } from '../agent/src/local-api/routes.ts';
import { localCoverage } from './local-api-coverage.ts';
import { LOCAL_API_OPERATIONS } from './local-api-operations.ts';
import { ROOT } from './paths.ts';

const sources = globSync('{agent/src,e2e}/**/*.test.ts', { cwd: ROOT });
const coverage = localCoverage(new Map(sources.map((name) => [name, readFileSync(join(ROOT, name), 'utf8')])));
const requests = coverage.map(({ request }) => request);

test('the operations of the local API of v3 are 90, each once', () => {
  expect(new Set(requests).size).toBe(90);
  expect(requests).toHaveLength(90);
  const counts = Object.entries(LOCAL_API_OPERATIONS).map(([section, rows]) => `${section} ${rows.length}`);
  expect(counts.join(', ')).toBe(
    'System 18, Logs 4, Images 7, Models and knowledge 12, Volumes 5, Config 3, Microservices 9, Exec 4, Deploy 25, Auth 3',
  );
});

test('an operation of v3 without a route answers 501 and not 404', () => {
  const { find } = localApi({ agent: {} } as never);
  const codes = coverage
    .filter(({ route }) => !route)
    .map(({ request }) => {
      const [method = '', path = ''] = request.split(' ');
      try {
        return find(method, path.replaceAll(/\{\w+\}/g, 'x')).route.operation;
      } catch (error) {
        return (error as { code: string }).code;
      }
    });
  expect(codes.filter((code) => code !== 'NOT_IMPLEMENTED' && code !== 'METHOD_NOT_ALLOWED')).toEqual([]);
});

test('an operation of v3 that has a route has a test that requests it', () => {
  const untested = coverage.filter(({ route, tests }) => route && tests.length === 0);
  expect(untested.map(({ request }) => request)).toEqual([]);
});
