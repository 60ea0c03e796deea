import { describe, expect, it } from 'vitest';
import { readTemplateRef, variablesOf } from './variables.ts';

describe('variables', () => {
  it.each([
    [{ a: 1, b: null }, { a: 1 }],
    [[{ key: 'a', value: 1 }, { key: 'b' }], { a: 1 }],
    [undefined, {}],
  ])('%j are read as %j', (variables, values) => {
    expect(readTemplateRef({ name: 't', variables }, 'template')).toEqual({ name: 't', variables: values });
  });

  it.each([
    ['text', /^template\.variables: /],
    [[{ value: 1 }], /^template\.variables\[0\]\.key: is required/],
    [Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`v${i}`, i])), /at most 64/],
  ])('that are wrong are refused', (variables, message) => {
    expect(() => readTemplateRef({ name: 't', variables }, 'template')).toThrow(message);
  });

  it('take the given value, then the default; one with neither is refused by name', () => {
    const declared = [
      { key: 'a', defaultValue: 1 },
      { key: 'b', defaultValue: false },
      { key: 'constructor', defaultValue: 'c' },
    ];
    const ref = { name: 't', variables: { a: 0, extra: 'x' } };
    expect(variablesOf(declared, ref, 'template')).toEqual({ a: 0, b: false, constructor: 'c', extra: 'x' });
    expect(() => variablesOf([{ key: 'need' }], ref, 'template')).toThrow(
      /^template\.variables\.need: is required, since the template "t" has no default for it$/,
    );
  });
});
