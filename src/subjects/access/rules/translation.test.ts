import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { PolicyRule } from '../../../api/rbac.ts';
import { knownResources } from '../../../rest/access/roles.ts';
import { createTranslation, type V3Rule } from './translation.ts';
import { V3_VERBS, WORD_ALIASES, WORDS } from './words.ts';

const known = knownResources();
const { toNative, toV3 } = createTranslation(known);
const rule = (resources: string[], verbs: string[], more: Partial<V3Rule> = {}): V3Rule => ({
  apiGroups: [''],
  resources,
  verbs,
  ...more,
});

/** What rules permit, one permission a line. */
function permissions(rules: readonly PolicyRule[]): string[] {
  const found = rules.flatMap(({ apiGroups, resources, verbs, resourceNames = [] }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        verbs.flatMap((verb) =>
          (resourceNames.length > 0 ? resourceNames : ['any']).map((name) => `${group} ${verb} ${resource} ${name}`),
        ),
      ),
    ),
  );
  return [...new Set(found)].sort();
}
const given = (...rules: V3Rule[]) =>
  permissions(toNative(rules)).map((one) => one.replace(/^skerry\.dev /, '').replace(/ any$/, ''));

describe('a rule of a v3 role', () => {
  test.each<[string, string[], string[], string[]]>([
    ['a plain word', ['applications'], ['get'], ['get applications']],
    ['a list also follows changes', ['registries'], ['list'], ['list registries', 'watch registries']],
    ['a word with another resource', ['catalog'], ['create'], ['create catalogitems']],
    ['the former word for nodes', ['fogs'], ['get'], ['get edgenodes']],
    [
      'a change of a node, which also orders actions',
      ['nodes'],
      ['patch'],
      ['create edgenodes/command', 'create edgenodes/reconcile', 'patch edgenodes'],
    ],
    ['a shell, whose socket is opened by a GET', ['execSessions'], ['get'], ['create microservices/exec']],
    ['logs', ['systemLogs'], ['get'], ['get edgenodes/log', 'get systemmicroservices/log']],
    [
      'certificates with their authorities',
      ['certificates'],
      ['delete'],
      ['delete certificateauthorities', 'delete certificates'],
    ],
    ['the router', ['router'], ['update'], ['update router']],
    ['the operator of the bus, by its former word', ['natsOperator'], ['update'], ['update busoperators']],
    ['a pattern of words', ['*Templates'], ['get'], ['get applicationtemplates', 'get microservicetemplates']],
    ['a pattern of verbs', ['events'], ['d*te'], ['delete events']],
    ['what every user may do', ['users'], ['*'], []],
  ])('says: %s', (_, resources, verbs, expected) => {
    expect(given(rule(resources, verbs))).toEqual(expected);
  });

  test('gives secret parts and provisioning keys with all verbs alone', () => {
    expect(given(rule(['secrets'], [...V3_VERBS]))).not.toContain('get secrets/data');
    expect(given(rule(['secrets'], ['*']))).toContain('get secrets/data');
    expect(given(rule(['nodes'], [...V3_VERBS]))).not.toContain('create edgenodes/provisioning-key');
    expect(given(rule(['nodes'], ['*']))).toContain('create edgenodes/provisioning-key');
  });

  test('with all verbs of everything gives every permission there is, each by its name', () => {
    const all = [...known].flatMap(([resource, verbs]) => verbs.map((verb) => `${verb} ${resource}`));
    expect(given(rule(['*'], ['*']))).toEqual(all.sort());
  });

  test('for both groups has the words of each', () => {
    const both = rule(['microservices', 'system/gps', 'nodes'], ['get'], { apiGroups: ['*'] });
    expect(permissions(toNative([both]))).toEqual([
      'agent.skerry.dev/v1 get microservices any',
      'agent.skerry.dev/v1 get system/gps any',
      'skerry.dev get edgenodes any',
      'skerry.dev get microservices any',
    ]);
  });

  test.each<[string, Partial<V3Rule>, string]>([
    ['the core group by its name', { apiGroups: ['core'] }, 'rules[0].apiGroups[0]'],
    ['the group of roles', { apiGroups: ['', 'rbac.authorization.k8s.io'] }, 'rules[0].apiGroups[1]'],
    ['a group like ours', { apiGroups: ['skerry.dev.evil'] }, 'rules[0].apiGroups[0]'],
    ['an unknown word', { resources: ['pods'] }, 'rules[0].resources[0]'],
    ['a pattern that fits no word', { resources: ['pod*'] }, 'rules[0].resources[0]'],
    ['an unknown verb', { verbs: ['get', 'impersonate'] }, 'rules[0].verbs[1]'],
    ['a pattern among names', { resourceNames: ['a', 'b*'] }, 'rules[0].resourceNames[1]'],
    ['escalate', { apiGroups: ['skerry.dev'], resources: ['roles'], verbs: ['escalate'] }, 'rules[0].verbs[0]'],
  ])('is refused with %s', (_, wrong, field) => {
    expect(() => toNative([rule(['applications'], ['get'], wrong)])).toThrow(
      expect.objectContaining({ code: 'ROLE_RULE_NOT_SUPPORTED', field }),
    );
  });

  test('that is stored names no wildcard of ours', () => {
    for (const group of ['', 'skerry.dev', '*'])
      for (const { apiGroups, resources, verbs } of toNative([rule(['*'], ['*'], { apiGroups: [group] })]))
        if (apiGroups[0] === 'skerry.dev') expect([...resources, ...verbs]).not.toContain('*');
  });
});

describe('rules of the cluster', () => {
  test('are shown in words of v3, and what these cannot say in our own', () => {
    const native = (resources: string[], verbs: string[]) => ({ apiGroups: ['skerry.dev'], resources, verbs });
    expect(toV3([native(['edgenodes', 'catalogitems'], ['get', 'list', 'watch'])])).toEqual([
      rule(['nodes', 'catalog'], ['get', 'list']),
    ]);
    expect(toV3([native(['certificates'], ['get'])])).toEqual([
      { apiGroups: ['skerry.dev'], resources: ['certificates'], verbs: ['get'] },
    ]);
    expect(toV3([native(['*'], ['*'])])).toEqual([rule(['*'], ['*'])]);
    expect(toV3([{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }])).toEqual([
      { apiGroups: ['core'], resources: ['pods'], verbs: ['get'] },
    ]);
  });

  const someOf = <T>(list: readonly T[]) =>
    fc.subarray([...list], { minLength: 1, maxLength: Math.min(6, list.length) });
  const names = fc.option(fc.subarray(['a', 'b', 'gw-1'], { minLength: 1 }), { nil: undefined });

  test('come back as they were, whatever they are', () => {
    const native = fc.tuple(someOf([...known.keys()]), names).chain(([resources, resourceNames]) =>
      someOf(resources.flatMap((one) => known.get(one) ?? [])).map((verbs) => ({
        apiGroups: ['skerry.dev'],
        resources,
        verbs,
        ...(resourceNames && { resourceNames }),
      })),
    );
    fc.assert(
      fc.property(fc.array(native, { maxLength: 4 }), (rules) => {
        const possible = permissions(rules).filter((one) => {
          const [, verb = '', resource = ''] = one.split(' ');
          return known.get(resource)?.includes(verb);
        });
        const kept = rules.flatMap((one) =>
          one.resources.map((resource) => ({
            ...one,
            resources: [resource],
            verbs: one.verbs.filter((verb) => known.get(resource)?.includes(verb)),
          })),
        );
        expect(permissions(toNative(toV3(kept)))).toEqual(possible);
      }),
      { numRuns: 300 },
    );
  });

  test('that rules of v3 gave are the same again after they were shown', () => {
    const v3 = fc.record({
      apiGroups: fc.constantFrom([''], ['*'], ['', 'agent.skerry.dev/v1']),
      resources: someOf([...Object.keys(WORDS), ...Object.keys(WORD_ALIASES), '*', 'bus*']),
      verbs: someOf([...V3_VERBS, '*']),
      resourceNames: names,
    });
    fc.assert(
      fc.property(fc.array(v3, { maxLength: 4 }), (rules) => {
        const native = toNative(rules as V3Rule[]);
        const again = permissions(toNative(toV3(native)));
        // A permission without names is one for any name.
        expect(again).toEqual(permissions(native));
      }),
      { numRuns: 300 },
    );
  });
});
