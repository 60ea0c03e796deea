import { z } from 'zod';
import { bearerOf } from '../../../http/bearer.ts';
import { HttpError } from '../../../http/http-error.ts';
import type { LoginContext } from '../../../identity/contract/login-context.ts';
import type { StoredUser } from '../../../identity/contract/users.ts';
import { replyShape } from '../../../kinds/rest.ts';
import { badRequest, unauthenticated } from '../../../rest/contract/errors.ts';
import { browserDoor, type EmbeddedDoor, embeddedDoor, openDoor } from '../../../rest/contract/identity-door.ts';
import { type Call, grouped, route } from '../../../rest/contract/route.ts';
import { mustEnroll, mustShowCode } from '../rules/duties.ts';
import { normalEmail } from '../rules/email.ts';
import { contextOf } from './device.ts';
import { externalLogin, externalLogout, externalProfile } from './external.ts';
import { redeemBrokered } from './oauth.ts';

const TAG = 'User';
const MAX_TOKEN = 16 * 1024;
/** Users are found by their names: the stores of these kinds have to be complete. */
const needs = () => ['authUsers', 'authGroups', 'authPolicies'];

const pair = replyShape(
  {
    accessToken: z.string(),
    refreshToken: z.string().optional().describe('Absent where another provider gives none.'),
  },
  'TokenPair',
);
const status = replyShape({ status: z.literal('success') }, 'PasswordChanged');
const profile = replyShape(
  z
    .object({
      sub: z.string(),
      email: z.string(),
      preferred_username: z.string(),
      groups: z.array(z.string()),
      password_change_required: z.boolean(),
      mfaEnabled: z.boolean(),
    })
    // Where another provider has the users, what it says of them.
    .partial().shape,
  'Profile',
);

const loginBody = z
  .object({
    email: z.string().min(1).describe('E-mail address, or the name of the first administrator.'),
    password: z.string().min(1),
    totp: z.string().optional().describe('Code of the second factor, or a recovery code.'),
  })
  .meta({ id: 'Login' });
const codeBody = z
  .object({
    code: z.string().min(1).max(MAX_TOKEN).describe('With which a login in the browser came to a port of kubectl.'),
    codeVerifier: z.string().min(43).max(128).describe('Verifier of the challenge that the login began with.'),
  })
  .meta({ id: 'BrokeredLogin' });
const changeBody = z
  .object({
    newPassword: z.string().min(1),
    currentPassword: z.string().optional(),
    resetToken: z.string().optional().describe('In place of the present password, and of a token.'),
  })
  .meta({ id: 'PasswordChange' });

/** The same words for an unknown, a locked and a known user. */
const wrongCredentials = () => new HttpError(401, 'INVALID_CREDENTIALS', 'the e-mail or the password is not right');

/** Password and code are one attempt: who knows the one gets no free guesses of the other. */
async function login(
  door: EmbeddedDoor,
  { email, password, totp = '' }: z.infer<typeof loginBody>,
  by: LoginContext,
  signal: AbortSignal,
) {
  let isCodeMissing = false;
  let isFactorDue = false;
  const begun = door.tokens.begin();
  const name = normalEmail(email);
  const user = await door.lockout.attempt(
    { email: name },
    by,
    {
      door: 'login',
      async check(candidate) {
        if (!(await door.passwords.verify(password, candidate.secrets.password?.hash, signal))) return false;
        if (!mustShowCode(door.duties(candidate))) return true;
        isCodeMissing = totp === '';
        // The next request has the code: neither a guess, nor a whole login.
        if (isCodeMissing) return 'in part';
        return (await door.secondFactor?.use(candidate, totp, signal)) === true;
      },
      dummy: async () => void (await door.passwords.verify(password, undefined, signal)),
      commit(present) {
        isFactorDue = mustEnroll(door.duties(present));
        return isFactorDue ? {} : { sessions: begun.sessions(present) };
      },
    },
    signal,
  );
  if (!user) {
    // Names that nobody has are only counted: they may be passwords that were typed into the wrong field.
    if (await door.users.byEmail(name, signal)) door.events.record({ what: 'login', human: name, ok: false, ...by });
    throw wrongCredentials();
  }
  if (isCodeMissing) {
    door.events.record({ what: 'login', human: name, ok: false, ...by });
    throw new HttpError(401, 'MFA_CODE_REQUIRED', 'send the code of the second factor as totp');
  }
  if (isFactorDue)
    throw new HttpError(
      401,
      'MFA_ENROLLMENT_REQUIRED',
      'a group of this user asks for a second factor: enrol one by a login in the browser',
    );
  const tokens = await begun.tokens(user);
  door.events.record({ what: 'login', human: user.email, ok: true, ...by });
  return tokens;
}

const changeOwn = async (
  { deps, client, signal }: Pick<Call, 'deps' | 'client' | 'signal'>,
  door: EmbeddedDoor,
  currentPassword: string | undefined,
): Promise<StoredUser> => {
  const token = bearerOf(client.authorization, MAX_TOKEN);
  if (token === undefined) throw unauthenticated('send a bearer token, or a resetToken');
  const identity = await deps.authenticator.authenticate(token, signal);
  if (!identity) throw unauthenticated('the token is not valid');
  if (identity.subject === undefined) throw badRequest('the token is of the cluster, which has no password here');
  if (currentPassword === undefined) throw badRequest('currentPassword: is required');
  const user = await door.lockout.attempt(
    { uuid: identity.subject },
    contextOf(client),
    {
      door: 'current-password',
      check: ({ secrets }) => door.passwords.verify(currentPassword, secrets.password?.hash, signal),
      dummy: async () => void (await door.passwords.verify(currentPassword, undefined, signal)),
    },
    signal,
  );
  if (user) return user;
  throw new HttpError(401, 'INVALID_CREDENTIALS', 'the present password is not right');
};

/** What people do with their own account: no role is needed for it. */
export const ownAccountRoutes = grouped(TAG, [
  route({
    method: 'POST',
    path: '/user/login',
    operation: 'login',
    summary: 'Log in with a password',
    description: 'Or with the code of a login in the browser that kubectl began.',
    access: 'public',
    guessable: true,
    needs,
    body: { kind: 'json', schema: z.union([loginBody, codeBody]) },
    reply: { status: 200, schema: pair },
    errors: [401, 501],
    async handler({ deps, body, client, signal, warnings }) {
      if ('code' in body) return { ...(await redeemBrokered(browserDoor(deps), body, { client, signal })) };
      const door = openDoor(deps);
      const tokens =
        door.mode === 'external'
          ? await externalLogin(door.external, body, { signal, warnings })
          : await login(door, body, contextOf(client), signal);
      return { ...tokens };
    },
  }),
  route({
    method: 'POST',
    path: '/user/refresh',
    operation: 'refreshToken',
    summary: 'New tokens for a refresh token, which counts once',
    access: 'public',
    guessable: true,
    needs,
    body: { kind: 'json', schema: z.object({ refreshToken: z.string().min(1) }).meta({ id: 'Refresh' }) },
    reply: { status: 200, schema: pair },
    errors: [401, 501],
    async handler({ deps, body: { refreshToken }, client, signal }) {
      const door = openDoor(deps);
      const tokens =
        door.mode === 'external'
          ? await door.external.refresh(refreshToken, signal)
          : await door.tokens.refresh(refreshToken, { ...contextOf(client), arrivedAt: client.arrivedAt }, signal);
      return { ...tokens };
    },
  }),
  route({
    method: 'POST',
    path: '/user/logout',
    operation: 'logout',
    summary: 'End every login of the caller',
    description: 'Refresh tokens end at once; an access token is valid until it expires.',
    access: 'authenticated',
    passesToken: true,
    needs,
    body: {
      kind: 'json',
      schema: z
        .object({ refreshToken: z.string().optional().describe('Where another provider has the users: ends as well.') })
        .meta({ id: 'Logout' }),
      optional: true,
    },
    reply: { status: 204 },
    errors: [501],
    async handler({ deps, body, caller: { identity }, client, signal }) {
      const door = openDoor(deps);
      if (door.mode === 'external') {
        await externalLogout(door.external, body?.refreshToken, { client, signal });
        return undefined;
      }
      // A token of the cluster has no login here.
      if (identity?.subject === undefined) return undefined;
      await door.tokens.endAll(identity.subject, 'logout', signal);
      door.events.record({ what: 'logout', human: identity.human ?? identity.name, ok: true, ...contextOf(client) });
      return undefined;
    },
  }),
  route({
    method: 'GET',
    path: '/user/profile',
    operation: 'getProfile',
    summary: 'The caller',
    access: 'authenticated',
    ungated: true,
    passesToken: true,
    needs,
    reply: { status: 200, schema: profile },
    errors: [],
    async handler({ deps, caller, client, signal }) {
      const { name = '', uid = name, groups = [], subject, human = name, gate } = caller.identity ?? {};
      const door = deps.identity?.off === undefined ? deps.identity : undefined;
      if (door?.mode === 'external') return { ...(await externalProfile(door.external, { client, caller, signal })) };
      const facts = subject === undefined ? undefined : door?.users.facts(subject);
      return {
        sub: subject ?? uid,
        email: facts?.email ?? '',
        preferred_username: human,
        groups: [...(facts?.groups ?? groups)],
        password_change_required: gate !== undefined,
        mfaEnabled: facts?.mfaEnabled ?? false,
      };
    },
  }),
  route({
    method: 'POST',
    path: '/user/change-password',
    operation: 'changePassword',
    summary: 'A new password, for the present one or a reset token',
    description: 'Every login of the user ends.',
    access: 'public',
    guessable: true,
    ungated: true,
    needs,
    body: { kind: 'json', schema: changeBody },
    reply: { status: 200, schema: status },
    errors: [401, 501],
    async handler({ deps, body: { newPassword, currentPassword, resetToken }, client, signal }) {
      const door = embeddedDoor(deps);
      let user: StoredUser;
      if (resetToken === undefined) {
        const own = await changeOwn({ deps, client, signal }, door, currentPassword);
        user = await door.passwordChange.change(own, newPassword, signal);
      } else {
        const charged = door.strangers.charge(client.address, undefined);
        user = await door.passwordChange.changeByToken(resetToken, newPassword, signal);
        charged.refund();
      }
      const what = resetToken === undefined ? 'password' : 'reset';
      door.events.record({ what, human: user.email, ok: true, ...contextOf(client) });
      return { status: 'success' as const };
    },
  }),
]);
