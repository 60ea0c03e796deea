import type { Application, ApplicationStatus, EdgeNode } from '../../api/v3/index.ts';
import type { DesiredState, Liveness, Verdict } from '../inputs.ts';

/** What the status of an application is computed from. */
export interface ApplicationStatusInputs {
  application: Application;
  /** negative verdicts by entry name, as `verdicts` gives them */
  verdicts: ReadonlyMap<string, Verdict>;
  /** every node that an entry names or that still reports one of the application's microservices */
  nodes: readonly NodeFacts[];
  /** RFC 3339 */
  now: string;
}

export interface NodeFacts {
  node: EdgeNode;
  liveness: Liveness;
  desired: Pick<DesiredState, 'microservices'>;
}

/** Status of an application. Stable: the same facts give the same status, transition times included. */
export function applicationStatus(_inputs: ApplicationStatusInputs): ApplicationStatus {
  throw new Error('not written yet');
}
