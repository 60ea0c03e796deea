import { ANNOTATIONS } from '../../../api/names.ts';
import type { AuthUser } from '../../../api/v3/auth-user.ts';

/** The names of a user in role bindings: the name that counts, and the former ones, until nothing is valid that says them. */

/** How long tokens with a former name may be valid: the longest of the policy, and the difference of clocks. */
export const FORMER_NAME_MS = 3_600_000 + 60_000;

type Named = Pick<AuthUser, 'metadata' | 'spec' | 'status'>;

/** The name that tokens say: a new e-mail counts once every role binding has it. */
export const nameOfUser = ({ spec, status }: Named): string => status?.name ?? spec.email;

/** E-mails that REST has taken from the user; the leader may not have seen each of them. */
export function leftEmails({ metadata }: Pick<AuthUser, 'metadata'>): string[] {
  try {
    const left: unknown = JSON.parse(metadata.annotations?.[ANNOTATIONS.formerEmails] ?? '[]');
    return Array.isArray(left) ? left.filter((one) => typeof one === 'string') : [];
  } catch {
    return [];
  }
}

/** Every name that belongs to the user, the e-mail of its spec first. */
export function namesOfUser(user: Named): string[] {
  const { name, formerEmails = [] } = user.status ?? {};
  return [
    ...new Set([
      user.spec.email,
      ...(name === undefined ? [] : [name]),
      ...formerEmails.map((one) => one.email),
      ...leftEmails(user),
    ]),
  ];
}

/** The names that a user had, each with the time until which it belongs to the user; a name that is new here gets it now. */
export function formerEmailsOf(user: Named, now: number): { email: string; until: string }[] {
  const known = new Map(user.status?.formerEmails?.map((one) => [one.email, one.until]));
  const until = new Date(now + FORMER_NAME_MS).toISOString();
  return namesOfUser(user)
    .filter((email) => email !== user.spec.email)
    .map((email) => ({ email, until: known.get(email) ?? until }));
}
