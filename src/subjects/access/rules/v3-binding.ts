import { createHash } from 'node:crypto';
import { z } from 'zod';
import { BOUNDS } from '../../../api/bounds.ts';
import { ANNOTATIONS, LABELS } from '../../../api/names.ts';
import { type NativeRoleBinding, type NativeSubject, RBAC_GROUP, RBAC_VERSION } from '../../../api/rbac.ts';
import { atomicList, integer, object, oneOf, text } from '../../../api/schema.ts';
import { quoted } from '../../../rules/document.ts';
import { invalid } from '../../../rules/errors.ts';
import { byAge } from '../../../rules/precedence.ts';
import { CONTROLLER_SUBJECT, roleNameOf, roleObjectOf } from './names.ts';
import { idOfRbac } from './v3-role.ts';

/** A RoleBinding of the cluster as a role binding of the v3 API, and back. */

const apiGroup = text({ max: BOUNDS.name }).optional();
const roleRef = object({
  kind: oneOf('Role').optional(),
  name: text({ min: 1, max: BOUNDS.anyName }).describe('Name of the role'),
  apiGroup,
});
const subject = object({
  kind: oneOf('User', 'Group', 'ServiceAccount').describe('ServiceAccount: one of the cluster'),
  name: text({ min: 1, max: BOUNDS.anyName }).describe('Name of the user, group or service account'),
  namespace: text({ min: 1, max: 63 }).optional().describe('Of a service account; that of the controller when absent'),
  apiGroup,
});
const subjects = atomicList(subject, 256).min(1, 'must not be empty');
const name = text({ min: 1, max: BOUNDS.anyName }).describe('Lower-case name, unique');
const kind = oneOf('RoleBinding').optional();
const id = integer(1, BOUNDS.id).optional();

export const bindingBody = object({ name, kind, roleRef, subjects });
export const bindingChanges = object({
  name: name.optional(),
  kind,
  roleRef: roleRef.optional(),
  subjects: subjects.optional(),
  id,
});
export const bindingShape = z
  .looseObject({ id, name, kind: z.string(), roleRef: z.looseObject({}), subjects: z.array(z.looseObject({})) })
  .meta({ id: 'RoleBinding' });

type BindingBody = z.infer<typeof bindingBody>;
type Subject = BindingBody['subjects'][number];

/** What names of users and groups begin with in the cluster, and where its service accounts are. */
export interface SubjectNames {
  prefix: string;
  namespace: string;
}

/** The value of the label of bindings that the v3 API has. */
const BINDING = 'binding';

export const isV3Binding = ({ metadata }: NativeRoleBinding): boolean => metadata.labels?.[LABELS.rbac] === BINDING;

/** A binding that was put in the place of another one has the name of that one. */
export const bindingName = ({ metadata }: NativeRoleBinding): string =>
  metadata.annotations?.[ANNOTATIONS.name] ?? metadata.name;

export function readBinding(binding: NativeRoleBinding, names: SubjectNames) {
  const { kind, name } = binding.roleRef;
  return {
    ...idOfRbac(binding),
    name: bindingName(binding),
    kind: 'RoleBinding',
    roleRef: { kind, name: kind === 'Role' ? roleNameOf(name) : name },
    subjects: (binding.subjects ?? []).map((one) => shownSubject(one, names)),
  };
}

function shownSubject({ kind, name, namespace }: NativeSubject, names: SubjectNames): Subject {
  if (kind === 'ServiceAccount')
    return { kind, name, ...(namespace !== undefined && namespace !== names.namespace && { namespace }) };
  const prefix = names.prefix && `${names.prefix}:`;
  const isOurs = name.startsWith(prefix);
  return { kind: kind as Subject['kind'], name: isOurs ? name.slice(prefix.length) : name };
}

/** The subjects in the cluster. A subject that is shown as it was stays as it is, whoever wrote it. */
export function nativeSubjects(
  subjects: readonly Subject[],
  names: SubjectNames,
  before: readonly NativeSubject[] = [],
): NativeSubject[] {
  const key = ({ kind, name, namespace }: Subject) =>
    JSON.stringify([kind, kind === 'Group' ? name.toLowerCase() : name, namespace ?? '']);
  const stored = Map.groupBy(before, (one) => key(shownSubject(one, names)));
  const made = subjects.flatMap(
    (one, index) => stored.get(key(one)) ?? [nativeSubject(one, names, `subjects[${index}]`)],
  );
  return [...new Map(made.map((one) => [JSON.stringify([one.kind, one.name, one.namespace]), one])).values()];
}

function nativeSubject({ kind, name, namespace }: Subject, names: SubjectNames, field: string): NativeSubject {
  if (kind === 'ServiceAccount') {
    const at = namespace ?? names.namespace;
    if (name === CONTROLLER_SUBJECT && at === names.namespace)
      throw invalid(`${field}.name: ${quoted(name)}; this is the account of the controller itself`, `${field}.name`);
    return { kind, name, namespace: at };
  }
  if (namespace !== undefined)
    throw invalid(`${field}.namespace: only service accounts have a namespace`, `${field}.namespace`);
  const own = kind === 'Group' ? name.toLowerCase() : name;
  const full = names.prefix ? `${names.prefix}:${own}` : own;
  if (own.startsWith('system:') || full.startsWith('system:'))
    throw invalid(`${field}.name: ${quoted(name)}; names of the system cannot be bound`, `${field}.name`);
  return { kind, name: full, apiGroup: RBAC_GROUP };
}

export const nativeRoleRef = (name: string): NativeRoleBinding['roleRef'] => ({
  apiGroup: RBAC_GROUP,
  kind: 'Role',
  name: roleObjectOf(name),
});

export const newBinding = (
  name: string,
  labels: Record<string, string>,
  { roleRef, subjects }: Pick<NativeRoleBinding, 'roleRef' | 'subjects'>,
): NativeRoleBinding => ({
  apiVersion: RBAC_VERSION,
  kind: 'RoleBinding',
  metadata: { name, labels: { ...labels, [LABELS.rbac]: BINDING } },
  roleRef,
  subjects: subjects ?? [],
});

/** Room for a suffix behind the longest name. */
const SUFFIX = 9;

/**
 * The binding that takes the place of another one, since names and roles of bindings never change: the other one is deleted once this
 * one exists, so that access is never less. Its object has the same name whoever makes it and whatever it says: of two writers at the
 * same time one wins.
 */
export function replacementOf(
  before: NativeRoleBinding,
  after: { name: string; roleRef: NativeRoleBinding['roleRef']; subjects: readonly NativeSubject[] },
): NativeRoleBinding {
  const { uid = '', labels = {}, annotations = {} } = before.metadata;
  const suffix = createHash('sha256')
    .update(uid)
    .digest('hex')
    .slice(0, SUFFIX - 1);
  const made = newBinding(`${bindingName(before).slice(0, BOUNDS.name - SUFFIX)}-${suffix}`, labels, after);
  const notes = { ...annotations, [ANNOTATIONS.name]: after.name, [ANNOTATIONS.replaces]: uid };
  return { ...made, metadata: { ...made.metadata, annotations: notes } };
}

/** Objects in whose place no other one is yet. */
export function current<T extends { metadata: NativeRoleBinding['metadata'] }>(objects: readonly T[]): T[] {
  const replaced = new Set(objects.map(({ metadata }) => metadata.annotations?.[ANNOTATIONS.replaces]));
  return objects.filter(({ metadata }) => metadata.uid === undefined || !replaced.has(metadata.uid));
}

/** Of several objects with one name the object in the place of the others; at last the newest. */
export const newestOf = <T extends { metadata: NativeRoleBinding['metadata'] }>(objects: readonly T[]): T | undefined =>
  current(objects).sort(byAge).at(-1);
