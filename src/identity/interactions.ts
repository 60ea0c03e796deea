import { randomBytes } from 'node:crypto';
import { HttpError } from '../http/http-error.ts';
import { loggedInBy } from '../subjects/identity/rules/devices.ts';
import type { Duties } from '../subjects/identity/rules/duties.ts';
import { normalEmail } from '../subjects/identity/rules/email.ts';
import { stepOf } from '../subjects/identity/rules/steps.ts';
import type { InteractionAction, InteractionState, Interactions } from './contract/interactions.ts';
import type { EmbeddedIssuer } from './contract/issuer.ts';
import type { LoginContext } from './contract/login-context.ts';
import type { Artefacts } from './contract/once.ts';
import type { LoginEvents, Strangers } from './contract/strangers.ts';
import type {
  AccountLockout,
  PasswordChange,
  Passwords,
  SecondFactor,
  StoredUser,
  UserStore,
} from './contract/users.ts';
import { wrongCode } from './second-factor.ts';
import { sha256 } from './secrets.ts';
import { beganHere } from './step-cookie.ts';

export interface InteractionsOptions {
  artefacts: Pick<Artefacts, 'read' | 'write' | 'remove'>;
  users: Pick<UserStore, 'byEmail' | 'byUuid' | 'change'>;
  lockout: AccountLockout;
  passwords: Pick<Passwords, 'verify'>;
  secondFactor: SecondFactor;
  issuer: Pick<EmbeddedIssuer, 'complete'>;
  strangers: Pick<Strangers, 'charge'>;
  events: LoginEvents;
  duties(user: StoredUser): Duties;
  passwordChange: Pick<PasswordChange, 'change'>;
  cookieKeys: () => readonly string[];
  /** Unix ms */
  now: () => number;
}

/** A step under way. */
interface Taken {
  uid: string;
  state: InteractionState;
  isForeign: boolean;
  by: LoginContext;
  signal: AbortSignal;
}

type Result = Awaited<ReturnType<Interactions['act']>>;
type Steps = {
  [To in InteractionAction['to']]: (taken: Taken, action: InteractionAction & { to: To }) => Promise<Result>;
};

const MODEL = 'Interaction';
/** Of writes that another step always precedes. */
const TRIES = 8;

/**
 * The steps of a login in the browser. They answer to the uid of the interaction alone. A client that did not begin it leaves a mark
 * in the same write, and then nobody can complete it: whoever sends others a link to a login of their own gets nothing.
 */
export function createInteractions(options: InteractionsOptions): Interactions {
  const { artefacts, users, lockout, passwords, passwordChange, secondFactor, issuer } = options;
  const { strangers, events, duties, now } = options;

  async function open(uid: string, signal: AbortSignal) {
    const found = await artefacts.read(MODEL, uid, signal);
    const state = (found?.payload.steps ?? {}) as InteractionState;
    if (!found || state.completed) throw expired();
    return { ...found, state };
  }

  /** The user who has logged in, as stored now. Without the user, or with another password, the interaction is over. */
  async function userOf(uid: string, { userUuid, passwordAt }: InteractionState, signal: AbortSignal) {
    if (userUuid === undefined) return undefined;
    const user = await users.byUuid(userUuid, signal);
    if (user?.secrets.password?.changedAt === passwordAt) return user;
    await artefacts.remove(MODEL, uid);
    throw expired();
  }

  async function requireUser(taken: Taken): Promise<StoredUser> {
    const user = await userOf(taken.uid, taken.state, taken.signal);
    if (!user) throw wrongStep('log in first');
    return user;
  }

  const next = (state: InteractionState, user: StoredUser | undefined) => stepOf(state, user && duties(user));

  /** Writes what a step has shown, beside what others wrote in between. */
  async function advance(
    { uid, isForeign, signal }: Taken,
    change: (state: InteractionState) => InteractionState,
  ): Promise<InteractionState> {
    for (let tries = 0; tries < TRIES; tries++) {
      const { payload, version, state } = await open(uid, signal);
      const steps = { ...change(state), ...((state.foreign || isForeign) && { foreign: true as const }) };
      const ttlSeconds = Number(payload.exp) - now() / 1_000;
      if ((await artefacts.write(MODEL, uid, { ...payload, steps }, ttlSeconds, { version })) === 'written')
        return steps;
    }
    throw new HttpError(503, 'CONTROLLER_NOT_READY', 'too many steps of this login at once; try again');
  }

  const record = ({ address, requestId }: LoginContext, human: string, ok: boolean) =>
    events.record({ what: 'login', human, ok, address, requestId });

  /** Adds to what the user has shown, unless another user has logged in since. */
  const show = (taken: Taken, user: StoredUser, shown: InteractionState) =>
    advance(taken, (state) => {
      if (state.userUuid !== user.uuid) throw wrongStep('another user has logged in');
      return { ...state, ...shown };
    });

  const steps: Steps = {
    async login(taken, { email, password }) {
      const { by, signal } = taken;
      const name = normalEmail(email);
      const user = await lockout.attempt(
        { email: name },
        by,
        {
          door: 'interaction',
          check: ({ secrets }) => passwords.verify(password, secrets.password?.hash, signal),
          dummy: async () => void (await passwords.verify(password, undefined, signal)),
        },
        signal,
      );
      if (!user) {
        // Names that nobody has are only counted: they may be passwords that were typed into the wrong field.
        if (await users.byEmail(name, signal)) record(by, name, false);
        throw wrongPassword();
      }
      const state = await advance(taken, () => shownBy(user));
      return { step: next(state, user) };
    },

    async mfa(taken, { code }) {
      const { by, signal } = taken;
      const { uuid, mfaEnabled } = await requireUser(taken);
      if (!mfaEnabled) throw new HttpError(400, 'MFA_NOT_ENABLED', 'the second factor is not enabled');
      const check = (user: StoredUser) => secondFactor.use(user, code, signal);
      const user = await lockout.attempt({ uuid }, by, { door: 'totp', check, dummy: async () => {} }, signal);
      if (!user) throw wrongCode();
      return { step: next(await show(taken, user, { mfaVerified: true }), user) };
    },

    async enroll(taken) {
      const user = await requireUser(taken);
      const begun = await secondFactor.begin(user.uuid, taken.signal);
      return { ...begun, step: next(await show(taken, user, { enrollmentStarted: true }), user) };
    },

    async 'confirm-enroll'(taken, { code }) {
      const { by, signal, state } = taken;
      const { uuid, mfaEnabled } = await requireUser(taken);
      if (mfaEnabled) throw new HttpError(400, 'MFA_ALREADY_ENABLED', 'the second factor is already enabled');
      if (!state.enrollmentStarted) throw wrongStep('begin the enrolment first');
      let recoveryCodes: string[] = [];
      const check = async () => {
        try {
          ({ recoveryCodes } = await secondFactor.confirm(uuid, code, signal));
          return true;
        } catch (error) {
          if (error instanceof HttpError && error.status === 401) return false;
          throw error;
        }
      };
      const attempt = { door: 'mfa-confirm', check, dummy: async () => {} } as const;
      if (!(await lockout.attempt({ uuid }, by, attempt, signal))) throw wrongCode();
      const user = await requireUser(taken);
      const shown = await show(taken, user, { enrollmentConfirmed: true, mfaVerified: true });
      return { recoveryCodes, step: next(shown, user) };
    },

    async 'change-password'(taken, { currentPassword, newPassword }) {
      const { by, signal, state } = taken;
      const known = await requireUser(taken);
      if (next(state, known) !== 'change-password') throw wrongStep('the password is not to be changed in this step');
      if (currentPassword === undefined) throw new HttpError(400, 'VALIDATION_ERROR', 'currentPassword: is required');
      const user = await lockout.attempt(
        { uuid: known.uuid },
        by,
        {
          door: 'current-password',
          check: ({ secrets }) => passwords.verify(currentPassword, secrets.password?.hash, signal),
          dummy: async () => void (await passwords.verify(currentPassword, undefined, signal)),
        },
        signal,
      );
      if (!user) throw wrongPassword();
      const changed = await passwordChange.change(user, newPassword, signal);
      const shown = await show(taken, user, { ...shownBy(changed), passwordChanged: true });
      return { step: next(shown, changed) };
    },

    async complete(taken) {
      const { uid, by, state, isForeign, signal } = taken;
      if (isForeign || state.foreign) {
        await artefacts.remove(MODEL, uid);
        throw expired();
      }
      const user = await requireUser(taken);
      if (next(state, user) !== 'complete') throw wrongStep('a step of this login is left');
      // Later steps are refused; a step in between is seen by this write.
      await advance(taken, (latest) => {
        if (latest.foreign || latest.userUuid !== user.uuid || next(latest, user) !== 'complete') throw expired();
        return { ...latest, completed: true };
      });
      const { redirectTo } = await issuer.complete(uid, user.uuid, signal);
      const device = await remember(user.uuid, signal);
      record(by, user.email, true);
      return { step: 'complete', redirectTo, device };
    },
  };

  /** A whole login ends the count of wrong attempts, and no lock; its browser may try during the next. */
  async function remember(uuid: string, signal: AbortSignal): Promise<string> {
    const device = randomBytes(32).toString('base64url');
    await users.change(
      uuid,
      ({ secrets: { attempts } }) => ({
        next: {
          devices: loggedInBy(sha256(device), now()),
          ...(attempts.lockedUntil <= now() && { attempts: { ...attempts, failed: 0, lockedUntil: 0 } }),
        },
        result: undefined,
      }),
      signal,
    );
    return device;
  }

  return {
    async status(uid, signal) {
      const { state } = await open(uid, signal);
      return { step: next(state, await userOf(uid, state, signal)) };
    },

    async act(uid, browser, action, by, signal) {
      const { state } = await open(uid, signal);
      // A step writes; an unknown uid costs a read.
      strangers.charge(by.address, by.device);
      const isForeign = !beganHere(options.cookieKeys(), uid, browser);
      const step = steps[action.to] as (taken: Taken, action: InteractionAction) => Promise<Result>;
      return step({ uid, state, isForeign, by, signal }, action);
    },
  };
}

function shownBy({ uuid, secrets: { password } }: StoredUser): InteractionState {
  return { userUuid: uuid, ...(password && { passwordAt: password.changedAt }) };
}

const expired = () => new HttpError(401, 'INTERACTION_EXPIRED', 'this login is unknown or has expired; begin again');
const wrongStep = (why: string) => new HttpError(400, 'WRONG_STEP', why);
const wrongPassword = () => new HttpError(401, 'INVALID_CREDENTIALS', 'the e-mail or the password is not valid');
