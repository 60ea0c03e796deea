import type { z } from 'zod';
import { destinationOf, STAYS_WITHIN_CEL, staysWithin } from './destination.ts';

/**
 * Rules between the fields of one object, as data. Each is written once and becomes both a zod check and a CEL rule of
 * the CRD, so the two cannot differ. Rules that look at lists of other items or at other objects are
 * verdicts of the domain.
 */
export type Rule =
  | { rule: 'exactlyOne'; of: readonly string[]; message: string }
  | { rule: 'atMostOne'; of: readonly string[]; message: string }
  /** `field`, when present (and greater than zero where `positive`), needs `needs` (a list that is not empty where `filled`) */
  | { rule: 'requires'; field: string; needs: string; positive?: true; filled?: true; message: string }
  /** numeric: `low` <= `high`, where -1 means unlimited */
  | { rule: 'ordered'; low: string; high: string; message: string }
  /** `list` non-empty if and only if `field` is present and not empty */
  | { rule: 'together'; field: string; list: string; message: string }
  /** when text `field` contains `part`, `other` must be absent */
  | { rule: 'containsExcludes'; field: string; part: string; other: string; message: string }
  /** when boolean `field` is true, the object `other` has none of `keys` */
  | { rule: 'trueExcludesKeys'; field: string; other: string; keys: readonly string[]; message: string }
  /** when text `field` equals `value`, the object `other` has none of `keys` */
  | {
      rule: 'equalsExcludesKeys';
      field: string;
      value: string;
      other: string;
      keys: readonly string[];
      message: string;
    }
  /** `needs` is present if and only if text `field`, which is `value` when absent, differs from `value` */
  | { rule: 'unlessEquals'; field: string; value: string; needs: string; message: string }
  /** text `field` differs from `value` */
  | { rule: 'not'; field: string; value: string | number; message: string }
  /** no two items of `list` agree in all fields of `by`, which have these values where they are absent */
  | { rule: 'unique'; list: string; by: Readonly<Record<string, string | number>>; message: string }
  /** the list `field`, when not empty, begins with one of `words` */
  | { rule: 'beginsWith'; field: string; words: readonly string[]; message: string }
  /** once present, a field keeps its value */
  | { rule: 'immutableOnceSet'; field: string; message: string }
  /**
   * of a whole object: `field` of the spec may ask for an identity. Once the status records it, the spec may only
   * repeat it or leave it out; before that, the field is immutable
   */
  | { rule: 'recorded'; field: string; message: string }
  /** present from the start or never, and then unchanged */
  | { rule: 'immutable'; field: string; message: string }
  /** the object `field`, a reference to credentials, must change when the destination of the object widens */
  | { rule: 'staysAtDestination'; field: string; message: string };

export type Fields = Record<string, unknown>;
const present = (object: Fields, field: string) => object[field] !== undefined;
const hasAny = (value: unknown, keys: readonly string[]) =>
  typeof value === 'object' && value !== null && keys.some((key) => (value as Fields)[key] !== undefined);

/** Whether two objects have the same members, all of them plain values. */
const isSameFlat = (a: unknown, b: unknown) => {
  const [one, other] = [a, b].map((value) => Object.entries(value ?? {}).toSorted());
  return JSON.stringify(one) === JSON.stringify(other);
};

/** True when the object obeys the rule. Transition rules need `old`; without it the result is true. */
export function obeys(rule: Rule, object: Fields, old?: Fields): boolean {
  switch (rule.rule) {
    case 'exactlyOne':
      return rule.of.filter((field) => present(object, field)).length === 1;
    case 'atMostOne':
      return rule.of.filter((field) => present(object, field)).length <= 1;
    case 'requires': {
      const applies = present(object, rule.field) && (!rule.positive || Number(object[rule.field]) > 0);
      const needed = object[rule.needs];
      return !applies || (rule.filled ? Array.isArray(needed) && needed.length > 0 : needed !== undefined);
    }
    case 'ordered': {
      const low = Number(object[rule.low]);
      const high = Number(object[rule.high]);
      return high === -1 || (low !== -1 && low <= high);
    }
    case 'together': {
      const list = object[rule.list];
      const filled = Array.isArray(list) && list.length > 0;
      return filled === (typeof object[rule.field] === 'string' && object[rule.field] !== '');
    }
    case 'containsExcludes':
      return !(
        typeof object[rule.field] === 'string' &&
        (object[rule.field] as string).includes(rule.part) &&
        present(object, rule.other)
      );
    case 'trueExcludesKeys':
      return !(object[rule.field] === true && hasAny(object[rule.other], rule.keys));
    case 'equalsExcludesKeys':
      return !(object[rule.field] === rule.value && hasAny(object[rule.other], rule.keys));
    case 'unlessEquals':
      return ((object[rule.field] ?? rule.value) !== rule.value) === present(object, rule.needs);
    case 'not':
      return object[rule.field] !== rule.value;
    case 'unique': {
      const keys = keysOf(rule, object);
      return new Set(keys).size === keys.length;
    }
    case 'beginsWith': {
      const list = object[rule.field];
      return !Array.isArray(list) || list.length === 0 || rule.words.includes(list[0]);
    }
    case 'immutableOnceSet':
      return !old || !present(old, rule.field) || old[rule.field] === object[rule.field];
    case 'recorded': {
      const of = (part: string, whole?: Fields) => (whole?.[part] as Fields | undefined)?.[rule.field];
      const [asked, before, recorded] = [of('spec', object), of('spec', old), of('status', old)];
      return (
        asked === before || (recorded === undefined ? before === undefined : asked === undefined || asked === recorded)
      );
    }
    case 'immutable':
      return !old || old[rule.field] === object[rule.field];
    case 'staysAtDestination':
      return (
        !old ||
        !present(old, rule.field) ||
        !isSameFlat(old[rule.field], object[rule.field]) ||
        staysWithin(destinationOf(object as never), destinationOf(old as never))
      );
  }
  return rule satisfies never;
}

/** The items of a list that the rule `unique` compares, as texts such as `8080/tcp`. */
const keysOf = (rule: Unique, object: Fields) =>
  ((object[rule.list] ?? []) as Fields[]).map((item) =>
    Object.entries(rule.by)
      .map(([field, or]) => String(item[field] ?? or))
      .join('/'),
  );

/**
 * What a broken rule says of an object. The CRD has the message alone: an expression that names the item costs more than the API server
 * allows in a list of entries.
 */
function messageOf(rule: Rule, object: Fields): string {
  if (rule.rule !== 'unique') return rule.message;
  const keys = keysOf(rule, object);
  return `${rule.message}: ${keys.find((key, index) => keys.lastIndexOf(key) !== index)}`;
}

/** CEL access to a field; names that are not identifiers are escaped as the API server demands. */
const at = (field: string, base = 'self') => `${base}.${escapeCel(field)}`;
const has = (field: string, base = 'self') => `has(${at(field, base)})`;
/** CEL: whether none of the fields is present. */
const none = (fields: readonly string[]) => fields.map((field) => `!${has(field)}`).join(' && ');
/** CEL: whether exactly one field is present, or at most one where `orNone`. */
function one([first = '', ...rest]: readonly string[], orNone = false): string {
  if (rest.length === 0) return orNone ? 'true' : has(first);
  return `(${has(first)} ? ${none(rest)} : ${one(rest, orNone)})`;
}

/** The member that a rule is about, where CEL needs no other one. The rule is then a rule of the member, and costs nothing without it. */
export const judgedMember = (rule: Rule): string | undefined =>
  rule.rule === 'not' || rule.rule === 'beginsWith' ? rule.field : rule.rule === 'unique' ? rule.list : undefined;

/**
 * The rule as a CEL expression over `self` (and `oldSelf` for transition rules). The API server evaluates it with each write, of a
 * status as well, and copies the schemas of all members of an object for each member that an expression reads
 * (docs/decisions/2026-11-26-where-a-rule-of-a-kind-lives.md): it reads as few as possible.
 */
export function toCel(rule: Rule): string {
  switch (rule.rule) {
    case 'exactlyOne':
      return one(rule.of);
    case 'atMostOne':
      // The first one is the usual spelling: where the others are absent, nobody asks for it.
      return one(rule.of.toReversed(), true);
    case 'requires':
      return `!(${has(rule.field)}${rule.positive ? ` && ${at(rule.field)} > 0` : ''}) || ${rule.filled ? `(${has(rule.needs)} && size(${at(rule.needs)}) > 0)` : has(rule.needs)}`;
    case 'ordered':
      return `${at(rule.high)} == -1 || (${at(rule.low)} != -1 && ${at(rule.low)} <= ${at(rule.high)})`;
    case 'together':
      return `(${has(rule.list)} && size(${at(rule.list)}) > 0) == (${has(rule.field)} && ${at(rule.field)} != '')`;
    case 'containsExcludes':
      return `!(${has(rule.field)} && ${at(rule.field)}.contains('${rule.part}') && ${has(rule.other)})`;
    case 'trueExcludesKeys':
      return `!(${has(rule.field)} && ${at(rule.field)} && ${has(rule.other)} && (${anyKey(rule)}))`;
    case 'equalsExcludesKeys':
      return `!(${has(rule.field)} && ${at(rule.field)} == '${rule.value}' && ${has(rule.other)} && (${anyKey(rule)}))`;
    case 'unlessEquals':
      return `(${has(rule.field)} && ${at(rule.field)} != '${rule.value}') == ${has(rule.needs)}`;
    case 'not':
      return `self != ${typeof rule.value === 'number' ? rule.value : `'${rule.value}'`}`;
    case 'unique':
      return `size(self) < 2 || self.all(a, ${isOnce(rule)})`;
    case 'beginsWith':
      return `size(self) == 0 || self[0] in [${rule.words.map((word) => `'${word}'`).join(', ')}]`;
    case 'immutableOnceSet':
      return `!${has(rule.field, 'oldSelf')} || (${has(rule.field)} && ${at(rule.field)} == ${at(rule.field, 'oldSelf')})`;
    case 'recorded': {
      const same = (a: string, b: string) =>
        `${has(rule.field, a)} == ${has(rule.field, b)} && (!${has(rule.field, a)} || ${at(rule.field, a)} == ${at(rule.field, b)})`;
      const isRecorded = `has(oldSelf.status) && ${has(rule.field, 'oldSelf.status')}`;
      const repeats = `!${has(rule.field, 'self.spec')} || ${at(rule.field, 'self.spec')} == ${at(rule.field, 'oldSelf.status')}`;
      return `(${same('self.spec', 'oldSelf.spec')}) || (${isRecorded} ? (${repeats}) : !${has(rule.field, 'oldSelf.spec')})`;
    }
    case 'immutable':
      return `${has(rule.field)} == ${has(rule.field, 'oldSelf')} && (!${has(rule.field)} || ${at(rule.field)} == ${at(rule.field, 'oldSelf')})`;
    case 'staysAtDestination':
      return `!${has(rule.field)} || !${has(rule.field, 'oldSelf')} || ${at(rule.field)} != ${at(rule.field, 'oldSelf')} || (${STAYS_WITHIN_CEL})`;
  }
  return rule satisfies never;
}

type Unique = Rule & { rule: 'unique' };

/** CEL of the values by which items are compared. */
const valuesOf = ({ by }: Unique, item: string) =>
  Object.entries(by).map(
    ([field, or]) => `(${has(field, item)} ? ${at(field, item)} : ${typeof or === 'number' ? or : `'${or}'`})`,
  );

/** CEL: whether no other item of the list agrees with the item `a`. */
function isOnce(rule: Unique): string {
  const others = valuesOf(rule, 'b');
  const same = valuesOf(rule, 'a').map((value, index) => `${value} == ${others[index]}`);
  return `self.exists_one(b, ${same.join(' && ')})`;
}

const anyKey = (rule: { other: string; keys: readonly string[] }) =>
  rule.keys.map((key) => has(key, at(rule.other))).join(' || ');

/** https://kubernetes.io/docs/reference/using-api/cel/#escaping */
function escapeCel(field: string): string {
  return field
    .replaceAll('__', '__underscores__')
    .replaceAll('.', '__dot__')
    .replaceAll('-', '__dash__')
    .replaceAll('/', '__slash__');
}

/** Key of the zod metadata under which structural.ts finds the rules of an object. */
export const RULES = 'x-skerry-rules';

/** Attaches rules to an object schema: as a zod check, and as metadata for the CEL rules of the CRD. */
export function withRules<T extends z.ZodType<Fields>>(schema: T, rules: readonly Rule[]): T {
  return schema
    .superRefine((value, context) => {
      for (const rule of rules) {
        if (obeys(rule, value)) continue;
        const field = 'field' in rule ? rule.field : rule.rule === 'unique' ? rule.list : undefined;
        const path = field !== undefined && field in value ? [field] : [];
        context.addIssue({ code: 'custom', message: messageOf(rule, value), path });
      }
    })
    .meta({ [RULES]: rules }) as unknown as T;
}
