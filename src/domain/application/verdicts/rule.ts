import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import type { Lookups, Verdict } from '../../inputs.ts';
import type { NormalEntry } from '../../microservice/normal-form.ts';
import type { PortClaim } from '../ports.ts';

/** What one rule looks at. */
export interface VerdictInput {
  application: Application;
  entry: NormalEntry;
  uuid: string;
  /** the node that the entry names, once found */
  node?: EdgeNode;
  lookups: Lookups;
  /** set for a write before it is made: every other claim of a port counts, not only that of the holder */
  writing?: boolean;
  /** claims of the node's ports, computed once for all entries that are judged together */
  claims: (node: EdgeNode) => readonly PortClaim[];
  /** uuids of the microservices that the node has no room for, computed once as well */
  crowd: (node: EdgeNode) => ReadonlySet<string>;
  /** whether an entry may not run as asked, independent of ports */
  isRefused: (entry: NonNullable<PortClaim['runs']>) => boolean;
}

/** A rule returns a verdict, or undefined when it has no objection. */
export type VerdictRule = (input: VerdictInput) => Verdict | undefined;
