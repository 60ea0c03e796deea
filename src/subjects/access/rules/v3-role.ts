import { createHash } from 'node:crypto';
import { z } from 'zod';
import { BOUNDS } from '../../../api/bounds.ts';
import { ANNOTATIONS, LABELS } from '../../../api/names.ts';
import { type NativeRole, type PolicyRule, RBAC_VERSION } from '../../../api/rbac.ts';
import { atomicList, integer, object, oneOf, text } from '../../../api/schema.ts';
import { isObject } from '../../../rules/document.ts';
import { invalid } from '../../../rules/errors.ts';
import { canonicalJson } from '../../../wire/digest.ts';
import type { RoleTranslation, V3Rule } from './translation.ts';

/** A Role of the cluster as a role of the v3 API, and back. */

const words = atomicList(text({ max: BOUNDS.name }), 256).min(1, 'must not be empty');
const rule = object({
  apiGroups: words.describe('"" for the controller, agent.skerry.dev/v1 for the local API of agents'),
  resources: words.describe('Words of v3 roles; * is any text'),
  verbs: words.describe('get, list, create, update, patch, delete; * is any text'),
  resourceNames: atomicList(text({ min: 1, max: BOUNDS.anyName }), 256)
    .optional()
    .describe('Names or uuids of objects; all when absent'),
});
const rules = atomicList(rule, 64).min(1, 'must not be empty').describe('What the role permits');
const name = text({ min: 1, max: BOUNDS.anyName }).describe('Lower-case name, unique');
const kind = oneOf('Role').optional();
const id = integer(1, BOUNDS.id).optional();

export const roleBody = object({ name, kind, rules });
export const roleChanges = object({ name: name.optional(), kind, rules, id });
export const roleShape = z
  .looseObject({ id, name, kind: z.string(), rules: z.array(z.looseObject({})) })
  .meta({ id: 'Role' });

/** The value of the label of roles that the v3 API has. */
const ROLE = 'role';
/** The most bytes of the rules as they were written; an object of the cluster has room for 256 KiB of annotations. */
const TEXT_BYTES = 64 * 1024;

export const isV3Role = ({ metadata }: NativeRole): boolean => metadata.labels?.[LABELS.rbac] === ROLE;

export const idOfRbac = ({ metadata }: { metadata: NativeRole['metadata'] }): { id?: number } => {
  const number = Number(metadata.labels?.[LABELS.id]);
  return Number.isSafeInteger(number) && number > 0 ? { id: number } : {};
};

const digestOfRules = (native: readonly PolicyRule[]) =>
  createHash('sha256').update(canonicalJson(native)).digest('hex').slice(0, 32);

export function readRole(role: NativeRole, translation: RoleTranslation) {
  const rules = writtenRules(role) ?? translation.toV3(role.rules ?? []);
  return { ...idOfRbac(role), name: role.metadata.name, kind: 'Role', rules: rules.map((one) => ({ ...one })) };
}

/** The rules as they were written, unless somebody has changed the rules of the cluster since. */
function writtenRules({ metadata, rules }: NativeRole): V3Rule[] | undefined {
  try {
    const noted: unknown = JSON.parse(metadata.annotations?.[ANNOTATIONS.v3Rules] ?? '');
    if (!isObject(noted) || noted.of !== digestOfRules(rules ?? [])) return undefined;
    const written = z.array(rule).safeParse(noted.rules);
    return written.success ? (written.data as V3Rule[]) : undefined;
  } catch {
    return undefined;
  }
}

/** The role with other rules; `native` are the rules of the cluster. */
export function withV3Rules(role: NativeRole, written: readonly V3Rule[], native: readonly PolicyRule[]): NativeRole {
  const note = JSON.stringify({ of: digestOfRules(native), rules: written });
  if (Buffer.byteLength(note) > TEXT_BYTES) throw invalid(`rules: must have at most ${TEXT_BYTES} bytes`, 'rules');
  const annotations = { ...role.metadata.annotations, [ANNOTATIONS.v3Rules]: note };
  return { ...role, metadata: { ...role.metadata, annotations }, rules: native };
}

export const newRole = (name: string, labels: Record<string, string>): NativeRole => ({
  apiVersion: RBAC_VERSION,
  kind: 'Role',
  metadata: { name, labels: { ...labels, [LABELS.rbac]: ROLE } },
});
