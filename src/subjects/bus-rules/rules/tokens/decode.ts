import { z } from 'zod';
import type { BusClaims } from './claims.ts';

/** Characters of the longest token that is read: larger than a message of the bus can be. */
const LONGEST = 2 * 1024 * 1024;
const seconds = z.number().int();
const schema = z.looseObject({
  // Other encoders leave empty members out.
  jti: z.string().default(''),
  iat: seconds,
  exp: seconds.optional(),
  iss: z.string(),
  sub: z.string(),
  name: z.string().default(''),
  nats: z.looseObject({
    type: z.enum(['operator', 'account', 'user']),
    version: z.number(),
    revocations: z.record(z.string(), seconds).optional(),
    issuer_account: z.string().optional(),
  }),
});

/** Payload of a token of the bus; undefined for text that is none. The signature is not verified. */
export function decodeToken(jwt: string): BusClaims | undefined {
  const [, payload, signature] = jwt.length > LONGEST ? [] : jwt.split('.', 4);
  if (!payload || !signature) return undefined;
  try {
    const read = schema.safeParse(JSON.parse(Buffer.from(payload, 'base64url').toString()));
    return read.success ? (read.data as BusClaims) : undefined;
  } catch {
    // No JSON.
    return undefined;
  }
}
