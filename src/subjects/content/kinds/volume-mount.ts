import { z } from 'zod';
import { labelName } from '../../../api/meta.ts';
import { type VolumeMount, volumeMountResource, volumeMountSpecSchema } from '../../../api/v3/volume-mount.ts';
import { defineKind } from '../../../kinds/definition.ts';
import type { FindReferenced } from '../../../kinds/object.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { type KindCrud, plainShapes } from '../../../kinds/rest.ts';
import type { KeyedText } from '../../../rules/inputs.ts';
import { type ConfigMapForm, type SecretForm, textOfConfigMap, textOfSecret } from '../rules/core-objects/form.ts';
import { contentSource, mountSourceOf, mountVersion, volumeMountVerdict } from '../rules/volume-mount/volume-mount.ts';

const plain = plainTranslation<VolumeMount>(volumeMountSpecSchema, { closed: true, name: labelName() });
const shapes = plainShapes(volumeMountResource, volumeMountSpecSchema);

const crud: KindCrud<VolumeMount> = {
  path: '/volumeMounts',
  list: 'volumeMounts',
  isBareList: true,
  replies: {
    create: { status: 200, body: 'object' },
    change: { status: 200, body: 'object' },
    delete: { status: 202 },
  },
  shapes: { ...shapes, read: z.intersection(shapes.read, z.looseObject({ version: z.number().int() })) },
  ...plain,
  /** A body with one source replaces the other one. */
  patch(mount, body) {
    const { secretName, configMapName } = (body ?? {}) as Record<string, unknown>;
    const given = [secretName, configMapName].filter((name) => name !== undefined && name !== null && name !== '');
    const { secretName: _s, configMapName: _c, ...spec } = mount.spec;
    return plain.patch(given.length === 1 ? ({ ...mount, spec } as VolumeMount) : mount, body);
  },
  read: (mount, find) => ({ ...plain.read(mount, find), version: mount.status?.version ?? 1 }),
  upload: { part: 'volumeMount', update: 'PATCH' },
};

export const volumeMountKind = defineKind<VolumeMount>()({
  key: 'volumeMounts',
  definition: volumeMountResource,
  lookedUp: true,
  noun: 'volume mount',
  access: 'workloads',
  inUse: { status: 409, code: 'VOLUME_MOUNT_IN_USE' },
  links: { reply: 'object', inUse: 'VOLUME_MOUNT_UNLINK_IN_USE' },
  // A change of the content counts at once: that the status counts it later concerns no node.
  readOfStatus: (mount, lookups) => mountVersion(mount, contentSource(mount, lookups)),
  references: (mount) => {
    const { kind, name } = mountSourceOf(mount);
    return [{ to: kind, ref: name }];
  },
  // One that nothing uses goes with its source (src/subjects/content/routes/core-objects.ts); otherwise its own users keep the source.
  referrers: () => [],
  verdict: (mount, find) => volumeMountVerdict(mount, mountSource(mount, find)),
  rest: { tag: 'Volume mounts', key: 'name', notFound: 'VOLUME_MOUNT_NOT_FOUND', crud },
  indexes: {},
});

/** The Secret or ConfigMap of a volume mount. */
function mountSource(mount: VolumeMount, find: FindReferenced): KeyedText | undefined {
  const { kind, name } = mountSourceOf(mount);
  const { core } = (find({ to: kind, ref: name }) ?? {}) as Partial<SecretForm | ConfigMapForm>;
  if (!core) return undefined;
  return kind === 'secrets' ? textOfSecret(core) : textOfConfigMap(core);
}
