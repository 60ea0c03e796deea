import { PLATFORM_SECRET_PREFIX } from '../../../api/names.ts';

/**
 * The Secret with the keys of a node and their certificates: one for all, since each Secret is in the memory of every replica. What
 * machines trust is not in it, but in the Secrets of the authorities, so that another authority rewrites none of them.
 */
export const platformSecretName = (nodeUuid: string): string => `${PLATFORM_SECRET_PREFIX}${nodeUuid}`;

/** Bytes of its values: 8 keys of P-256 with their certificates take 10 KiB. */
export const MOST_BYTES = 12 * 1024;

/** Keys of the Secret for one certificate. */
export const certificateKeys = (name: string) => ({ certificate: `${name}.crt`, key: `${name}.key` });

/** Key of the Secret for one random key of the node. */
export const randomKey = (name: string): string => `${name}${RANDOM}`;
const RANDOM = '.random';
/** Whether a member of the Secret is such a key, as the controller makes it. */
export const isRandomKey = (key: string, value: string): boolean =>
  /^[a-z][a-z-]{0,31}\.random$/.test(key) && /^[A-Za-z0-9+/]{43}=$/.test(value);

/** Key of the Secret with the first end of its certificates, RFC 3339: whoever reads the Secret need not read certificates. */
export const EXPIRES = 'expires';

/** Key of the Secret with the `host` of the node that all of its certificates have; absent without a host. */
export const HOST = 'host';

/** The key with its certificate in the content of a Secret, as texts or in base64; undefined while there is none. */
export function pairIn(
  data: Readonly<Record<string, string>>,
  name: string,
): { cert: string; key: string } | undefined {
  const keys = certificateKeys(name);
  const [cert, key] = [data[keys.certificate], data[keys.key]];
  return cert !== undefined && key !== undefined ? { cert, key } : undefined;
}
