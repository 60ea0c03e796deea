import type { Application, ArtifactKind, EdgeNode } from '../../../../api/v3/index.ts';
import type { Lookups } from '../../../../rules/inputs.ts';
import type { NormalEntry } from '../../../../rules/normal-entry.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import type { ArtifactOnNode } from '../../../content/rules/artifact/on-node.ts';
import type { MountOnNode } from '../../../content/rules/volume-mount/on-node.ts';
import type { PortClaim } from '../application/ports.ts';

/** The input of a rule. */
export interface VerdictInput {
  application: Application;
  entry: NormalEntry;
  uuid: string;
  /** the node that the entry names, when it exists */
  node?: EdgeNode;
  lookups: Lookups;
  /** true to check a write before it is made: every other claim of a port counts, not only that of the holder */
  writing?: boolean;
  /** claims of the node's ports, computed once for all entries that are judged together */
  claims: (node: EdgeNode) => readonly PortClaim[];
  /** uuids of the microservices that the node has no room for, computed once for all such entries */
  crowd: (node: EdgeNode) => ReadonlySet<string>;
  /** the volume mounts that the node gets, computed once for all entries that are judged together */
  mounts: (node: EdgeNode) => readonly MountOnNode[];
  /** the models and the knowledge that the node is to have, computed once for all entries that are judged together */
  artifacts: Readonly<Record<ArtifactKind, (node: EdgeNode) => readonly ArtifactOnNode[]>>;
  /** whether a rule other than those of ports refuses an entry */
  isRefused: (entry: NonNullable<PortClaim['runs']>) => boolean;
}

/** A rule returns a verdict, or undefined when it has no objection. */
export type VerdictRule = (input: VerdictInput) => Verdict | undefined;
