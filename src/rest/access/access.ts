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

/** Who counts the tokens that somebody tries. */
export interface Guesses {
  /** Before somebody else is asked about a token; throws when that was done too often. */
  unknown(): void;
  /** It stood for nobody. */
  wrong(): void;
}

export interface Authenticator {
  /**
   * Whom a bearer token stands for, or undefined when it stands for nobody. Throws when that cannot be found out:
   * an unknown answer is never a refusal. `guesses` watches over tokens that nothing is remembered of.
   */
  authenticate(token: string, signal: AbortSignal, guesses?: Guesses): Promise<Identity | undefined>;
}

export interface Authorizer {
  /** Whether they may. Throws when that cannot be found out. */
  allowed(identity: Identity, attributes: Attributes, signal: AbortSignal): Promise<boolean>;
}
