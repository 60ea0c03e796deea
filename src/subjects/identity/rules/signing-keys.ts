import { z } from 'zod';

/** The signing keys of an installation, newest last. Times are Unix ms. */
const signingKeySchema = z.object({
  kid: z.string(),
  privateJwk: z.looseObject({ kty: z.string() }),
  /** it is published from its creation, and signs from then on */
  signsFrom: z.number(),
  /** when the next one began to sign */
  retiredAt: z.number().optional(),
});
export type SigningKey = z.infer<typeof signingKeySchema>;
export const signingKeysSchema = z.array(signingKeySchema);

/** How long a new key is published before it signs: everybody knows it by then. */
const PUBLISHED_MS = 60_000;
/** How long a replica knows a key before it signs with it. */
const KNOWN_MS = 10_000;

/** The key that signs at a replica; `seenAt`: when this replica saw a key first. */
export function presentSigningKey(
  keys: readonly SigningKey[],
  now: number,
  seenAt: (kid: string) => number,
): SigningKey | undefined {
  const due = keys.filter(({ kid, signsFrom }) => signsFrom <= now && seenAt(kid) + KNOWN_MS <= now);
  // The first key of an installation signs at once: there is no other.
  return (
    due.at(-1) ?? (keys.length === 1 ? keys[0] : keys.filter(({ signsFrom }) => signsFrom <= now).at(-1)) ?? keys[0]
  );
}

/** The keys after a rotation: a new one, and those whose tokens may still be valid. */
export function rotated(
  keys: readonly SigningKey[],
  next: Pick<SigningKey, 'kid' | 'privateJwk'>,
  now: number,
  longestTokenMs: number,
): SigningKey[] {
  const signsFrom = now + PUBLISHED_MS;
  const kept = keys
    .filter(({ retiredAt }) => retiredAt === undefined || retiredAt + longestTokenMs > now)
    .map((key) => ({ ...key, retiredAt: key.retiredAt ?? signsFrom }));
  return [...kept, { ...next, signsFrom }];
}
