import { join } from 'node:path';
import { Artifacts } from '../content/artifacts/artifacts.ts';
import { Projections } from '../content/artifacts/projection.ts';
import { ArtifactStore } from '../content/artifacts/store.ts';
import { localArtifactSchema } from '../local/artifacts.ts';
import { localRegistrySchema } from '../local/registries.ts';
import { localRuntimeClassSchema } from '../local/runtime-classes.ts';
import { openRows } from '../state/rows.ts';
import type { LocalAgentOptions } from './_local-agent.ts';

/** Registries, artifacts and runtime classes of the machine itself in a directory, as an agent has them. */
export function contentOnDisk(data: string) {
  const rows = (kind: string) => join(data, 'local', kind);
  return {
    localRegistries: openRows(rows('registries'), localRegistrySchema),
    localArtifacts: {
      models: openRows(rows('models'), localArtifactSchema),
      knowledge: openRows(rows('knowledge'), localArtifactSchema),
    },
    localRuntimeClasses: openRows(rows('runtime-classes'), localRuntimeClassSchema),
    artifacts: (needs) =>
      new Artifacts({
        ...needs,
        store: new ArtifactStore(join(data, 'artifacts')),
        projections: new Projections(join(data, 'volumes')),
      }),
  } satisfies LocalAgentOptions['deps'];
}
