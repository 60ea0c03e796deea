import { HttpError } from '../../http/http-error.ts';
import type { Caller, Guesses, UserInfo } from '../contract/access.ts';
import type { RestDependencies } from '../contract/dependencies.ts';
import { forbidden, unauthenticated } from '../contract/errors.ts';
import type { AnyRoute, Permission } from '../contract/route.ts';

/** Returns the caller of a request, or throws 401, 403 or, when a review fails, 503. */
export async function admit(
  deps: RestDependencies,
  { access, ungated }: Pick<AnyRoute, 'access' | 'ungated'>,
  request: {
    authorization: string | undefined;
    params: Readonly<Record<string, string>>;
    signal: AbortSignal;
    guesses?: Guesses;
    /** Called as soon as the caller is known, also when the request is refused then. */
    identified?: (identity: UserInfo) => void;
  },
): Promise<Caller> {
  const { signal, params, guesses, identified } = request;
  if (access === 'public') return { may: async () => false };

  const identity = await deps.authenticator.authenticate(bearerToken(request.authorization), signal, guesses);
  if (!identity) throw unauthenticated('the token is not valid');
  identified?.(identity);
  if (identity.gate !== undefined && !ungated)
    throw new HttpError(403, identity.gate, 'change the password first: POST /api/v3/user/change-password');
  const caller: Caller = {
    identity,
    may: (attributes) => deps.authorizer.allowed(identity, attributes, signal),
  };
  if (access === 'authenticated') return caller;
  if (await isPermitted(deps, access, { identity, params, signal })) return caller;
  const { resource, verb, name } = access;
  const parameter = name === undefined ? undefined : params[name];
  const what = parameter === undefined ? resource : `${resource} "${parameter}"`;
  throw forbidden(`${identity.name} may not ${verb} ${what} in the API group of this controller`);
}

/** Whether an identity has the permission of a route. Rejects when that cannot be said. */
export async function isPermitted(
  deps: RestDependencies,
  { resource, verb, name, names }: Permission,
  asked: { identity: UserInfo; params: Readonly<Record<string, string>>; signal: AbortSignal },
): Promise<boolean> {
  const may = (one?: string) =>
    deps.authorizer.allowed(asked.identity, { resource, verb, ...(one !== undefined && { name: one }) }, asked.signal);
  // A permission without a name covers all names; only roles that are limited to names need the second check.
  if (await may()) return true;
  const parameter = name === undefined ? undefined : asked.params[name];
  if (parameter === undefined) return false;
  for (const one of new Set([parameter, ...(names?.(parameter, deps) ?? [])])) if (await may(one)) return true;
  return false;
}

function bearerToken(header: string | undefined): string {
  if (header === undefined) throw unauthenticated('send a bearer token in the Authorization header');
  const match = /^Bearer +(\S+) *$/i.exec(header);
  if (!match?.[1]) throw unauthenticated('the Authorization header holds no bearer token');
  return match[1];
}
