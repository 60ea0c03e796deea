import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import { type NkeyKind, publicKeyText, readSeed, seedText } from '../rules/nkey-text.ts';

export type { NkeyKind };

/**
 * Keys of the message bus. Node's crypto makes them and signs with them in its thread pool: nkeys.js takes 200 times as long, on
 * the event loop.
 */

export interface Nkey {
  publicKey: string;
  /** private: whoever has it can sign */
  seed: string;
}

/** DER of a PKCS #8 Ed25519 key, up to the 32 bytes of its seed. */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');
/** Bytes before the key in the DER of a public Ed25519 key. */
const SPKI_PREFIX = 12;
const HEADER = encoded({ typ: 'JWT', alg: 'ed25519-nkey' });

const generate = promisify(generateKeyPair);
const signed = promisify(
  (data: Buffer, key: KeyObject, done: (error: Error | null, signature: Buffer) => void): void =>
    void sign(null, data, key, done),
);

/** A new key. */
export async function makeNkey(kind: NkeyKind): Promise<Nkey> {
  const { privateKey, publicKey } = await generate('ed25519');
  const seed = seedText(kind, privateKey.export({ type: 'pkcs8', format: 'der' }).subarray(PKCS8.length));
  return { publicKey: remember(seed, publicKeyText(kind, rawPublic(publicKey))), seed };
}

/** Public keys of the seeds that were made or asked for last: each run of a user asks for its own keys, and for the keys of its account. */
const publicKeys = new Map<string, string>();
const MOST_PUBLIC_KEYS = 4_096;

function remember(seed: string, publicKey: string): string {
  if (publicKeys.size >= MOST_PUBLIC_KEYS) for (const oldest of publicKeys.keys()) if (publicKeys.delete(oldest)) break;
  publicKeys.set(seed, publicKey);
  return publicKey;
}

/** The public key of a seed. Throws when the text is no seed. */
export function publicNkey(seed: string): string {
  return publicKeys.get(seed) ?? remember(seed, keyOf(seed).publicKey);
}

/** The token with this payload, signed with the seed of its issuer. Rejects when the payload names another issuer. */
export async function signJwt(payload: object, seed: string): Promise<string> {
  const { text, key } = unsignedJwt(payload, seed);
  return jwtWith(text, await signed(Buffer.from(text), key));
}

/** What a token with this payload is signed over, and the key that signs. Throws when the payload names another issuer. */
export function unsignedJwt(payload: object, seed: string): { text: string; key: KeyObject } {
  const { publicKey: issuer, key } = signerOf(seed);
  const named = (payload as { iss?: unknown }).iss;
  if (named !== issuer) throw new Error(`a token of the issuer ${named} cannot be signed with the key ${issuer}`);
  return { text: `${HEADER}.${encoded(payload)}`, key };
}

/** The token of a text and its signature. */
export const jwtWith = (text: string, signature: Buffer): string => `${text}.${signature.toString('base64url')}`;

interface ReadKey {
  key: KeyObject;
  publicKey: string;
}

/** Keys that signed last, by their seeds: one account signs many users, and reading a key takes longer than signing. */
const signers = new Map<string, ReadKey>();
const MOST_SIGNERS = 64;

function signerOf(seed: string): ReadKey {
  const known = signers.get(seed);
  if (known) return known;
  const read = keyOf(seed);
  for (const oldest of signers.keys()) if (signers.size >= MOST_SIGNERS) signers.delete(oldest);
  signers.set(seed, read);
  return read;
}

function keyOf(text: string): ReadKey {
  const read = readSeed(text);
  // The text may be private: it is not part of the message.
  if (!read) throw new Error('not a seed of a key of the message bus');
  const der = Buffer.concat([PKCS8, read.seed]);
  const key = createPrivateKey({ key: der, type: 'pkcs8', format: 'der' });
  return { key, publicKey: publicKeyText(read.kind, rawPublic(createPublicKey(key))) };
}

const rawPublic = (key: KeyObject) => key.export({ type: 'spki', format: 'der' }).subarray(SPKI_PREFIX);

/** UTF-8, base64url without padding. */
function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
