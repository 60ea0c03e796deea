import type { Application, Registry, RegistrySpec } from '../../api/v3/index.ts';

/** A registry as its users see it: ids known, aliases resolved. */
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
export const BUILT_INS: readonly { name: string; spec: RegistrySpec }[] = [];

/** True for ids 1 and 2. */
export function isBuiltIn(_registry: Registry): boolean {
  throw new Error('not written yet');
}

/** The registry that a reference names: a number or digits are an id, other text a name; absent: the public hub. */
export function resolveRegistry(
  _registries: readonly Registry[],
  _ref: number | string | undefined,
): Registry | undefined {
  throw new Error('not written yet');
}

/** One spelling per field. */
export function normalRegistry(_registry: Registry): NormalRegistry | undefined {
  throw new Error('not written yet');
}

/** v3 read. The password is shown only when given. */
export function registryRead(_registry: Registry, _password?: string): Record<string, unknown> {
  throw new Error('not written yet');
}

/** What a write body asks for; the password is kept apart: it goes into a Secret. `null` removes it. */
export interface RegistryWrite {
  spec: RegistrySpec;
  password?: string | null;
}

export function registryFromBody(_body: unknown): RegistryWrite {
  throw new Error('not written yet');
}

/** The spec after a PATCH body. Throws DomainError, also for the built-in ones. */
export function patchRegistry(_registry: Registry, _body: unknown): RegistryWrite {
  throw new Error('not written yet');
}

/** Names `application/microservice` of the entries that use a registry, sorted. */
export function registryUsers(
  _registry: Registry,
  _registries: readonly Registry[],
  _applications: readonly Application[],
): string[] {
  throw new Error('not written yet');
}
