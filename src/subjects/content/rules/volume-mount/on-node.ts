import { BOUNDS } from '../../../../api/bounds.ts';
import type { EdgeNode, EdgeNodeStatus, VolumeMount } from '../../../../api/v3/index.ts';
import { uuidOf } from '../../../../rules/identity.ts';
import type { KeyedText, Lookups } from '../../../../rules/inputs.ts';
import { v3Name } from '../../../../rules/names.ts';
import { compareTexts } from '../../../../rules/precedence.ts';
import type { VolumeMountView } from '../../../../wire/volume-mounts.ts';
import { byPlace, claimsOnNode } from '../../../nodes/rules/placement/claims-on-node.ts';
import { contentOf, sizeOf, sizeOfData } from '../core-objects/content.ts';
import { volumeMountsOf } from './mapping.ts';
import { contentName, contentSource, mountSourceOf, mountVersion, volumeMountVerdict } from './volume-mount.ts';

/** A volume mount of a node. */
export interface MountOnNode {
  mount: VolumeMount;
  source: KeyedText | undefined;
  /** whether the node gets the content; without it the agent keeps what it has */
  isSent: boolean;
  /** false when others that come before are as much as a node gets */
  fits: boolean;
}

/**
 * The volume mounts of a node: those that its entries use and those that are linked to it, up to the bound of a node. Those of
 * the system come first, then those that the node was sent as large as they are, then those that have grown since, then those that
 * entries use, of older applications before younger ones. Until content that has grown fits, the node keeps what it has, and
 * nothing else gets that room.
 */
export function mountsOn(node: EdgeNode, lookups: Lookups): readonly MountOnNode[] {
  const sent = new Map(node.status?.volumeMounts?.map(({ uuid, size }) => [uuid, size]));
  const claims = claimsOnNode('volumeMounts', node, lookups, volumeMountsOf).flatMap((claim) => {
    const mount = lookups.find('volumeMounts', claim.name);
    if (!mount) return [];
    const source = contentSource(mount, lookups);
    const isUsable = source !== undefined && !volumeMountVerdict(mount, source);
    const recorded = sent.get(uuidOf(mount));
    const has = !source || recorded === undefined ? 0 : recorded < sizeOf(source) ? 1 : 2;
    return [{ ...claim, has, mount, source, isUsable, recorded }];
  });
  let room = BOUNDS.volumeMountBytes;
  return claims.sort(byPlace).map(({ mount, source, isUsable, recorded = 0 }) => {
    if (!source || !isUsable) return { mount, source, isSent: false, fits: true };
    const fits = sizeOf(source) <= room;
    room -= fits ? sizeOf(source) : Math.min(room, recorded);
    return { mount, source, isSent: fits, fits };
  });
}

/**
 * What a status records of the volume mounts that a node was sent, by which they come before others. Of one that is not sent now,
 * the node keeps what it has. What was recorded before stays recorded before what is new.
 */
export function sentMounts(
  before: EdgeNodeStatus['volumeMounts'] = [],
  views: readonly VolumeMountView[],
): NonNullable<EdgeNodeStatus['volumeMounts']> {
  const known = new Map(before.map(({ uuid, size }) => [uuid, size]));
  const rank = ({ uuid }: { uuid: string }) => (known.has(uuid) ? 0 : 1);
  return views
    .flatMap(({ uuid, data, sourceMissing }) => {
      const size = sourceMissing ? known.get(uuid) : sizeOfData(data);
      return size === undefined ? [] : [{ uuid, size }];
    })
    .sort((a, b) => rank(a) - rank(b) || compareTexts(a.uuid, b.uuid))
    .slice(0, BOUNDS.sentVolumeMounts)
    .sort((a, b) => compareTexts(a.uuid, b.uuid));
}

/** A volume mount as its node gets it. */
export const mountView = ({ mount, source, isSent }: MountOnNode): VolumeMountView => ({
  uuid: uuidOf(mount),
  name: v3Name(mount),
  version: mountVersion(mount, source),
  type: mountSourceOf(mount).type,
  data: isSent && source ? contentOf(source) : {},
  sourceMissing: !isSent,
});

/** A volume mount in a read of its node. */
export function mountShown({ mount, source }: Pick<MountOnNode, 'mount' | 'source'>): Record<string, unknown> {
  const { secretName, configMapName } = mount.spec;
  return {
    name: v3Name(mount),
    version: mountVersion(mount, source),
    ...(configMapName && { configMapName }),
    ...(secretName && { secretName }),
  };
}

/** What tells one view of a volume mount from another, without its content. */
export const mountForm = (one: MountOnNode): unknown => {
  const { data: _, ...view } = mountView(one);
  return [view, one.isSent && one.source && contentName(one.mount, one.source)];
};
