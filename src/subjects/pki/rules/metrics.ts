import type { Certificate } from '../../../api/v3/certificate.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import { timeOf } from './validity.ts';

/** How late a renewal may be before it counts as overdue: a new leader needs a moment, and reconciles are retried. */
const LATE_MS = 3_600_000;
/** The controller does not renew the key of another owner: that is overdue with this part of its life left. */
const LAST_PART = 1 / 10;

/** The state of a certificate, or of the certificate of an authority, for metrics. */
type State = 'valid' | 'overdue' | 'expired' | 'missing';

export function certificateState({ status }: Pick<Certificate | CertificateAuthority, 'status'>, now: number): State {
  const [notBefore, notAfter] = [timeOf(status?.notBefore), timeOf(status?.notAfter)];
  if (notBefore === undefined || notAfter === undefined) return 'missing';
  if (notAfter <= now) return 'expired';
  const last = notAfter - (notAfter - notBefore) * LAST_PART;
  return now > (timeOf(status?.renewalTime) ?? last) + LATE_MS ? 'overdue' : 'valid';
}

/** Certificates and authorities by their state; each state is there. */
export function certificateFigures(
  objects: Iterable<Pick<Certificate | CertificateAuthority, 'status'>>,
  now: number,
): ReadonlyMap<State, number> {
  const states = new Map<State, number>(['valid', 'overdue', 'expired', 'missing'].map((state) => [state as State, 0]));
  for (const object of objects) {
    const state = certificateState(object, now);
    states.set(state, (states.get(state) ?? 0) + 1);
  }
  return states;
}
