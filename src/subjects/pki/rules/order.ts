import { ANNOTATIONS } from '../../../api/names.ts';
import { timeOf, toSecond } from './life.ts';

/**
 * When the renewal of an object was last requested, Unix ms: by REST, or by an annotation with a time of RFC 3339. A whole second,
 * since the certificate that carries the order out says when it was made, and certificates count seconds.
 */
export function orderOf({ metadata }: { metadata: { annotations?: Record<string, string> } }): number | undefined {
  const at = timeOf(metadata.annotations?.[ANNOTATIONS.renew]);
  return at === undefined ? undefined : toSecond(at);
}
