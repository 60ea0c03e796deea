import { AGENT_GROUP } from '../../../../src/api/names.ts';
import { LOCAL_API, WORKLOAD_TOKEN } from '../../domain/names.ts';
import { readText, writeDurably } from '../../machine/disk.ts';
import type { Identity } from '../../state/identity.ts';
import type { LocalTokens } from '../../state/local-tokens.ts';
import type { Claims } from '../../state/token.ts';

/** Twelve hours, so that an idle agent does not write to the disk every few minutes; it is renewed in good time. */
export const ADMIN_TOKEN_SECONDS = 12 * 3600;

/** Who has the admin token, among the holders of tokens. */
const ADMIN = 'admin';

/** The admin token, in a file that only its owner can read, next to the socket that only its owner can open. */
export class AdminToken {
  readonly #path: string;
  readonly #agent: { readonly identity: Identity; readonly tokens: LocalTokens };
  #jti: string | undefined;

  /** Takes note of the token that an earlier process wrote. */
  constructor(path: string, agent: { readonly identity: Identity; readonly tokens: LocalTokens }) {
    this.#path = path;
    this.#agent = agent;
    try {
      agent.tokens.note(ADMIN, readText(path)?.trim() ?? '');
    } catch {
      // It is replaced in a moment.
    }
  }

  /** Writes a new one, signed with the key that never leaves the machine. */
  write(): void {
    const { identity, tokens } = this.#agent;
    const sub = `${LOCAL_API.adminPrefix}${identity.node?.uuid ?? 'bootstrap'}`;
    const claims = { sub, aud: [LOCAL_API.audience], tokenUse: LOCAL_API.use };
    const { token, jti } = tokens.issue(ADMIN, claims, ADMIN_TOKEN_SECONDS);
    writeDurably(this.#path, `${token}\n`, 0o600);
    this.#jti = jti;
  }

  /** Writes another one where the present one counts no more: the command line has no other way in. Returns whether it did. */
  renewRevoked(): boolean {
    if (this.#jti !== undefined && this.#agent.tokens.isCurrent(this.#jti)) return false;
    this.write();
    return true;
  }
}

export function isAdmin({ tokenUse, aud, sub }: Partial<Claims>): boolean {
  const isOfUse = tokenUse === LOCAL_API.use && aud?.includes(LOCAL_API.audience) === true;
  return isOfUse && sub?.startsWith(LOCAL_API.adminPrefix) === true;
}

/**
 * The uuid of the microservice that a token is for (docs/spec/agent-local-api.md#tokens), or undefined for other
 * tokens.
 */
export function workloadOf(claims: Claims): string | undefined {
  const { tokenUse, aud } = claims;
  if (tokenUse !== WORKLOAD_TOKEN.use || !aud.includes(WORKLOAD_TOKEN.audience)) return undefined;
  const own = (claims as { [AGENT_GROUP]?: { microservice?: { uuid?: unknown } } })[AGENT_GROUP];
  const uuid = own?.microservice?.uuid;
  return typeof uuid === 'string' && uuid !== '' ? uuid : undefined;
}
