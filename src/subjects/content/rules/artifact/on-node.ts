import { BOUNDS } from '../../../../api/bounds.ts';
import type { ArtifactKind, EdgeNode, Registry } from '../../../../api/v3/index.ts';
import type { Lookups } from '../../../../rules/inputs.ts';
import { entryUuid } from '../../../../rules/names.ts';
import type { ArtifactView } from '../../../../wire/artifacts.ts';
import { byPlace, claimsOnNode } from '../../../nodes/rules/placement/claims-on-node.ts';
import { crowdOn } from '../../../nodes/rules/placement/crowd.ts';
import { artifactVerdict, nodeArtifact } from './artifact.ts';

/** An artifact that a node is to have, with its registry. */
export interface ArtifactOnNode {
  view: ArtifactView;
  registry: Registry;
  /** false when others that come before are as many as a node can have */
  fits: boolean;
}

/**
 * The artifacts of a kind that a node is to have: those that its entries bind, and those that are linked to it. Those of the
 * system come first, then those that the node reports, then those that entries bind, of older applications before younger ones.
 * An artifact that cannot be pulled is left out, and so is what an entry binds for which the node has no room.
 */
export function artifactsOn(kind: ArtifactKind, node: EdgeNode, lookups: Lookups): readonly ArtifactOnNode[] {
  const reported = new Set(node.status?.[kind]?.map(({ uuid }) => uuid));
  const crowd = crowdOn(node, lookups.applicationsOn(node), lookups);
  return claimsOnNode(kind, node, lookups, (entry, application) =>
    crowd.has(entryUuid(application, entry)) ? [] : (entry[kind]?.items ?? []).map(({ name }) => name),
  )
    .flatMap((claim) => {
      const artifact = lookups.find(kind, claim.name);
      const found =
        artifact && !artifactVerdict(kind, artifact, lookups.find) && nodeArtifact(kind, artifact, lookups.find);
      return found ? [{ ...claim, ...found, has: Number(reported.has(found.view.uuid)) }] : [];
    })
    .sort(byPlace)
    .map(({ view, registry }, i) => ({ view, registry, fits: i < BOUNDS.artifacts }));
}
