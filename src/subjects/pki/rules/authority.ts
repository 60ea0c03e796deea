import { AUTHORITY_SECRET_PREFIX, LABELS, SYSTEM_AUTHORITIES, SYSTEM_CERTIFICATES } from '../../../api/names.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import { onceEach } from '../../../rules/once-each.ts';
import type { SigningAuthority, Wanted } from './due.ts';
import { type CertificateFacts, type PemPair, readCertificates, readPair } from './pair.ts';
import { orderOf } from './renewal-request.ts';
import { handoverOf, lifeOf, madeAt, timeOf } from './validity.ts';

/** Text by key of a Secret with a key and its certificate. */
export type Texts = Readonly<Record<string, string>>;

/** Keys of such a Secret. The `former` ones are there while a former key still signs. */
export const KEYS = {
  certificate: 'tls.crt',
  key: 'tls.key',
  trusted: 'ca.crt',
  formerCertificate: 'former.crt',
  formerKey: 'former.key',
} as const;

/** Certificates of one authority that machines trust at the same time, the newest first. */
const MOST_TRUSTED = 8;

/** Name of the Secret of an authority: its key, where the controller makes it, and what machines trust. */
export const authoritySecretName = (name: string): string => `${AUTHORITY_SECRET_PREFIX}${name}`;

/** Whether an authority signs for the controller alone. */
export const isSystemAuthority = (name: string): boolean => SYSTEM_AUTHORITIES.includes(name);

/** Whether a certificate is for the controller alone. */
export const isSystemCertificate = (name: string): boolean => SYSTEM_CERTIFICATES.includes(name);

/** Whether the controller makes the key of an authority. */
export const isOwn = ({ spec }: CertificateAuthority): boolean =>
  spec.type === undefined || spec.type === 'self-signed';

/** What an authority asks of its certificate. */
export const wantedOfAuthority = (authority: CertificateAuthority): Wanted => ({
  subject: authority.spec.subject ?? authority.metadata.name,
  hosts: [],
  algorithm: authority.spec.keyAlgorithm ?? 'ECDSA',
  life: lifeOf(authority.spec.expiration),
  createdAt: timeOf(authority.metadata.creationTimestamp),
  orderedAt: orderOf(authority),
});

/** A key with its certificate, as text and as it says of itself. */
export interface ReadPair {
  pem: PemPair;
  facts: CertificateFacts;
}

/** What an authority can sign with. */
export interface AuthorityKeys {
  current: ReadPair;
  /** signs until the certificate of the current key is everywhere */
  former?: ReadPair;
  /** certificates that machines trust, besides the certificate of the current key */
  others: readonly CertificateFacts[];
}

/** The keys of an authority in a Secret, or why it has none. */
export function keysIn(texts: Texts): AuthorityKeys | { problem: string } {
  const current = pairIn(texts, KEYS.certificate, KEYS.key);
  if ('problem' in current) return current;
  if (!current.facts.isAuthority) return { problem: 'the certificate in tls.crt is none of an authority' };
  const former = pairIn(texts, KEYS.formerCertificate, KEYS.formerKey);
  const others = readCertificates(texts[KEYS.trusted] ?? '').filter(
    ({ fingerprint }) => fingerprint !== current.facts.fingerprint,
  );
  return { current, ...(!('problem' in former) && { former }), others };
}

function pairIn(texts: Texts, certificate: string, key: string): ReadPair | { problem: string } {
  const pem = { cert: texts[certificate] ?? '', key: texts[key] ?? '' };
  const facts = readPair(pem);
  return 'problem' in facts ? facts : { pem, facts };
}

/** What signs at a time: with which pair, and until when (Unix ms) while a next key waits. */
export interface SignerNow extends SigningAuthority {
  pair: ReadPair;
  until?: number;
}

export function signerOf({ current, former, others }: AuthorityKeys, now: number): SignerNow {
  if (!former) return { pair: current, certificate: current.facts, others, since: madeAt(current.facts) };
  const handover = handoverOf(current.facts, former.facts);
  if (now >= handover) return { pair: current, certificate: current.facts, others, since: handover };
  const rest = [current.facts, ...others.filter(({ fingerprint }) => fingerprint !== former.facts.fingerprint)];
  return { pair: former, certificate: former.facts, others: rest, since: 0, until: handover };
}

/**
 * What machines trust: the certificate of the current key, and former ones until they expire. Until then something
 * that a former key signed may be in use, also on a machine that was away.
 */
export const trustedOf = (
  current: CertificateFacts,
  others: readonly CertificateFacts[],
  now: number,
): readonly CertificateFacts[] =>
  [
    current,
    ...others.filter(({ fingerprint, notAfter }) => fingerprint !== current.fingerprint && notAfter > now),
  ].slice(0, MOST_TRUSTED);

/** The content of the Secret of an authority whose key the controller makes. `former` signs for some time. */
export const textsOfAuthority = (
  current: ReadPair,
  former: ReadPair | undefined,
  others: readonly CertificateFacts[],
  now: number,
): Texts => ({
  [KEYS.certificate]: current.pem.cert,
  [KEYS.key]: current.pem.key,
  [KEYS.trusted]: bundle(trustedOf(current.facts, others, now)),
  ...(former && { [KEYS.formerCertificate]: former.pem.cert, [KEYS.formerKey]: former.pem.key }),
});

export const bundle = (certificates: readonly CertificateFacts[]): string =>
  certificates.map(({ pem }) => pem).join('');

/** The certificates between what an authority signs and what machines trust: of an authority that another one signed. */
export const chainOf = onceEach(({ pem: { cert } }: ReadPair): string =>
  bundle(readCertificates(cert).filter(({ isSelfSigned }) => !isSelfSigned)),
);

/** Whether a Secret belongs to an object of ours, by its label. */
export const isSecretOf = (
  secret: { metadata: { labels?: Record<string, string> } },
  label: 'certificate' | 'authority',
  name: string,
): boolean => secret.metadata.labels?.[LABELS[label]] === name;
