import { createPublicKey, type KeyObject, verify } from 'node:crypto';

/** Signatures of releases of the agent: docs/spec/agent-channel.md#releases. */

/** The public keys of a PEM text, one or several; throws when one is not an Ed25519 key. */
export function releaseKeys(pem: string): KeyObject[] {
  const blocks = pem.match(/-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g) ?? [];
  if (blocks.length === 0) throw new Error('there is no public key in it (PEM)');
  return blocks.map((block) => {
    const key = createPublicKey(block);
    if (key.asymmetricKeyType !== 'ed25519') throw new Error(`a key is of type ${key.asymmetricKeyType}, not ed25519`);
    return key;
  });
}

/** Whether one of the keys has signed exactly these bytes; the signature is base64. */
export function isSigned(bytes: Buffer, signature: string, keys: readonly KeyObject[]): boolean {
  const signed = Buffer.from(signature.trim(), 'base64');
  return keys.some((key) => verify(null, bytes, key, signed));
}
