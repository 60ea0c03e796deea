import { destinationOf, staysWithin } from '../../../api/destination.ts';
import { ANNOTATIONS, BUILT_IN_REGISTRIES } from '../../../api/names.ts';
import { type MicroserviceEntry, type Registry, type RegistrySpec, registrySpecSchema } from '../../../api/v3/index.ts';
import { requireUnchanged } from '../../../rules/document.ts';
import { DomainError, invalid } from '../../../rules/errors.ts';
import { registryId } from '../../../rules/identity.ts';
import type { Find } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import { normalReference } from '../../../rules/normal-entry.ts';
import { formatPath, validated } from '../../../rules/validate.ts';
import type { Verdict } from '../../../rules/verdict.ts';

/** A registry in its normal form: with an id, aliases resolved. */
export interface NormalRegistry {
  id: number;
  name: string;
  url: string;
  isPublic: boolean;
  username: string;
  email: string;
  type: 'oci' | 'hub';
  ca: string;
  insecure: boolean;
}

/** The two registries that exist from the start, as the reconciler creates them; REST and kubectl may not change them. */
export const BUILT_INS: readonly { name: string; spec: RegistrySpec }[] = [
  {
    name: BUILT_IN_REGISTRIES.remote.name,
    spec: {
      id: BUILT_IN_REGISTRIES.remote.id,
      url: 'docker.io',
      isPublic: true,
      type: 'oci',
      insecure: false,
    },
  },
  {
    name: BUILT_IN_REGISTRIES.local.name,
    spec: { id: BUILT_IN_REGISTRIES.local.id, url: 'from_cache', isPublic: true, type: 'oci', insecure: false },
  },
];

const BUILT_IN_IDS: ReadonlySet<number | undefined> = new Set(BUILT_INS.map(({ spec }) => spec.id));

/** True for ids 1 and 2. */
export function isBuiltIn(registry: Registry): boolean {
  return BUILT_IN_IDS.has(registryId(registry));
}

/** Whether a registry stands for the images that a node has: nothing can be pulled from it. */
export const isNodeCache = (registry: Registry): boolean => registryId(registry) === BUILT_IN_REGISTRIES.local.id;

/**
 * Whether REST has not completed the creation of the registry. The annotation has no effect on a registry that has a number
 * or is built in, whichever client set it.
 */
export const isDraft = (registry: Registry): boolean =>
  registry.metadata.annotations?.[ANNOTATIONS.draft] !== undefined &&
  registryId(registry) === undefined &&
  !BUILT_INS.some(({ name }) => name === registry.metadata.name);

/**
 * The registry that a reference names: a number or digits are an id, other text a name; absent: the public hub. Of two
 * with one name or id, the older one counts. The built-in ones are found even before the reconciler has made their objects.
 */
export function resolveRegistry(find: Find, reference: number | string | undefined): Registry | undefined {
  const ref = refOf(reference);
  const oldest = find('registries', ref);
  if (oldest) return oldest;
  const builtIn = BUILT_INS.find(({ name, spec }) => ref === spec.id || ref === name);
  return builtIn && { apiVersion: '', kind: 'Registry', metadata: { name: builtIn.name }, spec: builtIn.spec };
}

const refOf = (reference: number | string | undefined) => normalReference(reference) ?? BUILT_IN_REGISTRIES.remote.id;

/** The references by which an entry uses registries; one from a catalog has none. */
export const registryRefsOf = ({ images }: MicroserviceEntry): readonly (number | string)[] =>
  normalReference(images?.catalogId) ? [] : [refOf(images?.registry)];

/** One spelling per field; absent while the registry has no id. */
export function normalRegistry(registry: Registry): NormalRegistry | undefined {
  const { url, isPublic, username, email, type, ca, insecure } = registry.spec;
  const id = registryId(registry);
  if (id === undefined) return undefined;
  return {
    id,
    name: v3Name(registry),
    url,
    isPublic: isPublic ?? true,
    username: username ?? '',
    email: email ?? '',
    type: normalType(type),
    ca: ca ?? '',
    insecure: insecure ?? false,
  };
}

/** `hf` is another spelling of `hub`; oci when absent. */
export const normalType = (type: RegistrySpec['type'] | undefined): 'oci' | 'hub' =>
  type === 'hub' || type === 'hf' ? 'hub' : 'oci';

/** v3 read. It has a password only when one is passed; `PASSWORD_MASK` is for callers who may not read it. */
export function registryRead(registry: Registry, password?: string): Record<string, unknown> {
  const { url, isPublic, username, email, type, ca, insecure } = registry.spec;
  const id = registryId(registry);
  return {
    ...(id !== undefined && { id }),
    name: v3Name(registry),
    url,
    isPublic: isPublic ?? true,
    username: username ?? '',
    ...(password !== undefined && { password }),
    userEmail: email ?? '',
    type: normalType(type),
    ca: ca ?? '',
    insecure: insecure ?? false,
  };
}

/** The password in reads of callers who may not read it. */
export const PASSWORD_MASK = '***';

/** A write body as read; the password is separate, since it is stored in a Secret. `null` removes it. */
export interface RegistryWrite {
  spec: RegistrySpec;
  password?: string | null;
}

/** The registry of a create body. Throws DomainError. */
export function registryFromBody(body: unknown): RegistryWrite {
  const { fields, password } = fieldsOf(body);
  return { spec: checked(fields), ...(password !== undefined && { password }) };
}

/**
 * The spec after a PATCH body: absent fields stay, null removes. The credentials for the former destination are removed
 * when the destination widens, unless the same body has them. Throws DomainError, also for the built-in registries.
 */
export function patchRegistry(registry: Registry, body: unknown): RegistryWrite {
  if (isBuiltIn(registry)) throw builtInError(registry);
  const { fields, password } = fieldsOf(body);
  const { name, id, ...rest } = fields;
  requireUnchanged('name', name, v3Name(registry));
  requireUnchanged('id', id, registryId(registry));
  // A number from before ids had a bound stays stored and has no effect.
  const { id: stored, ...former } = registry.spec;
  const spec = { ...checked({ ...former, ...rest }), ...(stored !== undefined && { id: stored }) };
  if (password !== undefined) return { spec, password };
  if (staysWithin(destinationOf(spec), destinationOf(registry.spec))) return { spec };
  return { spec: { ...spec, username: rest.username === undefined ? undefined : spec.username }, password: null };
}

/** Whether a change has taken credentials from a registry because they were for another destination. */
export function credentialsLost({ spec: before }: Registry, { spec: after }: Registry): boolean {
  if (staysWithin(destinationOf(after), destinationOf(before))) return false;
  const isLost = (field: 'username' | 'passwordSecretRef') => Boolean(before[field]) && !after[field];
  return isLost('username') || isLost('passwordSecretRef');
}

/** Refusal to change or delete a built-in registry. */
export function builtInError(registry: Registry): DomainError {
  return new DomainError(
    400,
    'REGISTRY_IS_SYSTEM',
    `registry ${registryId(registry)} (${v3Name(registry)}) is built in and cannot be changed or deleted`,
  );
}

/** Names in the REST body that differ from those in the spec. */
function fieldsOf(body: unknown): { fields: Record<string, unknown>; password?: string | null } {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw invalid('body: must be an object');
  const { userEmail, userName, password, passwordSecretRef: _, ...fields } = body as Record<string, unknown>;
  if (fields.email === undefined && userEmail !== undefined) fields.email = userEmail;
  if (fields.username === undefined && userName !== undefined) fields.username = userName;
  for (const key of ['email', 'username', 'ca', 'url', 'name', 'type'] as const)
    if (fields[key] === '') fields[key] = null;
  if (password === undefined || password === PASSWORD_MASK) return { fields };
  if (password === null || password === '') return { fields, password: null };
  if (typeof password !== 'string') throw invalid('password: must be text', 'password');
  return { fields, password };
}

function checked(fields: Record<string, unknown>): RegistrySpec {
  const result = validated(registrySpecSchema, fields, { tolerant: true });
  if (result.ok) {
    return { ...result.value, type: normalType(result.value.type) };
  }
  const field = formatPath(result.violation.path);
  throw invalid(field ? `${field}: ${result.violation.message}` : result.violation.message, field || undefined);
}

/** The verdict on a CA that is no base64 of a PEM text. */
export function caVerdict({ spec: { ca } }: Registry): Verdict | undefined {
  if (ca === undefined || ca === '') return undefined;
  if (/^[A-Za-z0-9+/=\s]+$/.test(ca) && Buffer.from(ca, 'base64').includes('-----BEGIN CERTIFICATE-----'))
    return undefined;
  return {
    reason: 'CaInvalid',
    status: 400,
    code: 'REGISTRY_CA_INVALID',
    field: 'ca',
    message: 'ca: must be the base64 form of a PEM bundle of certificates',
  };
}
