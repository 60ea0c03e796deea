import type { PolicyRule } from '../../api/rbac.ts';

/** A rule of a role as v3 has it. */
export interface V3Rule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
  resourceNames?: string[];
}

export interface RoleTranslation {
  /**
   * Throws `invalid(field, why)`: foreign API group, unknown word, unknown verb, wildcard in resourceNames. Expands embedded `*` over
   * the known words.
   */
  toNative(rules: readonly V3Rule[]): PolicyRule[];
  toV3(rules: readonly PolicyRule[]): V3Rule[];
}
