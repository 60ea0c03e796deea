import type { Device } from '../../subjects/identity/rules/devices.ts';
import type { LoginSession } from '../../subjects/identity/rules/session.ts';
import type { LoginContext } from './login-context.ts';

/** An AuthUser with the content of its Secret. Immutable; `version` is the resourceVersion of the Secret. */
export interface StoredUser {
  uuid: string;
  email: string;
  /** in role bindings and tokens: a new e-mail, once every binding has it */
  name: string;
  groups: readonly string[];
  isBootstrap: boolean;
  mustChangePassword: boolean;
  mfaEnabled: boolean;
  createdAt: string;
  updatedAt: string;
  version: string;
  secrets: UserSecrets;
}

export interface UserSecrets {
  password?: { hash: string; history: readonly string[]; changedAt: number };
  /** a secret that is not enabled waits for its first code */
  mfa?: { secret: string; enabled: boolean; lastStep: number; recovery: readonly string[] };
  attempts: { failed: number; lockedUntil: number };
  /** the browser that last logged in, if any */
  devices: readonly Device[];
  reset?: { hash: string; expiresAt: number };
  sessions: readonly LoginSession[];
}

export interface UserFlags {
  mustChangePassword: boolean;
  isBootstrap: boolean;
}

/** What replicas know of a user without its Secret. */
export interface UserFacts extends UserFlags {
  email: string;
  name: string;
  groups: readonly string[];
  mfaEnabled: boolean;
  lockedUntil: number;
  passwordAt: number;
}

/** The members of the Secret to write: those that are left out stay, undefined removes one. */
export interface UserChange<R> {
  next?: { [K in keyof UserSecrets]?: UserSecrets[K] | undefined };
  flags?: Partial<UserFlags>;
  result: R;
}

/** The users. Every write is one PUT on condition of `version`. */
export interface UserStore {
  readonly synced: boolean;
  /** Live reads; undefined for unknown and deleted users. */
  byEmail(email: string, signal: AbortSignal): Promise<StoredUser | undefined>;
  byUuid(uuid: string, signal: AbortSignal): Promise<StoredUser | undefined>;
  /**
   * Reads live, lets `decide` say the next secrets, and writes them if nobody wrote in between; else reads and decides again.
   * `decide` is pure and may throw; without `next` and `flags` nothing is written. A user that this request has just read is not
   * read again, unless somebody wrote in between.
   */
  change<R>(
    user: string | StoredUser,
    decide: (user: StoredUser) => UserChange<R>,
    signal: AbortSignal,
  ): Promise<{ user: StoredUser; result: R; lost: number }>;
  /** Claims the e-mail, then creates the user and its Secret; 409 when another user has it. */
  create(
    user: {
      email: string;
      groups: readonly string[];
      hash: string;
      mustChangePassword: boolean;
      isBootstrap?: boolean;
    },
    signal: AbortSignal,
  ): Promise<StoredUser>;
  /** Gives the user another e-mail. The former one stays its own until the leader has moved what role bindings give to it. */
  rename(uuid: string, email: string, signal: AbortSignal): Promise<void>;
  /** Deletes the user; the leader frees the e-mail once no role binding names it. */
  remove(uuid: string, signal: AbortSignal): Promise<void>;
  /** From memory, for each request. */
  facts(uuid: string): UserFacts | undefined;
}

export interface Passwords {
  hash(password: string, signal: AbortSignal): Promise<string>;
  /** Without a hash: false, after the work of one. */
  verify(password: string, hash: string | undefined, signal: AbortSignal): Promise<boolean>;
  /** All violated rules, joined with "; ", or undefined. */
  problem(
    password: string,
    user: { secrets: UserSecrets } | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined>;
  temporary(): string;
}

export type AttemptDoor =
  | 'login'
  | 'totp'
  | 'interaction'
  | 'current-password'
  | 'mfa-confirm'
  | 'mfa-disable'
  | 'reset-token';

/** The only way to a hash or a code. */
export interface AccountLockout {
  /**
   * Takes one of the account's attempts by a conditional write, then runs `check`; success gives it back, and at the doors that ask for
   * everything (login, mfa-disable) resets, unless only a part was right and the rest was not sent. An unknown, locked or deleted account runs `dummy`. Resolves with the user, or undefined: the caller says the same words for every undefined.
   */
  attempt(
    who: { email: string } | { uuid: string },
    by: LoginContext,
    what: {
      check(user: StoredUser): Promise<boolean | 'in part'>;
      dummy(): Promise<void>;
      door: AttemptDoor;
      /** Pure: written together with the success. */
      commit?(user: StoredUser): UserChange<unknown>['next'];
    },
    signal: AbortSignal,
  ): Promise<StoredUser | undefined>;
}

/** Codes of an authenticator app, and recovery codes. A code is marked as used in the write that accepts it. */
export interface SecondFactor {
  begin(uuid: string, signal: AbortSignal): Promise<{ secret: string; otpauthUrl: string }>;
  confirm(uuid: string, code: string, signal: AbortSignal): Promise<{ recoveryCodes: string[] }>;
  use(user: StoredUser, code: string, signal: AbortSignal): Promise<boolean>;
  disable(uuid: string, signal: AbortSignal): Promise<void>;
}

/** Gives users passwords. Each change ends every login of the user, and the attempts and devices that were counted. */
export interface PasswordChange {
  /** 400 with every violated rule; `resetToken` is used up in the same write, or the change is refused with 401. */
  change(user: StoredUser, password: string, signal: AbortSignal, resetToken?: string): Promise<StoredUser>;
  /** The same by a reset token, which names its user; 401 when it is not live. */
  changeByToken(token: string, password: string, signal: AbortSignal): Promise<StoredUser>;
  /** A token of one use in place of the present password; the one before is void. `expiresIn`: seconds. */
  resetToken(uuid: string, signal: AbortSignal): Promise<{ token: string; expiresIn: number }>;
  /** A temporary password, which the user has to change. */
  reset(uuid: string, signal: AbortSignal): Promise<string>;
}
