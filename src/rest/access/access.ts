/** Who asks, as the cluster knows them. */
export interface Identity {
  name: string;
  uid?: string;
  groups: readonly string[];
  extra?: Readonly<Record<string, readonly string[]>>;
}

export type Verb = 'get' | 'list' | 'create' | 'update' | 'patch' | 'delete';

/** What is asked for: a resource of our API group (`edgenodes`, `edgenodes/provisioning-key`, `microservices`). */
export interface Attributes {
  resource: string;
  verb: Verb;
  /** The one object; absent for collections. */
  name?: string;
}

/** Limits attempts with unknown tokens. */
export interface Guesses {
  /** Before a token is reviewed; throws after too many refused ones. */
  unknown(): void;
  /** The review refused the token. */
  wrong(): void;
}

export interface Authenticator {
  /**
   * The identity of a bearer token, or undefined when it is not valid. Throws when the review fails:
   * an unknown answer is never a refusal. `guesses` watches over tokens that nothing is remembered of.
   */
  authenticate(token: string, signal: AbortSignal, guesses?: Guesses): Promise<Identity | undefined>;
}

export interface Authorizer {
  /** Whether they may. Throws when that cannot be found out. */
  allowed(identity: Identity, attributes: Attributes, signal: AbortSignal): Promise<boolean>;
}
