import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** The key of releases, both halves in PEM. */
export interface SigningKey {
  privateKey: string;
  publicKey: string;
}

/** A key that cannot sign; the message is for who typed the command. */
export class KeyRefused extends Error {}

/** Reads the private key that signs a release. Throws KeyRefused. */
export function readSigningKey(path: string): SigningKey {
  const refused = (reason: string) =>
    new KeyRefused(`KEY=${path}: ${reason}; a new key: openssl genpkey -algorithm ed25519 -out ${path}`);
  let privateKey: string;
  try {
    privateKey = readFileSync(path, 'utf8');
  } catch (error) {
    throw refused(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  let key: KeyObject;
  try {
    key = createPrivateKey(privateKey);
  } catch {
    throw refused('is no private key in PEM');
  }
  if (key.asymmetricKeyType !== 'ed25519') throw refused(`is a key of the type ${key.asymmetricKeyType}, not ed25519`);
  return { privateKey, publicKey: createPublicKey(key).export({ type: 'spki', format: 'pem' }).toString() };
}
