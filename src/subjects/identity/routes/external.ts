import { HttpError } from '../../../http/http-error.ts';
import type { ExternalProvider } from '../../../identity/contract/external.ts';
import type { TokenPair } from '../../../identity/contract/tokens.ts';
import type { Call } from '../../../rest/contract/route.ts';

/** The routes of the own account where another provider has the users. */

type With<K extends keyof Call> = Pick<Call, K>;

/** The warning for a person without a group, who may then do nothing that a role permits. */
const NO_GROUPS =
  'the token of the provider has no groups: neither resource_access, nor roles, nor groups; no role counts for you but those bound to your name';

/** Whether a token that was just issued names a group; a warning for people if it does not. */
async function warnOfNoGroups(
  external: ExternalProvider,
  pair: TokenPair,
  { signal, warnings }: With<'signal' | 'warnings'>,
) {
  const bearer = await external.verify(pair.accessToken, signal);
  if (bearer?.user.groups.every((group) => group.startsWith('system:'))) warnings.push(NO_GROUPS);
}

export async function externalLogin(
  external: ExternalProvider,
  { email, password, totp }: { email: string; password: string; totp?: string | undefined },
  call: With<'signal' | 'warnings'>,
): Promise<TokenPair> {
  const pair = await external.password(email, password, totp || undefined, call.signal);
  await warnOfNoGroups(external, pair, call);
  return pair;
}

/** The bearer token of a request, without its scheme. */
const tokenOf = ({ authorization = '' }: Call['client']) => authorization.replace(/^Bearer +/i, '').trim();

/** Revokes the tokens of a person of the provider, as far as the provider does that; nothing for tokens of the cluster. */
export async function externalLogout(
  external: ExternalProvider,
  refreshToken: string | undefined,
  { client, signal }: With<'client' | 'signal'>,
): Promise<void> {
  const accessToken = tokenOf(client);
  if (!(await external.verify(accessToken, signal))) return;
  await external.logout({ accessToken, ...(refreshToken && { refreshToken }) });
}

/** What the provider says of a person; name and groups for a token of the cluster. */
export async function externalProfile(
  external: ExternalProvider,
  { client, caller, signal }: With<'client' | 'caller' | 'signal'>,
): Promise<object> {
  const token = tokenOf(client);
  const bearer = await external.verify(token, signal);
  if (bearer) return external.profile(bearer, token, signal);
  const { identity } = caller;
  if (!identity) throw new HttpError(401, 'UNAUTHENTICATED', 'the token is not valid');
  return { name: identity.name, groups: identity.groups };
}
