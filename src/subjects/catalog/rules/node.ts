import type { Registry } from '../../../api/v3/index.ts';
import type { NodeInputs } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import { digestUnlessEmpty, sectionDigest } from '../../../rules/section-digest.ts';
import type { RegistryView, RuntimeClassView } from '../../../wire/agent.ts';
import type { Digests } from '../../../wire/sections.ts';
import { normalRegistry } from './registry.ts';

interface CatalogSections {
  registries: readonly RegistryView[];
  runtimeClasses: readonly RuntimeClassView[];
  digests: Digests;
}

/**
 * What a node gets of the catalog: the registries that it pulls from, and the runtime classes that are linked to it or that its
 * entries name. An agent fetches an empty list of registries once.
 */
export function catalogSections(
  uses: { registries: Iterable<Registry>; runtimes: ReadonlySet<string> },
  { find, linked, registryPassword }: Pick<NodeInputs, 'find' | 'linked' | 'registryPassword'>,
): CatalogSections {
  const views = new Map<number, RegistryView>();
  for (const registry of uses.registries) {
    const view = registryView(registry, registryPassword);
    if (view) views.set(view.id, view);
  }
  const registries = [...views.values()].sort((a, b) => a.id - b.id);
  const names = new Set([...uses.runtimes, ...linked('runtimeClasses').map(v3Name)]);
  const runtimeClasses = [...names]
    .sort()
    .flatMap((name) => find('runtimeClasses', name) ?? [])
    .map((one) => ({ name: v3Name(one), handler: one.spec.handler }));
  return {
    registries,
    runtimeClasses,
    digests: { registries: sectionDigest(registries), ...digestUnlessEmpty('runtimeClasses', runtimeClasses) },
  };
}

/** A registry as a node gets it, with credentials only when pulls need them. */
export function registryView(
  registry: Registry,
  passwordOf: (registry: Registry) => string | undefined,
): RegistryView | undefined {
  const normal = normalRegistry(registry);
  if (!normal) return undefined;
  const { id, url, isPublic, username, email, type, ca, insecure } = normal;
  const password = isPublic ? '' : (passwordOf(registry) ?? '');
  return {
    id,
    url,
    isPublic,
    username: isPublic ? '' : username,
    password,
    userEmail: isPublic ? '' : email,
    type,
    ca,
    insecure,
  };
}
