import type { KeyAlgorithm } from '../../../api/v3/issued.ts';
import { isAddress } from './hosts.ts';
import { type CertificateFacts, comparable, isSignedBy, type PemPair, readPair } from './pair.ts';
import { jitterOf, madeAt, renewalOf, startOf, type Validity, validityOf } from './validity.ts';

/** What an object asks of its certificate. */
export interface Wanted {
  subject: string;
  hosts: readonly string[];
  algorithm: KeyAlgorithm;
  /** ms */
  life: number;
  /** Unix ms of the object's creation */
  createdAt?: number | undefined;
  /** Unix ms of the last order to renew it */
  orderedAt?: number | undefined;
}

/** What signs now. */
export interface SigningAuthority {
  certificate: CertificateFacts;
  /** earlier certificates of the authority, and its next one: all that machines trust besides */
  others: readonly CertificateFacts[];
  /** Unix ms since when it signs */
  since: number;
}

/** Either a certificate has to be made, with this validity, or the present one stays; until `renewAt` (Unix ms), if that is known. */
export type Due = { issue: Validity; because: string } | { issue?: undefined; renewAt: number | undefined };

/** An end that differs by less is the same: X.509 counts seconds. */
const SAME_MS = 2_000;
/** A renewal that gains less is none. */
const LEAST_GAIN_MS = 60_000;
/** What a former key signed is made anew within this time after the next one took over. */
const SPREAD_MS = 2 * 3_600_000;

/**
 * Whether an object needs a new certificate. `have` is the present one, if there is one whose key is there; `signer` is
 * absent for what signs itself.
 */
export function dueOf(
  wanted: Wanted,
  have: CertificateFacts | undefined,
  signer: SigningAuthority | undefined,
  now: number,
): Due {
  const { life, orderedAt } = wanted;
  const end = signer?.certificate.notAfter;
  const issue = validityOf(startOf(now, have ? undefined : wanted.createdAt, orderedAt), life, end);
  if (!have) return { issue, because: 'there is none' };
  if (have.notBefore > now) return { issue, because: 'a clock that was ahead made it' };
  const relation = relationOf(have, signer);
  const because = differenceOf(wanted, have) ?? (relation === 'other' ? 'something else signs it' : undefined);
  if (because !== undefined) return { issue, because };
  if (relation === 'signer' && isOtherEnd(have.notAfter, validityOf(madeAt(have), life, end).notAfter))
    return { issue, because: 'its life is another' };
  const renewal = renewalOf(have, have.fingerprint);
  const times = [
    ...(orderedAt !== undefined && orderedAt > madeAt(have) ? [orderedAt] : []),
    ...(relation === 'former' && signer ? [signer.since + SPREAD_MS * jitterOf(have.fingerprint)] : []),
    // What ends with its authority cannot be renewed before it.
    ...(validityOf(renewal, life, end).notAfter - have.notAfter >= LEAST_GAIN_MS ? [renewal] : []),
  ];
  const renewAt = times.length > 0 ? Math.min(...times) : undefined;
  return renewAt !== undefined && renewAt <= now ? { issue, because: 'its time has come' } : { renewAt };
}

/** The facts of a new certificate. A certificate that would be replaced at once is refused: nothing may be made over and over. */
export function requireLasting(
  wanted: Wanted,
  made: PemPair,
  signer: SigningAuthority | undefined,
  now: number,
): CertificateFacts {
  const facts = readPair(made);
  if ('problem' in facts) throw new Error(`the new certificate cannot be read: ${facts.problem}`);
  const due = dueOf(wanted, facts, signer, now);
  if (due.issue) throw new Error(`the new certificate is not what was asked for: ${due.because}`);
  return facts;
}

/** Whether the present key of the authority signed a certificate, another one of its keys, or something else. */
function relationOf(have: CertificateFacts, signer: SigningAuthority | undefined): 'signer' | 'former' | 'other' {
  if (!signer) return have.isSelfSigned ? 'signer' : 'other';
  if (isSignedBy(have, signer.certificate)) return 'signer';
  return signer.others.some((other) => isSignedBy(have, other)) ? 'former' : 'other';
}

const isOtherEnd = (end: number, asked: number) => Math.abs(end - asked) >= SAME_MS;

function differenceOf({ subject, hosts, algorithm }: Wanted, have: CertificateFacts): string | undefined {
  if (have.subject !== subject) return 'its subject is another';
  if (have.algorithm !== algorithm) return 'its key is of another algorithm';
  const asked = [...new Set(hosts.map(comparable))].sort();
  return asked.join() === have.hosts.join() ? undefined : 'its hosts are others';
}

/** The names of a certificate as SubjectAltName has them: an address is there as name too, since some programs compare names only. */
export const alternativeNames = (hosts: readonly string[]): readonly { type: 'dns' | 'ip'; value: string }[] =>
  hosts.flatMap((host) => [
    { type: 'dns' as const, value: host },
    ...(isAddress(host) ? [{ type: 'ip' as const, value: host }] : []),
  ]);
