import { integer, text } from '../schema.ts';

/** What the kinds of the message bus say of their keys and tokens. */

/** Public keys of accounts in the text form of the bus: base32 without padding. */
export const BUS_ACCOUNT_KEY = '^A[A-Z2-7]{55}$';

/** Public key in the text form of the bus. */
export const busKeySchema = () => text({ max: 64 });

/** Tokens grow with rules and revocations. */
export const busTokenSchema = () => text({ max: 1024 * 1024 });

export const issuedAtSchema = () =>
  integer(0, Number.MAX_SAFE_INTEGER).describe('Time in the token, Unix s: of two tokens the later one counts.');
