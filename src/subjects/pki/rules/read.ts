import type { Certificate } from '../../../api/v3/certificate.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import { isOwn, KEYS, type Texts, wantedOfAuthority } from './authority.ts';
import { authorityNameOf, wantedOfCertificate } from './certificate.ts';
import { hostsOf } from './hosts.ts';
import { readCertificates } from './pair.ts';
import { startOf, textOfTime, timeOf, type Validity, validityOf } from './validity.ts';

type Json = Record<string, unknown>;

const DAY_MS = 24 * 3_600_000;

/** Certificates and authorities as the v3 API shows them: snake_case, dates of the certificate itself. */

/** The validity of the certificate of an object; before there is one, that which it gets. */
function validityShown(
  status: { notBefore?: string | undefined; notAfter?: string | undefined } | undefined,
  planned: () => Validity | undefined,
): Validity | undefined {
  const [notBefore, notAfter] = [timeOf(status?.notBefore), timeOf(status?.notAfter)];
  return notBefore !== undefined && notAfter !== undefined ? { notBefore, notAfter } : planned();
}

export function authorityValidity(authority: CertificateAuthority, now: number): Validity | undefined {
  const { createdAt, life } = wantedOfAuthority(authority);
  return validityShown(authority.status, () =>
    isOwn(authority) ? validityOf(startOf(Math.max(now, createdAt ?? now), createdAt), life) : undefined,
  );
}

/** `authority` is what signs the certificate, if it is an object. */
export function certificateValidity(
  certificate: Certificate,
  authority: CertificateAuthority | undefined,
  now: number,
) {
  const { createdAt, life } = wantedOfCertificate(certificate);
  return validityShown(certificate.status, () =>
    validityOf(
      startOf(Math.max(now, createdAt ?? now), createdAt),
      life,
      authority && authorityValidity(authority, now)?.notAfter,
    ),
  );
}

/** The validity after a renewal that was ordered at `orderedAt`. */
export const renewedValidity = (
  certificate: Certificate,
  orderedAt: number,
  authorityEnd: number | undefined,
): Validity => validityOf(orderedAt, wantedOfCertificate(certificate).life, authorityEnd);

export const datesOf = (validity: Validity | undefined): Json => ({
  valid_from: validity ? textOfTime(validity.notBefore) : null,
  valid_to: validity ? textOfTime(validity.notAfter) : null,
});

const ageOf = (validity: Validity | undefined, now: number): Json => ({
  days_remaining: validity ? Math.max(0, Math.ceil((validity.notAfter - now) / DAY_MS)) : null,
  is_expired: validity !== undefined && validity.notAfter <= now,
});

export function authorityRead(authority: CertificateAuthority, now: number): Json {
  const validity = authorityValidity(authority, now);
  return {
    name: authority.metadata.name,
    type: authority.spec.type ?? 'self-signed',
    subject: (isOwn(authority) ? undefined : authority.status?.subject) ?? wantedOfAuthority(authority).subject,
    is_ca: true,
    ...datesOf(validity),
    ...ageOf(validity, now),
    serial_number: authority.status?.serialNumber ?? null,
    ...(authority.spec.secretName !== undefined && { secretName: authority.spec.secretName }),
  };
}

export function certificateRead(
  certificate: Certificate,
  authority: CertificateAuthority | undefined,
  now: number,
): Json {
  const validity = certificateValidity(certificate, authority, now);
  return {
    name: certificate.metadata.name,
    subject: certificate.spec.subject,
    hosts: hostsOf(certificate.spec.hosts).join(','),
    is_ca: false,
    ca_name: authorityNameOf(certificate) ?? null,
    ...datesOf(validity),
    ...ageOf(validity, now),
    serial_number: certificate.status?.serialNumber ?? null,
  };
}

/** What a read of one object shows of its Secret: the certificates, and the key to those who may read keys. */
export function dataRead(texts: Texts | undefined, mayReadKey: boolean): Json {
  if (!texts) return {};
  const { [KEYS.certificate]: certificate, [KEYS.key]: key, [KEYS.trusted]: trusted } = texts;
  return {
    data: {
      ...(certificate !== undefined && { certificate }),
      ...(trusted !== undefined && { ca: trusted }),
      ...(mayReadKey && key !== undefined && { private_key: key }),
    },
  };
}

/** The certificate and what signed it, the nearest first. */
export const chainRead = (texts: Texts | undefined): Json => ({
  certificate_chain: uniqueByFingerprint([
    ...readCertificates(texts?.[KEYS.certificate] ?? ''),
    ...readCertificates(texts?.[KEYS.trusted] ?? ''),
  ]).map(({ subject, issuer, serialNumber, ...validity }) => ({
    subject,
    issuer,
    serial_number: serialNumber,
    ...datesOf(validity),
  })),
});

const uniqueByFingerprint = <T extends { fingerprint: string }>(all: readonly T[]): T[] => [
  ...new Map(all.map((one) => [one.fingerprint, one])).values(),
];
