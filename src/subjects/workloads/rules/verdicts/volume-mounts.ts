import { BOUNDS } from '../../../../api/bounds.ts';
import { v3Name } from '../../../../rules/names.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { mappingVerdict, volumeMountsOf } from '../../../content/rules/volume-mount/mapping.ts';
import type { VerdictInput } from './rule.ts';

/** The volume mounts that an entry names exist, have what it mounts, and reach its node. */
export function volumeMountsResolve({ entry, node, lookups, mounts }: VerdictInput): Verdict | undefined {
  const mappings = (entry.container.volumes ?? []).filter(({ type }) => type === 'volumeMount');
  for (const mapping of mappings) {
    const refused = mappingVerdict(mapping, lookups);
    if (refused) return refused;
  }
  const names = node ? volumeMountsOf(entry) : [];
  const left =
    names.length > 0 && node
      ? mounts(node).find(({ mount, fits }) => !fits && names.includes(v3Name(mount)))
      : undefined;
  if (!left) return undefined;
  return {
    reason: 'VolumeMountsTooLarge',
    status: 400,
    code: 'VOLUME_MOUNTS_TOO_LARGE',
    field: 'container.volumes',
    message: `volume mount ${v3Name(left.mount)}: the volume mounts of a node have at most ${BOUNDS.volumeMountBytes} bytes of base64, and this one does not fit`,
  };
}
