import { BUILT_IN_REGISTRIES } from '../../../src/api/names.ts';
import type { RegistryView } from '../../../src/wire/agent.ts';
import type { PolicyContext } from '../domain/policy.ts';
import { localRegistryNumber, registryIdOf } from '../domain/registry-number.ts';
import { viewRefusal } from '../domain/target.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import { FIRST_KEPT } from './kept.ts';
import type { ManifestMicroservice } from './manifest.ts';

/** What of a machine decides whether it takes a microservice. */
export interface DeployContext {
  /** by the numbers of views */
  registries: ReadonlyMap<number, RegistryView>;
  policy: PolicyContext;
  /** undefined while the engine is not connected */
  facts: EngineFacts | undefined;
  /** the runtime of the engine that a microservice means by this name; undefined: what it means cannot be read */
  runtimeOf(name: string): string | undefined;
}

/** Why this machine takes no such microservice, in one sentence that names the field, or undefined. Pure but for the paths of the policy. */
export function deployRefusal(
  microservice: Pick<ManifestMicroservice, 'registry' | 'view'>,
  context: DeployContext,
): string | undefined {
  const { registries, policy, facts } = context;
  const wrong = registryRefusal(microservice, registries);
  if (wrong) return wrong;
  const written = microservice.view('');
  const runtime = context.runtimeOf(written.runtime);
  if (runtime === undefined)
    return `spec.container.runtime: the runtime class ${written.runtime} of this machine cannot be read; deploy it again`;
  const view = { ...written, runtime };
  if (facts && view.runtime && !facts.runtimes.includes(view.runtime))
    return `spec.container.runtime: ${facts.kind} has no runtime ${view.runtime}, and this machine no runtime class of that name; it has ${facts.runtimes.join(', ') || 'none to choose'}`;
  const refused = viewRefusal(view, registries, policy);
  return refused && `the policy of this machine does not take it: ${refused}`;
}

function registryRefusal(
  { registry }: Pick<ManifestMicroservice, 'registry'>,
  registries: ReadonlyMap<number, RegistryView>,
): string | undefined {
  if (registry === undefined) return undefined;
  const number = localRegistryNumber(registry);
  if (number > 0) return undefined;
  const found = registries.get(number);
  if (found?.type === 'hub') return `spec.registry: ${registry} is a hub; images come from a registry of the type oci`;
  if (found) return undefined;
  const own = [...registries.keys()].filter((id) => id < 0 && id > FIRST_KEPT);
  const ids = [BUILT_IN_REGISTRIES.local.id, ...own.map(registryIdOf)].sort((a, b) => a - b);
  return `spec.registry: this machine has no registry ${registry}; it has ${ids.join(', ')}`;
}
