import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import type { Lookups, Verdict } from '../../inputs.ts';
import type { NormalEntry } from '../../microservice/normal-form.ts';
import type { PortClaim } from '../ports.ts';

/** What one policy looks at. */
export interface VerdictInput {
  application: Application;
  entry: NormalEntry;
  uuid: string;
  /** the node that the entry names, once found */
  node?: EdgeNode;
  lookups: Lookups;
  /** a user is about to write this: every other claim of a port counts, not only the holder's */
  writing?: boolean;
  /** claims of the node's ports; made once for all entries that are judged together */
  claims: (node: EdgeNode) => readonly PortClaim[];
  /** uuids of the microservices that the node has no room for; made once as well */
  crowd: (node: EdgeNode) => ReadonlySet<string>;
  /** whether an entry may not run as asked, whatever ports there are */
  isRefused: (entry: NonNullable<PortClaim['runs']>) => boolean;
}

/** One rule: a verdict, or nothing to say. */
export type VerdictRule = (input: VerdictInput) => Verdict | undefined;
