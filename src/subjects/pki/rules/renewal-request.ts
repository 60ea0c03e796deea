import { ANNOTATIONS } from '../../../api/names.ts';
import { madeAt, timeOf, toSecond } from './validity.ts';

/**
 * When the renewal of an object was last requested, Unix ms: by REST, or by an annotation with a time of RFC 3339. A whole second,
 * since the certificate that carries the order out says when it was made, and certificates count seconds.
 */
export function orderOf({ metadata }: { metadata: { annotations?: Record<string, string> } }): number | undefined {
  const at = timeOf(metadata.annotations?.[ANNOTATIONS.renew]);
  return at === undefined ? undefined : toSecond(at);
}

const SECOND_MS = 1_000;
/** Clocks of replicas differ by less. */
const SKEW_MS = 10 * 60_000;

/**
 * The time of an order that is given now, Unix ms: a second after the certificate was made at the earliest, since an order is carried
 * out when the certificate is older. It was made by the clock of another replica, at the creation of the object, or for a former order.
 */
export function orderAfter(
  object: { metadata: { creationTimestamp?: string; annotations?: Record<string, string> }; status?: Dates },
  now: number,
): number {
  const at = toSecond(now);
  const notBefore = timeOf(object.status?.notBefore);
  const former = orderOf(object);
  const made = [
    timeOf(object.metadata.creationTimestamp),
    notBefore === undefined ? undefined : madeAt({ notBefore }),
    // A former order for a later second is yet to be carried out.
    former !== undefined && former > at ? former - SECOND_MS : former,
  ];
  const recent = made.filter((one): one is number => one !== undefined && one >= at && one - at < SKEW_MS);
  return Math.max(at, ...recent.map((one) => one + SECOND_MS));
}
type Dates = { notBefore?: string | undefined } | undefined;
