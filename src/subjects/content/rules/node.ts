import type { ArtifactKind, EdgeNode, Registry } from '../../../api/v3/index.ts';
import type { DesiredState, Lookups } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import { compareTexts } from '../../../rules/precedence.ts';
import { digestUnlessEmpty } from '../../../rules/section-digest.ts';
import type { Digests } from '../../../wire/sections.ts';
import { artifactsOn } from './artifact/on-node.ts';
import { mountForm, mountsOn, mountView } from './volume-mount/on-node.ts';

interface ContentSections extends Pick<DesiredState, 'models' | 'knowledge' | 'volumeMounts' | 'leftOut'> {
  /** the registries that artifacts are pulled from */
  registries: readonly Registry[];
  digests: Digests;
}

/** What a node gets besides containers: models, knowledge, volume mounts. A node that is being deleted gets no artifact. */
export function contentSections(node: EdgeNode, lookups: Lookups, isDeleting: boolean): ContentSections {
  const artifacts = (kind: ArtifactKind) => (isDeleting ? [] : artifactsOn(kind, node, lookups));
  const [allModels, allKnowledge] = [artifacts('models'), artifacts('knowledge')];
  const fitting = (all: typeof allModels) => all.filter(({ fits }) => fits);
  const views = (all: typeof allModels) =>
    fitting(all)
      .map(({ view }) => view)
      .sort((a, b) => compareTexts(a.uuid, b.uuid));
  const leftOut = (all: typeof allModels) => all.flatMap(({ fits, view }) => (fits ? [] : [view.name]));
  const mounts = mountsOn(node, lookups).toSorted((a, b) => (v3Name(a.mount) < v3Name(b.mount) ? -1 : 1));
  const [models, knowledge] = [views(allModels), views(allKnowledge)];
  return {
    models,
    knowledge,
    volumeMounts: mounts.map(mountView),
    leftOut: {
      models: leftOut(allModels),
      knowledge: leftOut(allKnowledge),
      volumeMounts: mounts.flatMap(({ fits, mount }) => (fits ? [] : [v3Name(mount)])),
    },
    registries: [...fitting(allModels), ...fitting(allKnowledge)].map(({ registry }) => registry),
    digests: {
      ...digestUnlessEmpty('models', models),
      ...digestUnlessEmpty('knowledge', knowledge),
      ...digestUnlessEmpty('volumeMounts', mounts.map(mountForm)),
    },
  };
}
