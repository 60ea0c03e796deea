import type { VolumeMount } from '../../../api/v3/index.ts';
import { type CrudHooks, crudRoutes } from '../../../rest/crud/crud.ts';
import { volumeMountKind } from '../kinds/volume-mount.ts';
import { contentSource, mountVersion } from '../rules/volume-mount/volume-mount.ts';

const { crud } = volumeMountKind.rest;

/** Reads of one volume mount show the version that its nodes get, also before the status has counted it. */
const hooks: CrudHooks<VolumeMount, { name?: string; spec: VolumeMount['spec'] }> = {
  read: async ({ lookups, references }, mount) => ({
    ...crud?.read(mount, references.find),
    version: mountVersion(mount, contentSource(mount, lookups)),
  }),
};

export const volumeMountRoutes = crud ? crudRoutes(volumeMountKind, crud, hooks) : [];
