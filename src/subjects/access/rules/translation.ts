import { AGENT_GROUP, GROUP } from '../../../api/names.ts';
import type { PolicyRule } from '../../../api/rbac.ts';
import { quoted } from '../../../rules/document.ts';
import { invalid } from '../../../rules/errors.ts';
import { AGENT_WORDS, V3_VERBS, WORD_ALIASES, WORDS } from './words.ts';

/**
 * Rules of v3 roles as rules of the cluster, and back (docs/access.md#words-of-v3-roles). In the group `""` a rule has the words of
 * v3; in our own API group it has our resources and verbs, so that every rule of ours can be said.
 */

/** A rule of a v3 role. */
export interface V3Rule {
  apiGroups: readonly string[];
  resources: readonly string[];
  verbs: readonly string[];
  resourceNames?: readonly string[];
}

export interface RoleTranslation {
  /** Throws for what cannot be said: another API group, an unknown word or verb, a pattern among names. Patterns are expanded. */
  toNative(rules: readonly V3Rule[]): PolicyRule[];
  toV3(rules: readonly PolicyRule[]): V3Rule[];
}

/** The resources of our API group with the verbs that a role can permit for them. */
export type KnownResources = ReadonlyMap<string, readonly string[]>;

export const AGENT_API = `${AGENT_GROUP}/v1`;
/** The API group of the controller in v3 rules. */
const V3_GROUP = '';
/** How the core group of the cluster is shown, whose name means our group in v3. */
const CORE = 'core';

/** Verbs by resource. */
type Verbs = Map<string, Set<string>>;

const VERB_WORDS: readonly string[] = [...V3_VERBS, 'bind'];

const refused = (field: string, why: string) => invalid(`${field}: ${why}`, field, 'ROLE_RULE_NOT_SUPPORTED');

export function createTranslation(known: KnownResources): RoleTranslation {
  const order = [...known.keys()];

  /** What a word and a verb of v3 give; none where the verb means nothing for the word. */
  const given = onceForEach((word: string, verb: string): Verbs => {
    const { resources = {}, parts = [] } = WORDS[word] ?? {};
    const verbs: Verbs = new Map();
    const give = (resource: string, ones: readonly string[]) => {
      const possible = ones.filter((one) => known.get(resource)?.includes(one));
      if (possible.length > 0) verbs.set(resource, new Set([...(verbs.get(resource) ?? []), ...possible]));
    };
    for (const [resource, map] of Object.entries(resources)) {
      if (verb === '*') give(resource, known.get(resource) ?? []);
      else if (map !== 'same') give(resource, map[verb] ?? []);
      else give(resource, verb === 'list' ? ['list', 'watch'] : [verb]);
    }
    if (verb === '*') for (const part of parts) give(part, known.get(part) ?? []);
    return verbs;
  });

  /** The names that a list of words and patterns means; `*` alone is kept. */
  function meant(list: readonly string[], names: readonly string[], what: string, field: string): string[] {
    const found = new Set<string>();
    for (const [index, one] of list.entries()) {
      const isPattern = one.includes('*') && one !== '*';
      const matching = one === '*' ? ['*'] : names.filter((name) => (isPattern ? matches(one, name) : name === one));
      if (matching.length === 0) throw refused(`${field}[${index}]`, `${quoted(one)} is no ${what}`);
      for (const name of matching) found.add(name);
    }
    return [...found];
  }

  function ofOurs(rule: V3Rule, field: string): PolicyRule[] {
    const words = Object.keys(WORDS);
    const resources = meant(
      rule.resources.map((word) => WORD_ALIASES[word] ?? word),
      words,
      'resource of v3 roles',
      `${field}.resources`,
    );
    const verbs = meant(rule.verbs, VERB_WORDS, `verb: use ${V3_VERBS.join(', ')} or *`, `${field}.verbs`);
    if (resources.includes('*') && verbs.includes('*')) return grouped(new Map(known), rule.resourceNames);
    const all: Verbs = new Map();
    for (const word of resources.includes('*') ? words : resources)
      for (const verb of verbs.includes('*') ? ['*'] : verbs) addAll(all, given(word, verb));
    return grouped(all, rule.resourceNames);
  }

  /** In our own API group a rule has our words: only patterns are expanded, so that no `*` is stored. */
  function ofGroup(rule: V3Rule, field: string): PolicyRule[] {
    const resources = meant(rule.resources, order, `resource of ${GROUP}`, `${field}.resources`);
    const every = [...new Set(order.flatMap((resource) => known.get(resource) ?? []))];
    const verbs = meant(rule.verbs, every, `verb of ${GROUP}`, `${field}.verbs`);
    const all: Verbs = new Map();
    for (const resource of resources.includes('*') ? order : resources) {
      const possible = (known.get(resource) ?? []).filter((verb) => verbs.includes('*') || verbs.includes(verb));
      if (possible.length > 0) addAll(all, new Map([[resource, new Set(possible)]]));
      else if (!resources.includes('*'))
        throw refused(`${field}.verbs`, `${resource} has only ${(known.get(resource) ?? []).join(', ')}`);
    }
    return grouped(all, rule.resourceNames);
  }

  function ofAgents({ resourceNames, ...rule }: V3Rule, field: string): PolicyRule[] {
    const resources = meant(rule.resources, AGENT_WORDS, `resource of ${AGENT_API}`, `${field}.resources`);
    const verbs = meant(rule.verbs, V3_VERBS, `verb: use ${V3_VERBS.join(', ')} or *`, `${field}.verbs`);
    return [
      {
        apiGroups: [AGENT_API],
        resources: resources.includes('*') ? ['*'] : resources,
        verbs: verbs.includes('*') ? ['*'] : verbs,
        ...(resourceNames?.length && { resourceNames }),
      },
    ];
  }

  /** Resources with the same verbs together. */
  function grouped(
    verbs: ReadonlyMap<string, Iterable<string>>,
    resourceNames: readonly string[] | undefined,
  ): PolicyRule[] {
    const byVerbs = new Map<string, string[]>();
    for (const resource of order) {
      const ones = new Set(verbs.get(resource));
      const list = (known.get(resource) ?? []).filter((verb) => ones.has(verb)).join(' ');
      if (list) byVerbs.set(list, [...(byVerbs.get(list) ?? []), resource]);
    }
    return [...byVerbs].map(([list, resources]) => ({
      apiGroups: [GROUP],
      resources,
      verbs: list.split(' '),
      ...(resourceNames?.length && { resourceNames }),
    }));
  }

  function oneToNative(rule: V3Rule, field: string): PolicyRule[] {
    requireNames(rule, field);
    const groups = groupsOf(rule.apiGroups, `${field}.apiGroups`);
    const translations = groups.map((group) => ({ [V3_GROUP]: ofOurs, [GROUP]: ofGroup })[group] ?? ofAgents);
    if (translations.length === 1) return translations.flatMap((translate) => translate(rule, field));
    // Of several groups each has its own words: a word has to be one of a group.
    const native: PolicyRule[] = [];
    for (const [index, resource] of rule.resources.entries()) {
      const failures: unknown[] = [];
      for (const translate of translations)
        try {
          native.push(...translate({ ...rule, resources: [resource] }, field));
        } catch (error) {
          failures.push(error);
        }
      if (failures.length === translations.length)
        throw refused(
          `${field}.resources[${index}]`,
          `${quoted(resource)} with these verbs is no resource of v3 roles`,
        );
    }
    return native;
  }

  function toV3(rules: readonly PolicyRule[]): V3Rule[] {
    const foreign: V3Rule[] = [];
    const whole: V3Rule[] = [];
    /** of our API group, by the names that they are limited to */
    const ours = new Map<string, Verbs>();
    for (const { apiGroups, resources, verbs, resourceNames: names = [] } of rules) {
      const limited = names.length > 0 && { resourceNames: [...names].sort() };
      const isOurs = apiGroups.some((group) => group === GROUP || group === '*');
      if (isOurs && resources.includes('*') && verbs.includes('*'))
        whole.push({ apiGroups: [V3_GROUP], resources: ['*'], verbs: ['*'], ...limited });
      else if (isOurs) {
        const key = JSON.stringify([...names].sort());
        const all: Verbs = ours.get(key) ?? new Map();
        ours.set(key, all);
        for (const resource of resources.includes('*') ? order : resources)
          addAll(all, new Map([[resource, new Set(verbs.includes('*') ? (known.get(resource) ?? ['*']) : verbs)]]));
      }
      const others = apiGroups.filter((group) => group !== GROUP && !(isOurs && group === '*'));
      const shown = others.map((group) => (group === '' ? CORE : group));
      if (shown.length > 0) foreign.push({ apiGroups: shown, resources, verbs, ...limited });
    }
    const said = [...ours].flatMap(([key, verbs]) => {
      const names = JSON.parse(key) as string[];
      return inWords(verbs).map((rule) => ({ ...rule, ...(names.length > 0 && { resourceNames: names }) }));
    });
    return [...whole, ...said, ...foreign];
  }

  /** The words of v3 that say exactly this, and what they leave over in our own words. */
  function inWords(verbs: Verbs): V3Rule[] {
    const left: Verbs = new Map([...verbs].map(([resource, ones]) => [resource, new Set(ones)]));
    const byVerbs = new Map<string, string[]>();
    const has = (part: Verbs) =>
      part.size > 0 && [...part].every(([resource, ones]) => [...ones].every((one) => verbs.get(resource)?.has(one)));
    for (const word of Object.keys(WORDS)) {
      const all = given(word, '*');
      const hasParts = (WORDS[word]?.parts ?? []).length > 0;
      const said = hasParts && has(all) ? ['*'] : VERB_WORDS.filter((verb) => has(given(word, verb)));
      if (said.length === 0) continue;
      const list = said.join(' ');
      byVerbs.set(list, [...(byVerbs.get(list) ?? []), word]);
      for (const verb of said)
        for (const [resource, ones] of given(word, verb)) for (const one of ones) left.get(resource)?.delete(one);
    }
    const words = [...byVerbs].map(([list, resources]) => ({
      apiGroups: [V3_GROUP],
      resources,
      verbs: list.split(' '),
    }));
    const own = new Map<string, string[]>();
    for (const [resource, ones] of left) {
      if (ones.size === 0) continue;
      const list = [...ones].join(' ');
      own.set(list, [...(own.get(list) ?? []), resource]);
    }
    return [
      ...words,
      ...[...own].map(([list, resources]) => ({ apiGroups: [GROUP], resources, verbs: list.split(' ') })),
    ];
  }

  return {
    toNative: (rules) => rules.flatMap((rule, index) => oneToNative(rule, `rules[${index}]`)),
    toV3,
  };
}

function groupsOf(apiGroups: readonly string[], field: string): string[] {
  const found = new Set<string>();
  for (const [index, one] of apiGroups.entries()) {
    const named = one === AGENT_GROUP ? AGENT_API : one;
    const matching =
      one === '*' ? [V3_GROUP, AGENT_API] : [V3_GROUP, GROUP, AGENT_API].filter((group) => matches(named, group));
    if (matching.length === 0)
      throw refused(`${field}[${index}]`, `${quoted(one)}; must be "", ${GROUP} or ${AGENT_API}`);
    for (const group of matching) found.add(group);
  }
  return [...found];
}

/** The cluster compares names as they are. */
function requireNames({ resourceNames = [] }: V3Rule, field: string): void {
  const at = resourceNames.findIndex((name) => name.includes('*'));
  if (at < 0) return;
  throw refused(`${field}.resourceNames[${at}]`, `${quoted(resourceNames[at])}: names of objects have no "*"`);
}

/** Whether a name fits a pattern in which `*` is any text. Linear in both. */
function matches(pattern: string, name: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) return pattern === name;
  if (!name.startsWith(first)) return false;
  let from = first.length;
  for (const part of rest) {
    const at = name.indexOf(part, from);
    if (at < 0) return false;
    from = at + part.length;
  }
  return name.length - last.length >= from && name.endsWith(last);
}

function addAll(to: Verbs, from: ReadonlyMap<string, Iterable<string>>): void {
  for (const [resource, verbs] of from) to.set(resource, new Set([...(to.get(resource) ?? []), ...verbs]));
}

function onceForEach<T>(make: (word: string, verb: string) => T): (word: string, verb: string) => T {
  const made = new Map<string, T>();
  return (word, verb) => {
    const key = `${word} ${verb}`;
    const value = made.get(key) ?? make(word, verb);
    made.set(key, value);
    return value;
  };
}
