/** What roles and bindings of a namespace permit to whom, worked out from the objects. Pure, and without code of the product. */

interface Rule {
  apiGroups: readonly string[];
  resources: readonly string[];
  verbs: readonly string[];
  resourceNames?: readonly string[];
}
export interface RbacState {
  roles: readonly { metadata: { name: string }; rules?: readonly Rule[] | null }[];
  bindings: readonly {
    roleRef: { name: string };
    subjects?: readonly { kind: string; name: string }[] | null;
  }[];
  /** groups by the e-mail of a user, and the other names of a group by its name */
  members: ReadonlyMap<string, readonly string[]>;
}

interface Permission {
  group: string;
  resource: string;
  verb: string;
  /** every object when absent */
  name?: string;
}

const covers = (had: Permission, asked: Permission): boolean =>
  (had.group === '*' || had.group === asked.group) &&
  (had.resource === '*' || had.resource === asked.resource) &&
  (had.verb === '*' || had.verb === asked.verb) &&
  (had.name === undefined || had.name === asked.name);

export const isCovered = (asked: Permission, had: readonly Permission[]): boolean =>
  had.some((one) => covers(one, asked));

const textOf = ({ group, resource, verb, name }: Permission) =>
  `${verb} ${resource}.${group}${name === undefined ? '' : `/${name}`}`;

const permissionsOfRules = (rules: readonly Rule[]): Permission[] =>
  rules.flatMap(({ apiGroups, resources, verbs, resourceNames }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        verbs.flatMap((verb) =>
          (resourceNames?.length ? resourceNames : [undefined]).map((name) => ({
            ...{ group, resource, verb },
            ...(name !== undefined && { name }),
          })),
        ),
      ),
    ),
  );

export function createRbacModel({ roles, bindings, members }: RbacState, prefix: string) {
  const ofRole = new Map(roles.map(({ metadata, rules }) => [metadata.name, permissionsOfRules(rules ?? [])]));
  const boundTo = (kind: string, name: string): Permission[] =>
    bindings
      .filter(({ subjects }) => subjects?.some((one) => one.kind === kind && one.name === `${prefix}:${name}`))
      .flatMap(({ roleRef }) => ofRole.get(roleRef.name) ?? []);
  const ofGroup = (name: string) => boundTo('Group', name);
  const ofUser = (email: string): Permission[] => [
    ...boundTo('User', email),
    ...(members.get(email) ?? []).flatMap(ofGroup),
  ];

  /** What somebody may give: what they have, and what the roles and groups permit that they may bind. */
  function mayGive(email: string): Permission[] {
    const own = ofUser(email);
    const binds = (group: string, resource: string, name: string) =>
      isCovered({ group, resource, verb: 'bind', name }, own);
    const ofRoles = [...ofRole].flatMap(([name, permissions]) => {
      const called = name.replace(/^skerry-/, '');
      const isOurs = binds('skerry.dev', 'roles', called) || binds('rbac.authorization.k8s.io', 'roles', name);
      return isOurs ? permissions : [];
    });
    const groups = new Set(
      bindings.flatMap(({ subjects }) =>
        (subjects ?? []).flatMap(({ kind, name }) => (kind === 'Group' ? [name.slice(prefix.length + 1)] : [])),
      ),
    );
    const ofGroups = [...groups].flatMap((name) => (binds('skerry.dev', 'authgroups', name) ? ofGroup(name) : []));
    return [...own, ...ofRoles, ...ofGroups];
  }

  const subjects = () => [
    ...[...members.keys()].map((name) => ({ name, has: ofUser(name) })),
    ...bindings.flatMap(({ subjects: bound }) =>
      (bound ?? []).flatMap(({ kind, name }) => {
        const own = name.slice(prefix.length + 1);
        if (kind === 'Group') return [{ name: `group ${own}`, has: ofGroup(own) }];
        return members.has(own) ? [] : [{ name: own, has: ofUser(own) }];
      }),
    ),
  ];
  return { ofUser, ofGroup, mayGive, subjects };
}

type RbacModel = ReturnType<typeof createRbacModel>;

/** What subjects have after a change that they did not have before, and that is not among what the author may give. */
export function givenTooMuch(before: RbacModel, after: RbacModel, author: readonly Permission[]): string[] {
  const had = new Map(before.subjects().map(({ name, has }) => [name, has]));
  return after.subjects().flatMap(({ name, has }) => {
    const known = had.get(name) ?? [];
    return has
      .filter((one) => !isCovered(one, known) && !isCovered(one, author))
      .map((one) => `${name} may now ${textOf(one)}`);
  });
}
