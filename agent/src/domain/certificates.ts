import { X509Certificate } from 'node:crypto';

/** A certificate in PEM. */
const PEM = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+?-----END CERTIFICATE-----/g;
/** Certificates of one controller; the authorities of a system are more. */
export const MOST_CERTIFICATES = 16;

/** The certificates of a text, each in PEM, whether they can be read or not. */
export const certificateBlocks = (text: string): string[] => text.match(PEM) ?? [];

/** Whether a block is a certificate that can be read. */
export function isCertificate(block: string): boolean {
  try {
    return new X509Certificate(block).raw.length > 0;
  } catch {
    return false;
  }
}

/** Why a text is no list of authorities; undefined where it is one. Never repeats the text. */
export function certificateProblem(text: string): string | undefined {
  if (text.includes('PRIVATE KEY-----')) return 'must be certificates alone; there is a private key in it';
  const blocks = certificateBlocks(text);
  if (blocks.length === 0) return 'must be certificates in PEM (-----BEGIN CERTIFICATE-----); there is none';
  const unreadable = blocks.findIndex((block) => !isCertificate(block));
  return unreadable < 0 ? undefined : `certificate ${unreadable + 1} of ${blocks.length} cannot be read`;
}
