import type { LoginContext } from './login-context.ts';
import type { StoredUser } from './users.ts';

/** A bearer token that a verifier accepted. */
export interface VerifiedBearer {
  /** name and groups as roles have them: prefixed */
  user: {
    name: string;
    uid?: string;
    groups: readonly string[];
    extra?: Readonly<Record<string, readonly string[]>>;
  };
  /** the name people know, for the audit log */
  human: string;
  door: 'embedded' | 'external' | 'cluster';
  /** Unix milliseconds */
  expiresAt?: number;
  /** why nothing but the profile and the change of the password is permitted */
  gate?: 'PASSWORD_CHANGE_REQUIRED';
  /** of an embedded user: its uuid */
  subject?: string;
  claims?: Readonly<Record<string, unknown>>;
}

/** Limits attempts with unknown tokens; src/rest/contract/access.ts has the same. */
export interface TokenGuesses {
  unknown(subject?: string): void;
  wrong(): void;
}

/** The verifier of one issuer. */
export interface TokenVerifier {
  /** Undefined: not valid. Throws only when it cannot be said (503). */
  verify(token: string, signal: AbortSignal, guesses?: TokenGuesses): Promise<VerifiedBearer | undefined>;
}

/** Which verifier a token belongs to: src/rest/access/dispatch.ts asks. */
export interface Verifiers {
  /** by the exact text of `iss`; `refused`: no verifier may see its tokens */
  byIssuer(issuer: string): TokenVerifier | 'refused' | undefined;
  /** of tokens that name no known issuer: TokenReview */
  cluster: TokenVerifier;
}

export interface TokenPair {
  accessToken: string;
  refreshToken?: string;
}

/** A login before and after the write of its session. */
export interface BegunLogin {
  /** Pure: the sessions of the user with the new one, to be written. */
  sessions(user: StoredUser): StoredUser['secrets']['sessions'];
  /** The tokens of the session, which `user` has. */
  tokens(user: StoredUser): Promise<Required<TokenPair>>;
}

/** Mints tokens of the API and keeps their sessions in the Secret of the user. */
export interface TokenIssuer {
  issuer: string;
  audience: string;
  /** A login that counts once its session is written. Throws 503 without keys. */
  begin(): BegunLogin;
  /** Adds a session to the user's Secret before it returns. */
  login(user: StoredUser, by: LoginContext, signal: AbortSignal): Promise<Required<TokenPair>>;
  /** Throws 401 (INVALID_REFRESH_TOKEN), 403 or 503. `arrivedAt`: Unix ms at the listener. */
  refresh(token: string, by: LoginContext & { arrivedAt: number }, signal: AbortSignal): Promise<Required<TokenPair>>;
  /** Ends all sessions, provider sessions and grants of the user. */
  endAll(userUuid: string, why: 'logout' | 'password' | 'reset' | 'deleted', signal: AbortSignal): Promise<void>;
}
