import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { routes } from '../src/assembly/routes.ts';
import { coverageOf, requestsIn, socketCoverage } from './api-coverage.ts';
import { ROOT } from './paths.ts';
import { shapeOf, V3_OPERATIONS } from './v3-operations.ts';

const tests = readTests();
const coverage = coverageOf(V3_OPERATIONS, routes, tests);

function readTests(): Map<string, string> {
  const names = globSync('{src,e2e}/**/*.test.ts', { cwd: ROOT });
  return new Map(names.map((name) => [name, readFileSync(join(ROOT, name), 'utf8')]));
}

describe('the operations of v3', () => {
  test('are listed once each', () => {
    const shapes = V3_OPERATIONS.map(shapeOf);
    expect(shapes.filter((shape, i) => shapes.indexOf(shape) !== i)).toEqual([]);
  });

  test('all have a route', () => {
    expect(coverage.filter(({ route }) => !route).map(({ operation }) => shapeOf(operation))).toEqual([]);
  });

  test('all have a test', () => {
    const untested = coverage.filter(({ route, tests }) => route && tests.length === 0);
    expect(untested.map(({ operation }) => shapeOf(operation))).toEqual([]);
  });
});

test('all sockets have a test', () => {
  const sockets = socketCoverage(tests);
  expect(sockets.filter((socket) => socket.tests.length === 0).map(({ path }) => path)).toEqual([]);
});

test('a request counts by its method and its path, with names resolved, without the query, and below /agent when an agent asks', () => {
  const source = [
    "await admin.get('/live');",
    'client.post<Answer>(`/node/${uuid}/reconcile`, {});',
    "const base = '/models';",
    "await rest('DELETE', `${base}/${names.map((n) => `${n}`)[0]}/link?x=1`);",
    'const start = async (more = {}) => `/microservices/${(await create(more)).uuid}`;',
    'const path = `${await start({})}/config`;',
    'await admin.patch(path, {});',
    "kube.get(path('nodes'));",
    'map.get(`${unknown}/live`);',
    'map.get(unknown);',
    "fetchJson('PUT', '/api/v3/router');",
    "await replica.as(node, key, 'GET', '/volumeMounts');",
    "await replica.call('POST', '/provision', { body });",
    "await agent.call('GET', '/agent/changes');",
  ].join('\n');
  expect(requestsIn(source).map(({ method, path }) => `${method} ${path}`)).toEqual([
    'GET /live',
    'POST /node/expression/reconcile',
    'PATCH /microservices/expression/config',
    'DELETE /models/expression/link',
    'PUT /router',
    'GET /agent/volumeMounts',
    'POST /agent/provision',
    'GET /agent/changes',
  ]);
});
