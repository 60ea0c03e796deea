import { z } from 'zod';
import { HttpError } from '../../../http/http-error.ts';
import type { StoredUser } from '../../../identity/contract/users.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { badRequest, notFound } from '../../../rest/contract/errors.ts';
import { type EmbeddedDoor, embeddedDoor } from '../../../rest/contract/identity-door.ts';
import { type Call, grouped, route } from '../../../rest/contract/route.ts';
import { lateBody, readLateBody } from './body.ts';

const code = z.string().min(1).max(64);
const confirmBody = z.object({ code });
const disableBody = z.object({ password: z.string().min(1), code: code.optional() });
const done = z.object({ status: z.literal('success') });

function doorOf(deps: RestDependencies) {
  const door = embeddedDoor(deps);
  const { secondFactor } = door;
  if (secondFactor) return { ...door, secondFactor };
  throw new HttpError(501, 'NOT_IMPLEMENTED', 'this controller has no second factor');
}

/** The user whose token it is. A token of the cluster has no password here, and so no second factor. */
async function userOf(door: EmbeddedDoor, { caller, signal }: Pick<Call, 'caller' | 'signal'>): Promise<StoredUser> {
  const uuid = caller.identity?.subject;
  if (uuid === undefined) throw badRequest('the token is not one of a user of this controller');
  const user = await door.users.byUuid(uuid, signal);
  if (!user) throw notFound('USER_NOT_FOUND', 'the user does not exist any more');
  return user;
}

const wrong = () => new HttpError(401, 'INVALID_CREDENTIALS', 'the password or the code is not valid');

/** The own second factor. A wrong code or password takes one of the attempts of the account. */
export const mfaRoutes = grouped('User', [
  route({
    method: 'POST',
    path: '/user/mfa/enroll',
    operation: 'enrollSecondFactor',
    summary: 'Begin to enrol a second factor; a repeated call replaces the secret',
    access: 'authenticated',
    guessable: true,
    reply: { status: 200, schema: z.object({ secret: z.string(), otpauthUrl: z.string() }) },
    errors: [400, 403, 404, 501],
    async handler({ deps, caller, signal }) {
      const door = doorOf(deps);
      const { uuid } = await userOf(door, { caller, signal });
      return door.secondFactor.begin(uuid, signal);
    },
  }),
  route({
    method: 'POST',
    path: '/user/mfa/confirm',
    operation: 'confirmSecondFactor',
    summary: 'Enable the second factor by its first code; the recovery codes are shown once',
    access: 'authenticated',
    guessable: true,
    body: lateBody(confirmBody),
    reply: { status: 200, schema: done.extend({ recoveryCodes: z.array(z.string()) }) },
    errors: [400, 403, 404, 501],
    async handler({ deps, caller, body, client, signal }) {
      const door = doorOf(deps);
      const given = readLateBody(confirmBody, body);
      const { uuid, mfaEnabled, email, secrets } = await userOf(door, { caller, signal });
      if (mfaEnabled) throw badRequest('the second factor is already enabled', 'MFA_ALREADY_ENABLED');
      if (!secrets.mfa) throw badRequest('no second factor was begun', 'MFA_NOT_ENABLED');
      let recoveryCodes: string[] = [];
      const check = async () => {
        const confirmed = await door.secondFactor.confirm(uuid, given.code, signal).catch(falseFor401);
        if (confirmed) ({ recoveryCodes } = confirmed);
        return Boolean(confirmed);
      };
      const attempt = { door: 'mfa-confirm', check, dummy: async () => {} } as const;
      if (!(await door.lockout.attempt({ uuid }, client, attempt, signal))) throw wrong();
      door.events.record({ what: 'mfa', human: email, ok: true, address: client.address, requestId: client.requestId });
      return { status: 'success' as const, recoveryCodes };
    },
  }),
  route({
    method: 'DELETE',
    path: '/user/mfa',
    operation: 'disableSecondFactor',
    summary: 'Disable the second factor, with the password and a code or recovery code',
    access: 'authenticated',
    guessable: true,
    body: lateBody(disableBody),
    reply: { status: 200, schema: done },
    errors: [400, 403, 404, 501],
    async handler({ deps, caller, body, client, signal }) {
      const door = doorOf(deps);
      const given = readLateBody(disableBody, body);
      const { uuid, mfaEnabled, email } = await userOf(door, { caller, signal });
      if (!mfaEnabled) throw badRequest('the second factor is not enabled', 'MFA_NOT_ENABLED');
      const check = async (user: StoredUser) =>
        (await door.passwords.verify(given.password, user.secrets.password?.hash, signal)) &&
        given.code !== undefined &&
        (await door.secondFactor.use(user, given.code, signal));
      const dummy = async () => void (await door.passwords.verify(given.password, undefined, signal));
      if (!(await door.lockout.attempt({ uuid }, client, { door: 'mfa-disable', check, dummy }, signal))) throw wrong();
      await door.secondFactor.disable(uuid, signal);
      door.events.record({ what: 'mfa', human: email, ok: true, address: client.address, requestId: client.requestId });
      return { status: 'success' as const };
    },
  }),
]);

function falseFor401(error: unknown): undefined {
  if (error instanceof HttpError && error.status === 401) return undefined;
  throw error;
}
