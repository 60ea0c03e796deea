import type { VerdictReason } from '../api/conditions.ts';
import type { RestErrorCode } from '../api/error-codes.ts';

/**
 * Why an entry may not run as asked. REST and kubectl get the same verdict: REST responds with `status` and `code`, the
 * reconciler sets Ready=False with `reason`.
 */
export interface Verdict {
  reason: VerdictReason;
  message: string;
  /** HTTP status of the response to a write with this verdict */
  status: 400 | 403 | 404 | 409;
  /** code of the REST error body (docs/spec/rest-v3.md#error-codes) */
  code: RestErrorCode<400 | 403 | 404 | 409>;
  /** path of the field in the entry, spelled as in the YAML form */
  field?: string;
  /** paths of the entry that the message names; a JSON body has other names for them */
  names?: readonly string[];
  /** true when the reason passes without an edit, for example while a port is being given up */
  passes?: true;
}
