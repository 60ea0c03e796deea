import { X509Certificate } from 'node:crypto';
import type { Log } from '../../../src/lib/log.ts';
import { readText, writeDurably } from '../machine/disk.ts';
import { errorText } from '../machine/log.ts';
import { type SelfSigned, selfSigned } from './self-signed.ts';

/**
 * The certificate of the local API for containers, in a file of its own that its owner alone reads. Without the file, or
 * where it cannot be read, there is a new one, which containers get with their tokens.
 */
export function serverCertificate(path: string, host: string, log: Log): SelfSigned {
  const known = read(path, host);
  if (known) return known;
  const made = selfSigned(host, [host, 'localhost']);
  try {
    writeDurably(path, JSON.stringify(made), 0o600);
  } catch (error) {
    const text = errorText(error);
    log.warn({ error: text }, 'Cannot save the certificate of the local API; the next start makes another one');
  }
  return made;
}

function read(path: string, host: string): SelfSigned | undefined {
  try {
    const { cert, key } = JSON.parse(readText(path) ?? '{}') as Partial<SelfSigned>;
    if (cert === undefined || key === undefined) return undefined;
    return new X509Certificate(cert).checkHost(host) ? { cert, key } : undefined;
  } catch {
    return undefined;
  }
}
