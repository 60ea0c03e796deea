import { FIELD_MANAGERS } from '../../../api/names.ts';
import { type NativeRoleBinding, type NativeSubject, RBAC_GROUP, RBAC_RESOURCES } from '../../../api/rbac.ts';
import { ApiError, type KubeClient, type KubeObject, refOf, retryOnConflict } from '../../../kube/mod.ts';

/** Role bindings of the namespace that name users by e-mail, whoever made them. Each call reads them live. */
export interface NamedBindings {
  /** Every binding that names one of these users names the other one as well. Resolves with the names of bindings that refuse it. */
  add(email: string, beside: readonly string[], signal: AbortSignal): Promise<string[]>;
  /** No binding names these users. Resolves with the names of bindings that refuse it. */
  remove(emails: readonly string[], signal: AbortSignal): Promise<string[]>;
}

type Binding = KubeObject & NativeRoleBinding;

const resource = RBAC_RESOURCES.roleBindings;

export function createNamedBindings({
  client,
  namespace,
  prefix,
}: {
  client: KubeClient;
  namespace: string;
  /** of the names of users */
  prefix: string;
}): NamedBindings {
  const nameOf = (email: string) => (prefix === '' ? email : `${prefix}:${email}`);
  const namesAny = (names: ReadonlySet<string>, subjects: NativeRoleBinding['subjects']) =>
    (subjects ?? []).some(({ kind, name }) => kind === 'User' && names.has(name));

  async function each(
    emails: readonly string[],
    change: (subjects: readonly NativeSubject[], names: ReadonlySet<string>) => NativeSubject[],
    signal: AbortSignal,
  ): Promise<string[]> {
    const names = new Set(emails.map(nameOf));
    const refused: string[] = [];
    const { items } = await client.list(resource, { namespace, signal });
    for (const listed of items.filter(({ subjects }) => namesAny(names, subjects)) as Binding[])
      try {
        await edit(listed, (subjects) => change(subjects, names), signal);
      } catch (error) {
        // A role that permits more than the controller has, or a binding of the installation.
        if (!(error instanceof ApiError) || error.status !== 403) throw error;
        refused.push(listed.metadata.name);
      }
    return refused;
  }

  /** The binding as it was listed; after a conflict as it is. */
  async function edit(
    listed: Binding,
    change: (subjects: readonly NativeSubject[]) => NativeSubject[],
    signal: AbortSignal,
  ): Promise<void> {
    let known: NativeRoleBinding | undefined = listed;
    const attempt = async () => {
      const binding = known ?? (await client.find(resource, refOf(listed), { signal }));
      known = undefined;
      const before = binding?.subjects ?? [];
      const subjects = change(before);
      if (!binding || subjects.length === before.length) return;
      await client.replace(resource, { ...binding, subjects }, { signal, fieldManager: FIELD_MANAGERS.controller });
    };
    await retryOnConflict(attempt, { signal });
  }

  return {
    add(email, beside, signal) {
      const subject: NativeSubject = { apiGroup: RBAC_GROUP, kind: 'User', name: nameOf(email) };
      const own = new Set([subject.name]);
      return each(
        beside,
        (subjects, names) =>
          namesAny(names, subjects) && !namesAny(own, subjects) ? [...subjects, subject] : [...subjects],
        signal,
      );
    },
    remove: (emails, signal) =>
      each(
        emails,
        (subjects, names) => subjects.filter(({ kind, name }) => kind !== 'User' || !names.has(name)),
        signal,
      ),
  };
}
