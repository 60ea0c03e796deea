import type { Application, EdgeNode, ObservedMicroservice } from '../../../../api/v3/index.ts';
import type { Progress } from '../../../../rules/conditions.ts';
import type { DesiredState, Liveness } from '../../../../rules/inputs.ts';
import type { MissingRule } from '../../../../rules/missing-rules.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import type { FormerNode, FormerNodeFacts, PlacementInputs } from '../../../nodes/rules/placement/moves.ts';

/** The inputs of the status of an application. */
export interface ApplicationStatusInputs {
  application: Application;
  /** NameTaken or UuidTaken, as `applicationVerdict` gives it; IdTaken, as `idVerdict` does */
  identity?: Verdict;
  /** negative verdicts by entry name, as `verdicts` gives them */
  verdicts: ReadonlyMap<string, Verdict>;
  /** names of entries that stay on the nodes that they are to leave, since the nodes that they name may not take them */
  staying?: ReadonlySet<string>;
  /** every node that an entry names or left, or that still reports one of the application's microservices */
  nodes: readonly NodeFacts[];
  /** nodes that an entry left before its first line was written, by its uuid */
  leftEarly?: PlacementInputs['leftEarly'];
  /** whether the installation has a message bus */
  isBusOn?: boolean;
  /** rules of the message bus that the application names and that do not exist */
  missingRules?: readonly MissingRule[];
  /** RFC 3339 */
  now: string;
}

export interface NodeFacts {
  node: EdgeNode;
  liveness: Liveness;
  desired: Pick<DesiredState, 'microservices'> & Partial<Pick<DesiredState, 'entries' | 'digests'>>;
  observation?: FormerNodeFacts['observation'];
}

/** One line of the status: an entry, or a removed entry that a node still reports. */
export interface StatusLine {
  name: string;
  uuid: string;
  /** the uuid belongs to another microservice: the stored line does not have it */
  isTaken?: boolean;
  node?: string;
  nodeUuid?: string;
  state: string;
  /** an entry that should run */
  wanted: boolean;
  /** number of rebuilds requested so far */
  rebuildCount?: number;
  progress: Progress;
  formerNodes?: readonly FormerNode[];
  item?: ObservedMicroservice;
}
