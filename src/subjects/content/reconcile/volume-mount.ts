import type { ConfigMap, Secret } from '../../../api/resources.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { referenceKey } from '../../../kinds/definition.ts';
import { both, type Controller, keyOf, watching } from '../../../kube/mod.ts';
import { KINDS } from '../../kinds.ts';
import { textNameOf } from '../rules/core-objects/form.ts';
import { contentSource, countedVersion } from '../rules/volume-mount/volume-mount.ts';

/** VolumeMount: counts the changes of the mount and of its content. */
export function createVolumeMountController(deps: ControllerDependencies): Controller {
  const { stores, lookups } = deps;
  const mountsOf = (kind: 'secrets' | 'configMaps') => (source: Secret | ConfigMap) =>
    stores.volumeMounts.byIndex('ref', referenceKey({ to: kind, ref: textNameOf(source) })).map(keyOf);
  return createKindController(deps, KINDS.volumeMounts, {
    status: (mount) => countedVersion(mount, contentSource(mount, lookups)),
    watches: [
      watching(stores.secrets, both(mountsOf('secrets'))),
      watching(stores.configMaps, both(mountsOf('configMaps'))),
    ],
  });
}
