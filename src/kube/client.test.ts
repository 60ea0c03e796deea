import { describe, expect, test } from 'vitest';
import { CONFIG_MAPS } from './_util.ts';
import { ApiError, TransportError } from './api-error.ts';
import { retryDelay } from './call.ts';
import { pathOf } from './path.ts';

describe('a failed call', () => {
  const status = (code: number, retryAfter?: number) => new ApiError(code, {}, 'get', retryAfter);
  interface Case {
    error: unknown;
    repeatable: boolean;
    want: number | undefined;
    attempt?: number;
    connectRetries?: number;
  }
  const cases: Record<string, Case> = {
    'is retried after a lost connection when it is repeatable': {
      error: new TransportError('lost', ''),
      repeatable: true,
      want: 100,
    },
    'is not retried after a lost connection when it is not repeatable': {
      error: new TransportError('lost', ''),
      repeatable: false,
      want: undefined,
    },
    'is retried when no connection was made, even if it is not repeatable': {
      error: new TransportError('refused', ''),
      repeatable: false,
      want: 100,
    },
    'is not retried without a connection by a client for people': {
      error: new TransportError('refused', ''),
      repeatable: true,
      attempt: 2,
      connectRetries: 1,
      want: undefined,
    },
    'is retried after 429, even if it is not repeatable': { error: status(429), repeatable: false, want: 100 },
    'is retried after the delay that the server requests': { error: status(429, 3), repeatable: true, want: 3_000 },
    'is retried after the backoff when that is longer than the delay that the server requests': {
      error: status(429, 0),
      repeatable: true,
      want: 100,
    },
    'is retried after 500 when it is repeatable': { error: status(500), repeatable: true, want: 100 },
    'is not retried after 503 when it is not repeatable': {
      error: status(503),
      repeatable: false,
      want: undefined,
    },
    'is not retried after 404': { error: status(404), repeatable: true, want: undefined },
    'is not retried when the response cannot be read': {
      error: new TransportError('malformed', ''),
      repeatable: true,
      want: undefined,
    },
    'is retried after a longer delay when the third attempt failed': {
      error: status(500),
      repeatable: true,
      attempt: 3,
      want: 900,
    },
    'is not retried after five retries': { error: status(500), repeatable: true, attempt: 6, want: undefined },
  };
  test.each(Object.entries(cases))('%s', (_name, { error, repeatable, want, attempt = 1, connectRetries }) => {
    expect(retryDelay(error, attempt, repeatable, () => 0, connectRetries)).toBe(want);
  });
});

test('a path has group, version, namespace, name and subresource, and escapes the name', () => {
  const custom = { group: 'skerry.dev', version: 'v3', plural: 'edgenodes', kind: 'EdgeNode', namespaced: true };
  expect(pathOf(CONFIG_MAPS)).toBe('/api/v1/configmaps');
  expect(pathOf(CONFIG_MAPS, 'n', 'a')).toBe('/api/v1/namespaces/n/configmaps/a');
  expect(pathOf(custom, 'n', 'a', 'status')).toBe('/apis/skerry.dev/v3/namespaces/n/edgenodes/a/status');
  expect(pathOf({ ...custom, namespaced: false }, undefined, 'a/../b')).toBe(
    '/apis/skerry.dev/v3/edgenodes/a%2F..%2Fb',
  );
});
