import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { KINDS } from '../subjects/kinds.ts';
import { brokenTransitions } from './_transitions.ts';
import { toCrd, undescribed } from './crd.ts';
import { obeys, type Rule, toCel } from './rules.ts';
import { closedObject, commonPattern, mapList, object, text } from './schema.ts';
import { prune, type Structural, toStructural, withoutNulls } from './structural.ts';

const definitions = Object.values(KINDS).map(({ definition }) => definition);

describe('text', () => {
  test('counts code points, as the API server does, not UTF-16 units', () => {
    expect(text({ max: 2 }).safeParse('😀😀').success).toBe(true);
    expect(text({ max: 1 }).safeParse('😀😀').error?.issues[0]?.message).toBe('must have at most 1 characters, has 2');
  });
  test('a refusal describes what would be valid', () => {
    const issue = text({ max: 9, pattern: '^/.*$', expects: 'an absolute path' }).safeParse('etc').error?.issues[0];
    expect(issue?.message).toBe('must be an absolute path');
  });
});

test.each([
  ['look-ahead', '^(?=a)'],
  ['a character class that differs', '^\\s+$'],
  ['a word boundary', '\\bx'],
  ['a named group', '(?<n>a)'],
  ['a back reference', '(a)\\1'],
])('a pattern with %s is refused, since RE2 and JavaScript interpret it differently', (_, pattern) => {
  expect(() => commonPattern(pattern)).toThrow();
});

describe('mapList', () => {
  test('names the duplicate key and its path', () => {
    const schema = mapList(object({ name: z.string() }), ['name'], 3);
    const issue = schema.safeParse([{ name: 'a' }, { name: 'b' }, { name: 'a' }]).error?.issues[0];
    expect(issue).toMatchObject({ path: [2], message: 'duplicate: another item has name "a"' });
  });
});

describe('toStructural', () => {
  test('refuses what no structural schema can express', () => {
    expect(() => toStructural(z.object({ a: z.union([z.string(), z.object({})]) }))).toThrow(
      /at a is not structural: anyOf/,
    );
  });
  test.each(definitions)('$kind: nothing inside a list has a default', ({ spec }) => {
    // A value that the API server adds to an item looks to client-side apply and to GitOps tools like an edit of the list.
    const defaults = (node: Structural, path: string, listed: boolean): string[] => [
      ...(listed && 'default' in node ? [path] : []),
      ...Object.entries(node.properties ?? {}).flatMap(([name, member]) => defaults(member, `${path}.${name}`, listed)),
      ...(node.additionalProperties ? defaults(node.additionalProperties, `${path}{}`, listed) : []),
      ...(node.items ? defaults(node.items, `${path}[]`, true) : []),
    ];
    expect(defaults(toStructural(spec), 'spec', false)).toEqual([]);
  });

  test('turns rules into CEL', () => {
    const { 'x-kubernetes-validations': rules } = toStructural(definitions[0]?.spec as z.ZodType);
    expect(rules).toContainEqual({
      rule: 'has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)',
      message: 'name is immutable',
    });
  });
  test.each(definitions.map((kind) => [kind.kind, kind] as const))(
    '%s: every field has a description for kubectl explain',
    (_, kind) => {
      expect(undescribed(schemaOf(kind))).toEqual([]);
    },
  );
  test.each(definitions.map((kind) => [kind.kind, kind] as const))(
    '%s: every list, map and text has a bound',
    (_, kind) => {
      expect(unbounded(schemaOf(kind))).toEqual([]);
    },
  );
});

describe('prune', () => {
  const schema = toStructural(
    object({
      a: z.boolean().optional(),
      list: z.array(object({ b: z.boolean().optional() })).optional(),
      any: z.unknown().meta({ 'x-kubernetes-preserve-unknown-fields': true }),
    }),
  );
  test('drops unknown members and returns their paths', () => {
    expect(prune({ a: true, c: 1, list: [{ b: true, d: 2 }], any: { e: 3 } }, schema)).toEqual({
      value: { a: true, list: [{ b: true }], any: { e: 3 } },
      dropped: ['c', 'list[0].d'],
    });
  });
  test('keeps unknown external names such as sysctls, so that a typo is refused everywhere', () => {
    const closed = toStructural(object({ limits: closedObject({ nofile: z.boolean().optional() }).optional() }));
    expect(prune({ limits: { files: true } }, closed)).toEqual({ value: { limits: { files: true } }, dropped: [] });
  });
  test('drops members with the names of inherited members', () => {
    expect(prune(JSON.parse('{"constructor":1,"__proto__":{"x":1}}'), schema).dropped).toEqual([
      'constructor',
      '__proto__',
    ]);
  });
  test('withoutNulls removes null members, except inside a field of any JSON', () => {
    expect(withoutNulls({ a: null, any: { e: null } }, schema)).toEqual({ any: { e: null } });
  });
});

describe('transition rules', () => {
  const rules: Rule[] = [
    { rule: 'immutableOnceSet', field: 'uuid', message: 'uuid' },
    { rule: 'immutable', field: 'name', message: 'name' },
  ];
  test.each([
    ['a uuid can be added later', {}, { uuid: 'a' }, []],
    ['a uuid cannot be changed', { uuid: 'a' }, { uuid: 'b' }, ['uuid']],
    ['a uuid cannot be removed', { uuid: 'a' }, {}, ['uuid']],
    ['a name cannot be added later', {}, { name: 'x' }, ['name']],
    ['a name cannot be removed', { name: 'x' }, {}, ['name']],
    ['an unchanged object is accepted', { uuid: 'a', name: 'x' }, { uuid: 'a', name: 'x' }, []],
  ])('%s', (_, old, now, broken) => {
    expect(brokenTransitions(rules, now, old)).toEqual(broken);
  });
  test.each([
    ['a uuid can be added while none is recorded', {}, {}, { uuid: 'a' }, []],
    ['a uuid cannot be removed until it is recorded', { uuid: 'a' }, {}, {}, ['uuid']],
    ['a uuid cannot be changed until it is recorded', { uuid: 'a' }, {}, { uuid: 'b' }, ['uuid']],
    ['a uuid can be removed once it is recorded', { uuid: 'a' }, { uuid: 'a' }, {}, []],
    ['the recorded uuid can be added', {}, { uuid: 'a' }, { uuid: 'a' }, []],
    ['a uuid other than the recorded one cannot be added', {}, { uuid: 'a' }, { uuid: 'b' }, ['uuid']],
    ['a refused uuid can stay', { uuid: 'b' }, { uuid: 'a' }, { uuid: 'b' }, []],
    ['a refused uuid can be removed', { uuid: 'b' }, { uuid: 'a' }, {}, []],
  ])('%s', (_, before, status, now, broken) => {
    const recorded: Rule[] = [{ rule: 'recorded', field: 'uuid', message: 'uuid' }];
    expect(brokenTransitions(recorded, { spec: now, status }, { spec: before, status })).toEqual(broken);
  });
  test('a field name that is not a CEL identifier is escaped', () => {
    const rule: Rule = {
      rule: 'trueExcludesKeys',
      field: 'a',
      other: 'sysctls',
      keys: ['net.ipv4.tcp_rmem'],
      message: '',
    };
    expect(toCel(rule)).toContain('has(self.sysctls.net__dot__ipv4__dot__tcp_rmem)');
    expect(obeys(rule, { a: true, sysctls: { 'net.ipv4.tcp_rmem': '1' } })).toBe(false);
  });
});

const schemaOf = (kind: (typeof definitions)[number]): Structural => {
  const crd = toCrd(kind) as { spec: { versions: [{ schema: { openAPIV3Schema: Structural } }] } };
  return crd.spec.versions[0].schema.openAPIV3Schema;
};

/** Paths of lists without maxItems, maps without maxProperties and texts without maxLength or enum. */
function unbounded(schema: Structural, path = ''): string[] {
  const here =
    (schema.type === 'array' && schema.maxItems === undefined) ||
    (schema.additionalProperties && schema.maxProperties === undefined) ||
    (schema.type === 'string' && schema.maxLength === undefined && !schema.enum);
  const members = Object.entries(schema.properties ?? {}).filter(
    ([name]) => path !== '' || name === 'spec' || name === 'status',
  );
  return [
    ...(here ? [path] : []),
    ...members.flatMap(([name, member]) => unbounded(member, `${path}.${name}`)),
    ...(schema.items ? unbounded(schema.items, `${path}[]`) : []),
    ...(schema.additionalProperties ? unbounded(schema.additionalProperties, `${path}{}`) : []),
  ];
}
