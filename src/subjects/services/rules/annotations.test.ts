import { describe, expect, test } from 'vitest';
import { annotationsOf } from './annotations.ts';
import { tokensOf } from './tags.ts';

describe('a tag', () => {
  test.each<[string, Record<string, string>]>([
    ['all', { all: '' }],
    ['example.com/class: fast', { 'example.com/class': 'fast' }],
    ['a:b:c', { a: 'b' }],
    ['a:', { a: '' }],
    ['a=b', {}],
    ['no key', {}],
    [': value', {}],
    ['/a', {}],
    ['a/b/c', {}],
    ['ä', {}],
    [`${'a'.repeat(63)}: x`, { ['a'.repeat(63)]: 'x' }],
    ['a'.repeat(64), {}],
    [`${'a.'.repeat(127)}b/x`, {}],
  ])('%s becomes the annotations of its key, if that is one', (tag, annotations) => {
    const of = annotationsOf([tag]);
    expect(of.annotations).toEqual(annotations);
    expect(of.illegal).toEqual(Object.keys(annotations).length === 0 ? [tag] : []);
  });

  test('selects nodes unless it has a colon or an equals sign', () => {
    const tags = ['all', 'plant a', 'a:b', 'a=b', 'ä'];
    expect(tokensOf({ spec: { type: 'external', resource: 'x', targetPort: 1, tags } })).toEqual([
      'all',
      'plant a',
      'ä',
    ]);
  });
});
