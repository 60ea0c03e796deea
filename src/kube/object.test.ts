import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { makeConfigMap } from './_util.ts';
import { compareResourceVersions, isEnded, keyFor, parseKey } from './object.ts';

describe('resource versions', () => {
  test('are ordered as numbers of any size', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n }), fc.bigInt({ min: 0n }), (a, b) => {
        const order = compareResourceVersions(String(a), String(b)) ?? Number.NaN;
        expect(Math.sign(order)).toBe(a < b ? -1 : a > b ? 1 : 0);
      }),
    );
  });

  test.each(['', 'abc', '007', '-1', undefined])('%j is not comparable', (text) => {
    expect(compareResourceVersions(text, '1')).toBeUndefined();
    expect(compareResourceVersions('1', text)).toBeUndefined();
  });
});

test('parseKey returns the namespace and name that keyFor joined', () => {
  expect(parseKey(keyFor('ns', 'a.b-c'))).toEqual({ namespace: 'ns', name: 'a.b-c' });
  expect(parseKey(keyFor(undefined, 'cluster-wide'))).toEqual({ name: 'cluster-wide' });
});

describe('an object has ended', () => {
  const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 0 };
  const cases: Record<string, [Partial<ReturnType<typeof makeConfigMap>['metadata']>, boolean]> = {
    'when its deletion waits for nothing': [deleted, true],
    'not while its deletion waits for a finalizer': [{ ...deleted, finalizers: ['x'] }, false],
    'not during its grace period': [{ ...deleted, deletionGracePeriodSeconds: 30 }, false],
    'not when it is not being deleted': [{}, false],
  };
  test.each(Object.entries(cases))('%s', (_name, [metadata, want]) => {
    expect(isEnded(makeConfigMap('a', 1, metadata))).toBe(want);
  });
  test('not while it is a namespace with finalizers in its spec', () => {
    const namespace = { ...makeConfigMap('a', 1, deleted), spec: { finalizers: ['kubernetes'] } };
    expect(isEnded(namespace)).toBe(false);
  });
});
