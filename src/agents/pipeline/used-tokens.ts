import { hash } from 'node:crypto';
import { NODE_TOKEN } from '../../wire/node-token.ts';

/** The tokens that were used, stored until they have expired. */
export interface UsedTokens {
  has(token: { sub: string; jti: string; exp: number }): boolean;
  /** Marks a token as used; false when it was used before, or when it cannot be stored and so must not be accepted. */
  use(token: { sub: string; jti: string; exp: number }, now: number): boolean;
  /** Marks tokens that other replicas accepted. */
  learn(marks: readonly TokenMark[], now: number): void;
  /** The marks made here since the last call, at most `limit` of them. */
  takeUnshared(limit: number): TokenMark[];
  readonly size: number;
}

/** A used token as replicas exchange it: 53 bits of a digest, and the slot in which it may be dropped. */
export type TokenMark = readonly [digest: number, slot: number];

const SLOT_SECONDS = 30;
const slotOf = (exp: number) => Math.ceil((exp + NODE_TOKEN.tolerance) / SLOT_SECONDS);
/** Every token that is accepted now expires in or before this slot. */
const lastSlot = (now: number) => slotOf(now / 1000 + NODE_TOKEN.maxLifetime + NODE_TOKEN.tolerance);

/**
 * The digest of node and jti: a set of numbers needs a fraction of the memory of one of strings. When two tokens have the
 * same 53 bits, the agent is refused once and signs another token.
 */
function digestOf(sub: string, jti: string): number {
  const bytes = hash('sha256', `${sub}.${jti}`, 'buffer');
  return bytes.readUInt32BE(0) * 2 ** 21 + (bytes.readUInt32BE(4) >>> 11);
}

export function createUsedTokens({ capacity = 4_000_000, unsharedCapacity = 100_000 } = {}): UsedTokens {
  const slots = new Map<number, Set<number>>();
  let unshared: TokenMark[] = [];
  let size = 0;
  let sweptUntil = 0;
  // A token is checked and then marked; the digest is most of that time, so it is computed once.
  let latest: { token: object; digest: number } | undefined;

  function digestFor(token: { sub: string; jti: string }): number {
    if (latest?.token !== token) latest = { token, digest: digestOf(token.sub, token.jti) };
    return latest.digest;
  }

  function sweep(now: number) {
    const current = Math.floor(now / 1000 / SLOT_SECONDS);
    if (current === sweptUntil) return;
    sweptUntil = current;
    for (const [slot, digests] of slots) {
      if (slot > current) continue;
      size -= digests.size;
      slots.delete(slot);
    }
  }

  function mark(digest: number, slot: number): boolean {
    let digests = slots.get(slot);
    if (!digests) {
      digests = new Set();
      slots.set(slot, digests);
    }
    if (digests.has(digest)) return false;
    digests.add(digest);
    size++;
    return true;
  }

  return {
    has: (token) => slots.get(slotOf(token.exp))?.has(digestFor(token)) ?? false,
    use(token, now) {
      sweep(now);
      if (size >= capacity) return false;
      const digest = digestFor(token);
      const slot = slotOf(token.exp);
      if (!mark(digest, slot)) return false;
      // With only one replica they are never taken.
      if (unshared.length >= unsharedCapacity) unshared = unshared.slice(unsharedCapacity / 2);
      unshared.push([digest, slot]);
      return true;
    },
    learn(marks, now) {
      sweep(now);
      const last = lastSlot(now);
      for (const [digest, slot] of marks) {
        if (size >= capacity) return;
        if (slot > sweptUntil && slot <= last) mark(digest, slot);
      }
    },
    takeUnshared(limit) {
      const taken = unshared.slice(0, limit);
      unshared = unshared.length > limit ? unshared.slice(limit) : [];
      return taken;
    },
    get size() {
      return size;
    },
  };
}
