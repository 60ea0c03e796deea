import { conditionsSchema, observedGenerationSchema, type PrinterColumn } from '../meta.ts';
import { integer, oneOf, text } from '../schema.ts';

/** What the kinds of certificates and of authorities share. */

/** A hundred years, ms. */
const LONGEST_MS = 36_525 * 86_400_000;
/** Months below, ms from here on (docs/spec/rest-v3.md#certificates). */
export const MONTHS_BELOW = 1_000;

/** Letters, digits and signs of all scripts, without controls and invisible characters. */
export const SHOWN =
  '[ -~\u00a1-\u00ac\u00ae-\u05ff\u0620-\u06dc\u0700-\u070e\u0710-\u180d\u180f-\u200a\u2010-\u2027\u202f-\u205f\u2070-\ud7ff\uf900-\ufdcf\ufdf0-\ufefe\uff00-\uffef\u{10000}-\u{dffff}]';

/** A common name has at most 64 characters (RFC 5280, ub-common-name). */
export const subjectSchema = text({
  min: 1,
  max: 64,
  pattern: `^${SHOWN}*$`,
  expects: 'a common name of characters that can be shown',
});

export const expirationSchema = integer(1, LONGEST_MS);

const KEY_ALGORITHMS = ['ECDSA', 'RSA'] as const;
export type KeyAlgorithm = (typeof KEY_ALGORITHMS)[number];
export const keyAlgorithmSchema = oneOf(...KEY_ALGORITHMS)
  .optional()
  .describe(
    'ECDSA (when absent): a key on the curve P-256. RSA: one of 2048 bits, for clients that know nothing else.',
  );

const time = () => text({ max: 64 }).optional();

/** Members of a status about the certificate that is in force. All are read from the certificate itself. */
export const issuedSchema = <R extends object>({ recorded }: { recorded: R }) => ({
  observedGeneration: observedGenerationSchema,
  ...recorded,
  serialNumber: text({ max: 64 }).optional().describe('Serial number, hex.'),
  subject: text({ max: 1024 }).optional().describe('Common name of the certificate.'),
  notBefore: time().describe('Start of its validity (RFC 3339).'),
  notAfter: time().describe('End of its validity (RFC 3339).'),
  renewalTime: time().describe('When it is renewed (RFC 3339); absent where the controller does not renew it.'),
  issuer: text({ max: 1024 }).optional().describe('Common name of the authority that signed it.'),
  fingerprint: text({ max: 128 }).optional().describe('SHA-256 of the certificate, hex.'),
  conditions: conditionsSchema.optional(),
});

export const RENEWED_COLUMN: PrinterColumn = {
  name: 'Renewal',
  type: 'string',
  jsonPath: '.status.renewalTime',
  description: 'When the controller renews it.',
  priority: 1,
};
