import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { KINDS } from '../kinds/index.ts';
import { toCrd, undescribed } from './crd.ts';
import { brokenTransitions, obeys, type Rule, toCel } from './rules.ts';
import { closedObject, commonPattern, mapList, object, text } from './schema.ts';
import { prune, type Structural, toStructural, withoutNulls } from './structural.ts';

const definitions = Object.values(KINDS).map(({ definition }) => definition);

describe('text', () => {
  test('counts code points, as the API server does, not UTF-16 units', () => {
    expect(text({ max: 2 }).safeParse('😀😀').success).toBe(true);
    expect(text({ max: 1 }).safeParse('😀😀').error?.issues[0]?.message).toBe('must have at most 1 characters, has 2');
  });
  test('says in words what would be right', () => {
    const issue = text({ max: 9, pattern: '^/.*$', expects: 'an absolute path' }).safeParse('etc').error?.issues[0];
    expect(issue?.message).toBe('must be an absolute path');
  });
});

test.each([
  ['look-ahead', '^(?=a)'],
  ['a class that differs', '^\\s+$'],
  ['a word boundary', '\\bx'],
  ['a named group', '(?<n>a)'],
  ['a back reference', '(a)\\1'],
])('a pattern with %s is refused, since RE2 and JavaScript would not read it alike', (_, pattern) => {
  expect(() => commonPattern(pattern)).toThrow();
});

describe('mapList', () => {
  test('names the duplicate key and its place', () => {
    const schema = mapList(object({ name: z.string() }), ['name'], 3);
    const issue = schema.safeParse([{ name: 'a' }, { name: 'b' }, { name: 'a' }]).error?.issues[0];
    expect(issue).toMatchObject({ path: [2], message: 'duplicate: another item has name "a"' });
  });
});

describe('toStructural', () => {
  test('refuses what no structural schema can say', () => {
    expect(() => toStructural(z.object({ a: z.union([z.string(), z.object({})]) }))).toThrow(
      /at a is not structural: anyOf/,
    );
  });
  test.each(definitions)('$kind: nothing inside a list has a default', ({ spec }) => {
    // What the API server adds there looks to client-side apply and to GitOps tools like an edit of the list.
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
    '%s: every field has a text for kubectl explain',
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
  test('drops what is not known and says where it was', () => {
    expect(prune({ a: true, c: 1, list: [{ b: true, d: 2 }], any: { e: 3 } }, schema)).toEqual({
      value: { a: true, list: [{ b: true }], any: { e: 3 } },
      dropped: ['c', 'list[0].d'],
    });
  });
  test('names of something else are not dropped, so that a typo is refused at every door', () => {
    const closed = toStructural(object({ limits: closedObject({ nofile: z.boolean().optional() }).optional() }));
    expect(prune({ limits: { files: true } }, closed)).toEqual({ value: { limits: { files: true } }, dropped: [] });
  });
  test('does not take inherited names for known fields', () => {
    expect(prune(JSON.parse('{"constructor":1,"__proto__":{"x":1}}'), schema).dropped).toEqual([
      'constructor',
      '__proto__',
    ]);
  });
  test('nulls go, but not those inside any JSON', () => {
    expect(withoutNulls({ a: null, any: { e: null } }, schema)).toEqual({ any: { e: null } });
  });
});

describe('rules that look at the change', () => {
  const rules: Rule[] = [
    { rule: 'immutableOnceSet', field: 'uuid', message: 'uuid' },
    { rule: 'immutable', field: 'name', message: 'name' },
  ];
  test.each([
    ['setting an uuid later is allowed', {}, { uuid: 'a' }, []],
    ['changing it is not', { uuid: 'a' }, { uuid: 'b' }, ['uuid']],
    ['removing it is not', { uuid: 'a' }, {}, ['uuid']],
    ['a name cannot be added later', {}, { name: 'x' }, ['name']],
    ['nor removed', { name: 'x' }, {}, ['name']],
    ['nothing changed is always fine', { uuid: 'a', name: 'x' }, { uuid: 'a', name: 'x' }, []],
  ])('%s', (_, old, now, broken) => {
    expect(brokenTransitions(rules, now, old)).toEqual(broken);
  });
  test.each([
    ['an identity may be asked for while none is recorded', {}, {}, { uuid: 'a' }, []],
    ['it stays as it was asked for until it is recorded', { uuid: 'a' }, {}, {}, ['uuid']],
    ['and is not changed before', { uuid: 'a' }, {}, { uuid: 'b' }, ['uuid']],
    ['once it is recorded the spec may leave it out', { uuid: 'a' }, { uuid: 'a' }, {}, []],
    ['or repeat it', {}, { uuid: 'a' }, { uuid: 'a' }, []],
    ['but not ask for another', {}, { uuid: 'a' }, { uuid: 'b' }, ['uuid']],
    ['what was refused may stay', { uuid: 'b' }, { uuid: 'a' }, { uuid: 'b' }, []],
    ['or go', { uuid: 'b' }, { uuid: 'a' }, {}, []],
  ])('%s', (_, before, status, now, broken) => {
    const recorded: Rule[] = [{ rule: 'recorded', field: 'uuid', message: 'uuid' }];
    expect(brokenTransitions(recorded, { spec: now, status }, { spec: before, status })).toEqual(broken);
  });
  test('a field name that is no CEL identifier is escaped', () => {
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
