import { z } from 'zod';
import type { Log } from '../../../src/lib/log.ts';
import { errorText } from '../machine/log.ts';
import { newKey, type PrivateKey } from './identity.ts';
import type { OwnIdentity } from './own-identity.ts';
import type { Rows } from './rows.ts';
import type { Claims } from './token.ts';

/**
 * Which tokens of the local API count no more although their time is not over. No clock decides: an entry stays as long as the
 * key that signed its token, and a full list ends by a new key.
 *
 * Guarantees: a revocation that was answered holds after any end of the process. Where the list is damaged, older than the
 * identity says, or absent although there was one, the key is replaced: no revoked token counts again.
 */
export const revocationListSchema = z.object({
  /** public half of the key that it belongs to */
  key: z.string(),
  /** single tokens, by `jti`; each with when that was done, Unix ms, for people */
  tokens: z.record(z.string(), z.number()),
  /** subjects, each with the generation that its tokens have to be of */
  subjects: z.record(z.string(), z.int().positive()),
});
export type RevocationList = z.infer<typeof revocationListSchema>;

/** What a list may hold: about 100 KiB. */
export const REVOCATION_LIMIT = 1000;

/** The name of the one row. */
const ROW = 'list';

export interface RevocationsDependencies {
  rows: Rows<RevocationList>;
  identity: OwnIdentity;
  log: Log;
}

/** A token, or all tokens of a subject until now. */
export type Revocation = { jti: string } | { subject: string };

export class TokenRevocations {
  readonly #deps: RevocationsDependencies;
  /** where the key had to be replaced and could not be saved */
  #unsavedKey: PrivateKey | undefined;
  #list: RevocationList;

  constructor(deps: RevocationsDependencies) {
    this.#deps = deps;
    const kept = this.#kept();
    this.#list = kept ?? emptyList(this.key);
    if (kept) this.#note();
  }

  /** The key that signs tokens of the local API. */
  get key(): PrivateKey {
    return this.#unsavedKey ?? this.#deps.identity.current.localKey;
  }

  /** The generation that tokens of a subject have to be of. */
  generation(subject: string): number {
    return Object.hasOwn(this.#list.subjects, subject) ? (this.#list.subjects[subject] as number) : 0;
  }

  /** When a token was revoked by its id, Unix ms. */
  revokedAt(jti: string): number | undefined {
    return Object.hasOwn(this.#list.tokens, jti) ? this.#list.tokens[jti] : undefined;
  }

  /** The ids of revoked tokens. */
  get ids(): string[] {
    return Object.keys(this.#list.tokens);
  }

  has({ jti, sub, generation = 0 }: Pick<Claims, 'jti' | 'sub' | 'generation'>): boolean {
    return this.revokedAt(jti) !== undefined || !(generation >= this.generation(sub));
  }

  /** Adds to the list. Throws, and changes nothing, when it cannot be saved. Returns whether the key was replaced instead. */
  add(revocations: readonly Revocation[], wall: number): boolean {
    const list = structuredClone(this.#list);
    list.key = this.key.x;
    for (const each of revocations) {
      if ('jti' in each) list.tokens[each.jti] = wall;
      else list.subjects[each.subject] = this.generation(each.subject) + 1;
    }
    if (sizeOf(list) > REVOCATION_LIMIT) {
      this.#replaceKey();
      return true;
    }
    this.#deps.rows.save(ROW, list);
    this.#list = list;
    this.#note();
    return false;
  }

  /** The list on the disk, where it is whole and belongs to the key; a lost one replaces the key. */
  #kept(): RevocationList | undefined {
    const { rows, identity, log } = this.#deps;
    const { localKey, revocations: least = 0 } = identity.current;
    const row = rows.all.get(ROW);
    // What an earlier key signed counts for nothing.
    const own = row?.key === localKey.x ? row : undefined;
    const isLost = least > (own ? sizeOf(own) : 0) || rows.unreadable.size > 0;
    if (!isLost) return own;
    log.error(
      { reason: [...rows.unreadable.values()][0] ?? 'the list is missing, or older than it was' },
      'The list of revoked tokens was lost; all tokens of the local API are replaced',
    );
    try {
      this.#replaceKey();
    } catch (error) {
      this.#unsavedKey = newKey();
      log.error(
        { error: errorText(error) },
        'Cannot save the new key of the local API; the next start makes another one',
      );
    }
    return undefined;
  }

  #replaceKey(): void {
    const { rows, identity } = this.#deps;
    const { revocations: _, ...rest } = identity.current;
    identity.become({ ...rest, localKey: newKey() });
    this.#unsavedKey = undefined;
    this.#list = emptyList(this.key);
    try {
      rows.remove(ROW);
    } catch {
      // It belongs to a key that is no more, and so to nothing.
    }
  }

  /** Tells the identity how long the list is, so that a shorter one is known for what it is. */
  #note(): void {
    const { identity, log } = this.#deps;
    const revocations = sizeOf(this.#list);
    if (identity.current.revocations === revocations) return;
    try {
      identity.become({ ...identity.current, revocations });
    } catch (error) {
      // The list itself is saved.
      log.warn({ error: errorText(error) }, 'Cannot note the length of the list of revoked tokens');
    }
  }
}

const emptyList = ({ x }: PrivateKey): RevocationList => ({ key: x, tokens: {}, subjects: {} });

/** How much was ever revoked under one key: a subject counts once more each time. */
function sizeOf({ tokens, subjects }: RevocationList): number {
  return Object.keys(tokens).length + Object.values(subjects).reduce((sum, generation) => sum + generation, 0);
}
