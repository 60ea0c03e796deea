import { GROUP } from '../../api/names.ts';
import type { NativeRole, NativeRoleBinding, PolicyRule } from '../../api/rbac.ts';
import { roleNameOf } from '../../subjects/access/rules/names.ts';
import type { SubjectNames } from '../../subjects/access/rules/v3-binding.ts';
import type { Attributes, Caller, Grants, Verb } from '../contract/access.ts';
import type { Objects } from '../contract/dependencies.ts';
import { forbidden } from '../contract/errors.ts';
import { ROLE_NAMES, rulesOf } from './roles.ts';

/** Questions to the cluster at the same time. */
const AT_ONCE = 16;

interface Stored {
  roles: Pick<Objects<NativeRole>, 'list'>;
  roleBindings: Pick<Objects<NativeRoleBinding>, 'list'>;
  subjects: SubjectNames;
}

/** Nobody gives more than they have (docs/access.md#nobody-gives-more-than-they-have). */
export function createGrants({ roles, roleBindings, subjects }: Stored): Grants {
  async function requireMayGrant(caller: Caller, rules: readonly PolicyRule[], field: string): Promise<void> {
    if (await caller.may({ resource: 'roles', verb: 'escalate' })) return;
    const asked = rules.flatMap(permissionsOf);
    for (let from = 0; from < asked.length; from += AT_ONCE) {
      const some = asked.slice(from, from + AT_ONCE);
      const answers = await Promise.all(some.map((one) => has(caller, one)));
      const missing = some[answers.indexOf(false)];
      if (!missing) continue;
      const { group, resource, verb } = missing.attributes;
      throw forbidden(
        `${field}: ${caller.identity?.name ?? ''} may not ${verb} ${resource} in the API group ${group ?? GROUP}, and nobody gives more than they have`,
      );
    }
  }

  async function requireMayBindRole(caller: Caller, role: string, field: string): Promise<void> {
    const permission = { resource: 'roles', verb: 'bind' } as const;
    if ((await caller.may(permission)) || (await caller.may({ ...permission, name: role }))) return;
    await requireMayGrant(caller, rulesOfRole(role), field);
  }

  function rulesOfRole(name: string): readonly PolicyRule[] {
    const own = ROLE_NAMES.find((one) => one === name);
    return own ? rulesOf(own) : (roles.list().find(({ metadata }) => metadata.name === name)?.rules ?? []);
  }

  return {
    requireMayGrant,
    requireMayBindRole,
    async requireNotStronger(caller, { email, groups }) {
      const permission = { resource: 'authgroups', verb: 'bind' } as const;
      if (!(await caller.may(permission)))
        for (const name of groups)
          if (!(await caller.may({ ...permission, name })))
            throw forbidden(
              `groups: ${caller.identity?.name ?? ''} may not bind authgroups "${name}" in the API group of this controller`,
            );
      const called = subjects.prefix ? `${subjects.prefix}:${email}` : email;
      for (const { roleRef, subjects: bound } of roleBindings.list())
        if (roleRef.kind === 'Role' && bound?.some(({ kind, name }) => kind === 'User' && name === called))
          await requireMayBindRole(caller, roleNameOf(roleRef.name), 'email');
    },
  };
}

interface Asked {
  attributes: Attributes;
  names: readonly string[];
}

const permissionsOf = ({ apiGroups, resources, verbs, resourceNames = [] }: PolicyRule): Asked[] =>
  apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      verbs.map((verb) => ({
        attributes: { ...(group !== GROUP && { group }), resource, verb: verb as Verb },
        names: resourceNames,
      })),
    ),
  );

async function has(caller: Caller, { attributes, names }: Asked): Promise<boolean> {
  if (await caller.may(attributes)) return true;
  if (names.length === 0) return false;
  for (const name of names) if (!(await caller.may({ ...attributes, name }))) return false;
  return true;
}
