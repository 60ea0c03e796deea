import type { PolicyRule } from '../../api/rbac.ts';

/** The caller, as the cluster identifies it. */
export interface UserInfo {
  name: string;
  uid?: string;
  groups: readonly string[];
  extra?: Readonly<Record<string, readonly string[]>>;
  /** the name people know, for the audit log; `name` when absent */
  human?: string;
  /** why only routes that are `ungated` serve the caller */
  gate?: 'PASSWORD_CHANGE_REQUIRED';
  /** of a user of this controller: its uuid */
  subject?: string;
}

/** The verbs of Kubernetes. `bind`: to give a role to others; `escalate`: to make roles that permit more than the caller may. */
export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'bind' | 'escalate' | '*';

/** The permission that is needed, for a resource of our API group (`edgenodes`, `edgenodes/provisioning-key`). */
export interface Attributes {
  /** the API group; ours when absent */
  group?: string;
  resource: string;
  verb: Verb;
  /** The name of the object; absent for collections. */
  name?: string;
}

/** Limits attempts with unknown tokens. */
export interface Guesses {
  /**
   * Called before a token is reviewed; throws after too many refused tokens. `subject`: what the token says of itself, when a
   * token that says the same was accepted lately.
   */
  unknown(subject?: string): void;
  /** Called when the review has refused the token. */
  wrong(): void;
}

export interface Authenticator {
  /**
   * The identity of a bearer token, or undefined when it is not valid. Throws when the review fails: a failed review is
   * never a refusal. `guesses` limits the attempts with tokens that are not cached.
   */
  authenticate(token: string, signal: AbortSignal, guesses?: Guesses): Promise<UserInfo | undefined>;
}

export interface Authorizer {
  /** Whether the identity has the permission. Throws when the review fails. */
  allowed(identity: UserInfo, attributes: Attributes, signal: AbortSignal): Promise<boolean>;
  /** Forgets what it knows: a role or a binding changed. */
  flush?(): void;
}

export interface Caller {
  /** Absent on public routes. */
  identity?: UserInfo;
  /** Whether the caller has a further permission. */
  may(attributes: Attributes): Promise<boolean>;
}

/** What a caller may give to others. Each method throws 403 that names the field. */
export interface Grants {
  requireMayGrant(caller: Caller, rules: readonly PolicyRule[], field: string): Promise<void>;
  requireMayBindRole(caller: Caller, role: string, field: string): Promise<void>;
  /** The caller may give what the user has by its groups and its name. */
  requireNotStronger(caller: Caller, user: { email: string; groups: readonly string[] }): Promise<void>;
}
