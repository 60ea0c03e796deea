import { createPublicKey, verify } from 'node:crypto';
import { z } from 'zod';
import { publicKeyBytes } from '../../../../rules/nkey-text.ts';

/** Activation tokens: an exporting account permits one importing account to import one subject. */
interface ReadActivation {
  /** public key of the importing account */
  importer: string;
  /** public key of the exporting account */
  exporter: string;
  subject: string;
  type: string;
}

/** DER of a public Ed25519 key, up to its 32 bytes. */
const SPKI = Buffer.from('302a300506032b6570032100', 'hex');
const schema = z.looseObject({
  iss: z.string(),
  sub: z.string(),
  nats: z.looseObject({
    type: z.literal('activation'),
    subject: z.string(),
    kind: z.string(),
    issuer_account: z.string().optional(),
  }),
});

/** The account that an activation token is for; undefined for text that is none. The signature is not verified. */
export function importerOf(jwt: string): string | undefined {
  try {
    return schema.parse(payloadOf(jwt)).sub;
  } catch {
    return undefined;
  }
}

const payloadOf = (jwt: string): unknown => JSON.parse(Buffer.from(jwt.split('.', 2)[1] ?? '', 'base64url').toString());

/** The content of an activation token; undefined for text that is none, or whose signature is wrong. */
export function readActivation(jwt: string): ReadActivation | undefined {
  const [header = '', payload = '', signature = '', more] = jwt.split('.', 4);
  if (more !== undefined) return undefined;
  try {
    const { iss, sub, nats } = schema.parse(payloadOf(jwt));
    const raw = publicKeyBytes(iss, 'account');
    if (!raw) return undefined;
    const key = createPublicKey({ key: Buffer.concat([SPKI, raw]), format: 'der', type: 'spki' });
    const signed = Buffer.from(`${header}.${payload}`);
    if (!verify(null, signed, key, Buffer.from(signature, 'base64url'))) return undefined;
    return { importer: sub, exporter: nats.issuer_account ?? iss, subject: nats.subject, type: nats.kind };
  } catch {
    // No JSON, or not an activation.
    return undefined;
  }
}
