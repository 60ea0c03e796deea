import { describe, expect, test } from 'vitest';
import { CONFIG_MAPS } from './_util.ts';
import { ApiError, TransportError } from './api-error.ts';
import { pathOf, retryDelay } from './client.ts';

describe('a failed call', () => {
  const status = (code: number, retryAfter?: number) => new ApiError(code, {}, 'get', retryAfter);
  const cases: Record<string, { error: unknown; repeatable: boolean; want: number | undefined; attempt?: number }> = {
    'is repeated after a lost connection when repeating does no harm': {
      error: new TransportError('lost', ''),
      repeatable: true,
      want: 100,
    },
    'is not repeated after a lost connection when it may have been executed': {
      error: new TransportError('lost', ''),
      repeatable: false,
      want: undefined,
    },
    'is repeated when no connection was made': {
      error: new TransportError('refused', ''),
      repeatable: false,
      want: 100,
    },
    'is repeated after 429 whatever it was': { error: status(429), repeatable: false, want: 100 },
    'waits as long as the server says': { error: status(429, 3), repeatable: true, want: 3_000 },
    'waits its own time when that is longer': { error: status(429, 0), repeatable: true, want: 100 },
    'is repeated after 500 when repeating does no harm': { error: status(500), repeatable: true, want: 100 },
    'is not repeated after 500 when it may have been executed': {
      error: status(503),
      repeatable: false,
      want: undefined,
    },
    'is not repeated when the answer was no': { error: status(404), repeatable: true, want: undefined },
    'is not repeated when the answer is unreadable': {
      error: new TransportError('malformed', ''),
      repeatable: true,
      want: undefined,
    },
    'waits longer after the third attempt': { error: status(500), repeatable: true, attempt: 3, want: 900 },
    'is given up after five repetitions': { error: status(500), repeatable: true, attempt: 6, want: undefined },
  };
  test.each(Object.entries(cases))('%s', (_name, { error, repeatable, want, attempt = 1 }) => {
    expect(retryDelay(error, attempt, repeatable, () => 0)).toBe(want);
  });
});

test('paths name group, namespace, object and subresource', () => {
  const custom = { group: 'skerry.dev', version: 'v3', plural: 'edgenodes', kind: 'EdgeNode', namespaced: true };
  expect(pathOf(CONFIG_MAPS)).toBe('/api/v1/configmaps');
  expect(pathOf(CONFIG_MAPS, 'n', 'a')).toBe('/api/v1/namespaces/n/configmaps/a');
  expect(pathOf(custom, 'n', 'a', 'status')).toBe('/apis/skerry.dev/v3/namespaces/n/edgenodes/a/status');
  expect(pathOf({ ...custom, namespaced: false }, undefined, 'a/../b')).toBe(
    '/apis/skerry.dev/v3/edgenodes/a%2F..%2Fb',
  );
});
