import type { RawDraft, RawEntry, Surface } from './draw.ts';
import { slot } from './fleet.ts';
import { NO_ID } from './forms.ts';
import { type Draft, type Entry, find, isMissing, of, type Ref, type Refusal, type State } from './model.ts';

/** What the names in drawn operations mean at the time when an operation is carried out. */

function registryRef(state: State, name: string, surface: Surface): Ref {
  const known = name === 'remote' ? find(state, { to: 'registries', ref: 1 }) : slot(state, 'registries', name);
  // Names are for those who know the objects.
  if (surface === 'kubectl') return { to: 'registries', ref: known?.name ?? name };
  return { to: 'registries', ref: known?.id ?? NO_ID };
}

export const resolved = (state: State, raw: RawDraft, surface: Surface): Draft => ({
  ...raw,
  registry: registryRef(state, raw.registry, surface),
  source: { to: raw.source.to, ref: raw.source.name },
  isActivated: true,
});

/** An entry; `sent` names its template, and `missing` are the refusals when that does not exist. */
export function resolvedEntry(
  state: State,
  name: string,
  { node, byUuid, catalog, registry, template: named, env, ...rest }: RawEntry,
  surface: Surface,
): { entry: Entry; sent: Entry & { template?: string }; missing: Refusal[] } {
  // kubectl names no template in these sequences.
  const template = surface === 'kubectl' ? undefined : named;
  // A uuid may name a younger node of the name.
  const at = of(state, 'nodes').findLast(({ name }) => name === node);
  const item = catalog === undefined ? undefined : find(state, { to: 'catalogItems', ref: catalog });
  const ofTemplate = template === undefined ? undefined : find(state, { to: 'microserviceTemplates', ref: template });
  const entry: Entry = {
    ...rest,
    name,
    node: byUuid && at?.uuid ? { uuid: at.uuid } : { name: node },
    ...(ofTemplate && { image: ofTemplate.draft.image }),
    ...(catalog !== undefined &&
      template === undefined && {
        catalog: { to: 'catalogItems', ref: surface === 'json' ? (item?.id ?? NO_ID) : catalog } as Ref,
      }),
    ...(registry !== undefined &&
      catalog === undefined &&
      template === undefined && { registry: registryRef(state, registry, surface) }),
    ...(env && { env: { source: { to: env.source.to, ref: env.source.name }, key: env.key } }),
    isActivated: true,
    rebuilds: 0,
  };
  const missing = template !== undefined && !ofTemplate ? [isMissing('microserviceTemplates')] : [];
  return { entry, sent: { ...entry, template }, missing };
}
