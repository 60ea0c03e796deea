import { BOUNDS } from '../../api/bounds.ts';
import type { EdgeNode, VolumeMount } from '../../api/v3/index.ts';
import type { VolumeMountView } from '../../wire/volume-mounts.ts';
import { placedOn } from '../application/entries.ts';
import { contentOf, sizeOf } from '../core-objects/content.ts';
import type { KeyedText, Lookups } from '../inputs.ts';
import { uuidOf, v3Name } from '../names.ts';
import { byAge } from '../precedence.ts';
import { volumeMountsOf } from './mapping.ts';
import { contentName, contentSource, mountVersion, sourceOf, volumeMountVerdict } from './volume-mount.ts';

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
 * The volume mounts of a node: those that its entries use, of older applications first, then those that are linked to it, up
 * to the bound of a node.
 */
export function mountsOn(node: EdgeNode, lookups: Lookups): readonly MountOnNode[] {
  const applications = [...lookups.applicationsOn(node)].sort(byAge);
  const entriesOf = placedOn(node, lookups);
  const used = applications.flatMap((application) => entriesOf(application).flatMap(volumeMountsOf));
  const linked = [...lookups.linkedTo(node)('volumeMounts')].sort(byAge).map(v3Name);
  let room = BOUNDS.volumeMountBytes;
  return [...new Set([...used, ...linked])].flatMap((name): readonly MountOnNode[] => {
    const mount = lookups.find('volumeMounts', name);
    if (!mount) return [];
    const source = contentSource(mount, lookups);
    if (!source || volumeMountVerdict(mount, source)) return [{ mount, source, isSent: false, fits: true }];
    const fits = sizeOf(source) <= room;
    if (fits) room -= sizeOf(source);
    return [{ mount, source, isSent: fits, fits }];
  });
}

/** A volume mount as its node gets it. */
export const mountView = ({ mount, source, isSent }: MountOnNode): VolumeMountView => ({
  uuid: uuidOf(mount),
  name: v3Name(mount),
  version: mountVersion(mount, source),
  type: sourceOf(mount).type,
  data: isSent && source ? contentOf(source) : {},
  sourceMissing: !isSent,
});

/** What tells one view of a volume mount from another, without its content. */
export const mountForm = (one: MountOnNode): unknown => {
  const { data: _, ...view } = mountView(one);
  return [view, one.isSent && one.source && contentName(one.mount, one.source)];
};
