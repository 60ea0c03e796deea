import { hash } from 'node:crypto';
import { HttpError } from '../http/http-error.ts';
import type { SigningKeys } from './contract/keys.ts';
import type { TokenGuesses, TokenVerifier, VerifiedBearer } from './contract/tokens.ts';
import type { UserFacts, UserStore } from './contract/users.ts';
import { kidOf, unverified, verifiedClaims } from './jwt.ts';

/** Verified tokens in memory, by their hash. */
const REMEMBERED = 20_000;
/** How long a subject that no store has is refused without being read again. */
const ABSENT_MS = 5_000;
const ABSENT_SUBJECTS = 10_000;

export interface VerifierOptions {
  issuer: string;
  audience: string;
  keys: SigningKeys;
  users: Pick<UserStore, 'facts' | 'byUuid' | 'synced'>;
  /** the present name of a group: tokens may have a former one */
  presentGroup(name: string): string | undefined;
  /** of the names of users and groups in roles: `skerry` in `skerry:ann@example.com`; empty: none */
  prefix: string;
  /** Unix ms */
  now(): number;
}

/** What the signature proves; everything that can change is asked for each request. */
interface Proven {
  subject: string;
  groups: readonly string[];
  mustChange: boolean;
  issuedAt: number;
  expiresAt: number;
  claims: Readonly<Record<string, unknown>>;
}

/** Verifies access tokens of this controller: the signature once, the user for each request, from memory. */
export function createTokenVerifier(options: VerifierOptions): TokenVerifier {
  const { issuer, audience, keys, users, prefix, presentGroup, now } = options;
  const proven = new Map<string, Proven>();
  const absent = new Map<string, number>();
  const prefixed = (name: string) => (prefix === '' ? name : `${prefix}:${name}`);

  async function prove(token: string, signal: AbortSignal): Promise<Proven | undefined> {
    const read = unverified(token);
    const kid = read && kidOf(read);
    const key = kid === undefined ? undefined : await keys.find(kid, signal);
    const claims = key && (await verifiedClaims(token, key, { issuer, audience, now: now() }));
    if (claims?.token_use !== 'access') return undefined;
    const { sub, groups, iat, exp } = claims;
    if (typeof sub !== 'string' || !Array.isArray(groups)) return undefined;
    return {
      subject: sub,
      groups: groups.filter((group): group is string => typeof group === 'string'),
      mustChange: claims.password_change_required === true,
      issuedAt: Number(iat) * 1000,
      expiresAt: Number(exp) * 1000,
      claims,
    };
  }

  /** The facts of a subject; the API server is asked once for a subject that the store lacks. */
  async function factsOf(subject: string, signal: AbortSignal): Promise<UserFacts | undefined> {
    const known = users.facts(subject);
    if (known) return known;
    if (!users.synced)
      throw new HttpError(503, 'CONTROLLER_NOT_READY', 'the controller is still reading its users, try again');
    if ((absent.get(subject) ?? Number.NEGATIVE_INFINITY) > now()) return undefined;
    const user = await users.byUuid(subject, signal);
    if (!user) {
      if (absent.size >= ABSENT_SUBJECTS) absent.clear();
      absent.set(subject, now() + ABSENT_MS);
      return undefined;
    }
    return {
      email: user.email,
      name: user.name,
      groups: user.groups,
      mustChangePassword: user.mustChangePassword,
      isBootstrap: user.isBootstrap,
      mfaEnabled: user.mfaEnabled,
      lockedUntil: user.secrets.attempts.lockedUntil,
      passwordAt: user.secrets.password?.changedAt ?? 0,
    };
  }

  async function known(token: string, signal: AbortSignal, guesses?: TokenGuesses): Promise<Proven | undefined> {
    const key = hash('sha256', token, 'base64');
    const before = proven.get(key);
    if (before) return before;
    guesses?.unknown();
    const found = await prove(token, signal);
    if (!found) {
      guesses?.wrong();
      return undefined;
    }
    if (proven.size >= REMEMBERED) for (const oldest of proven.keys()) if (proven.delete(oldest)) break;
    proven.set(key, found);
    return found;
  }

  return {
    async verify(token, signal, guesses): Promise<VerifiedBearer | undefined> {
      const found = await known(token, signal, guesses);
      if (!found || found.expiresAt <= now() - 60_000) return undefined;
      const facts = await factsOf(found.subject, signal);
      if (!facts) return undefined;
      // A token outlives a new e-mail of its user, and somebody else may have the former one.
      const name = prefixed(facts.name);
      // With an empty prefix a name could be one of the cluster itself.
      if (name.startsWith('system:')) return undefined;
      const own = new Set(facts.groups);
      const groups = new Set(found.groups.map(presentGroup).filter((group) => group !== undefined && own.has(group)));
      // The claim counts until the store has seen a later change of the password.
      const isGated = facts.mustChangePassword || (found.mustChange && facts.passwordAt < found.issuedAt);
      return {
        user: {
          name,
          uid: found.subject,
          groups: [...Array.from(groups, (group) => prefixed(group ?? '')), 'system:authenticated'],
        },
        human: facts.email,
        door: 'embedded',
        expiresAt: found.expiresAt,
        ...(isGated && { gate: 'PASSWORD_CHANGE_REQUIRED' as const }),
        subject: found.subject,
        claims: found.claims,
      };
    },
  };
}
