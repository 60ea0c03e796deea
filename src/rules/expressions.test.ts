import { describe, expect, it, test } from 'vitest';
import { makeApplication, makeEntry } from '../subjects/workloads/_make.ts';
import { fieldsNotActing } from '../subjects/workloads/rules/application/not-acting.ts';
import { entryFromFlat, patchEntry } from '../subjects/workloads/rules/entry/flat.ts';
import { findExpression } from './expressions.ts';

describe('template expressions', () => {
  test.each<[unknown, (string | number)[] | undefined]>([
    [{ a: 'x', b: { c: ['{', '}}', '{ {', 'a{{b'] } }, ['b', 'c', 3]],
    [{ config: '{"rate": "{% if x %}"}' }, ['config']],
    [{ config: '{"a":{"b":{"c":[{}]}}}', '{{key}}': 1 }, undefined],
    ['{{ self }}', []],
    [{ first: '{{ 1 }}', second: '{{ 2 }}' }, ['first']],
    [null, undefined],
    [[1, true, 'plain ${Agents.gw}'], undefined],
  ])('in %j are found at the path %j', (document, path) => expect(findExpression(document)).toEqual(path));

  it('are found at any depth of a document, with a short path', () => {
    let document: unknown = '{{ x }}';
    for (let depth = 0; depth < 100_000; depth++) document = [document];
    expect(findExpression(document)).toHaveLength(32);
  });

  it('are reported as plain text in objects that kubectl stored', () => {
    const entry = makeEntry({ container: { env: [{ key: 'A', value: '{{ .Name }}' }] } });
    expect(fieldsNotActing(makeApplication(), entry)).toEqual([
      'template expressions, whose text is taken as it stands',
    ]);
    expect(makeApplication({ entries: [entry] }).spec.microservices?.[0]?.container?.env?.[0]?.value).toBe(
      '{{ .Name }}',
    );
  });
});

describe('input that is refused instead of being dropped', () => {
  const flat = (more: object) => ({ name: 'm', images: [{ containerImage: 'x:1', archId: 1 }], ...more });
  test.each<[string, object, RegExp]>([
    ['a health check without a test', { healthCheck: { interval: 5 } }, /healthCheck.*needs test/],
    ['a health check whose test is empty', { healthCheck: { test: [], retries: 3 } }, /healthCheck.*needs test/],
    ['an unknown key in busConfig', { busConfig: { busAcces: true } }, /busConfig/],
  ])('%s is refused', (_, more, message) => expect(() => entryFromFlat(flat(more))).toThrow(message));

  it.each([{}, { test: null, interval: null }, null])('an empty health check counts as absent: %j', (healthCheck) => {
    expect(entryFromFlat(flat({ healthCheck })).entry.container?.healthCheck).toBeUndefined();
  });

  it.each([
    [undefined, 10, undefined],
    [0, 10, 0],
    [10, 0, 10],
    [10, 10, 10],
    [5, 10, 10],
    [undefined, 7, 7],
  ])(
    'a stored log size of %j that is sent back as %j stays %j, so that no container is replaced',
    (stored, sent, want) => {
      const entry = makeEntry({
        container: { hostNetworkMode: true, ...(stored !== undefined && { logSize: stored }) },
      });
      expect(patchEntry(entry, { logSize: sent }).entry.container?.logSize).toBe(want);
    },
  );
});
