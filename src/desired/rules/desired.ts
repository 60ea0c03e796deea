import type { Application, MicroserviceEntry, Registry } from '../../api/v3/index.ts';
import { hasContainer } from '../../rules/deletion.ts';
import { isIdentityTaken, nodeUuid } from '../../rules/identity.ts';
import type { DesiredEntry, DesiredState, NodeInputs } from '../../rules/inputs.ts';
import { entryUuid, v3Name } from '../../rules/names.ts';
import { normalEntry } from '../../rules/normal-entry.ts';
import { compareTexts } from '../../rules/precedence.ts';
import { digestUnlessEmpty } from '../../rules/section-digest.ts';
import { type SystemFileSet, systemFilesView } from '../../rules/system-files.ts';
import { imageSourceOf } from '../../subjects/catalog/rules/catalog-images.ts';
import { catalogSections } from '../../subjects/catalog/rules/node.ts';
import { normalType, resolveRegistry } from '../../subjects/catalog/rules/registry.ts';
import { contentSections } from '../../subjects/content/rules/node.ts';
import { busCredsOf } from '../../subjects/nodes/rules/bus-access.ts';
import { nodeSections } from '../../subjects/nodes/rules/node.ts';
import { currentNodeOf, isSame, keptOn, placedOn, shouldRun } from '../../subjects/nodes/rules/placement/entries.ts';
import { digestWithMoves, wasOn } from '../../subjects/nodes/rules/placement/moves.ts';
import { platformSections } from '../../subjects/platform/rules/node.ts';
import { entryHolder } from '../../subjects/workloads/rules/application/claims.ts';
import { lookupsOf } from '../../subjects/workloads/rules/application/lookups.ts';
import { microserviceDigests } from '../../subjects/workloads/rules/node.ts';
import { createJudge, KEEPING_RULES } from '../../subjects/workloads/rules/verdicts/verdict.ts';
import type { MicroserviceHold, MicroserviceView } from '../../wire/agent.ts';
import { entryView } from './view.ts';

/** The desired state of a node: a pure function of the objects that concern it. */
export function desiredState(inputs: NodeInputs): DesiredState {
  const { node, applications } = inputs;
  const lookups = lookupsOf(inputs);
  const judge = createJudge(lookups);
  const judgeKept = createJudge(lookups, { rules: KEEPING_RULES });
  const entriesOf = placedOn(node, lookups);
  const keptOf = keptOn(node, lookups);
  // The machine first removes its containers, as for removed entries; then its agent gives up its identity.
  const deleting = node.metadata.deletionTimestamp !== undefined;
  const deleteNode = deleting && !(node.status?.microservices ?? []).some(hasContainer);
  const views: MicroserviceView[] = [];
  const holds: MicroserviceHold[] = [];
  const held = new Map<string, MicroserviceView>();
  const entries = new Map<string, DesiredEntry>();
  const registries = new Set<Registry>();
  const runtimes = new Set<string>();
  const place = () =>
    applications.flatMap((application) => {
      const named = lookups.applicationByName(v3Name(application));
      if (named && !isSame(named, application)) return [];
      return entriesOf(application).flatMap((entry) => {
        // What leads to a microservice leads to no other that claims its name or its uuid.
        const uuid = entryUuid(application, entry);
        const owner = entryHolder(uuid, lookups.applicationsWithEntry(uuid));
        if (owner && !(isSame(owner.application, application) && owner.entry.name === entry.name)) return [];
        // A node that keeps an entry has it until the leader has recorded the move; the other one has it from then on.
        const has = currentNodeOf(application, entry, lookups);
        if (has && nodeUuid(has) !== nodeUuid(node)) return [];
        const isOnHostNetwork = entry.container?.hostNetworkMode === true;
        return [
          {
            uuid,
            application: v3Name(application),
            name: entry.name,
            isOnHostNetwork,
          },
        ];
      });
    });
  let found: ReturnType<typeof place> | undefined;
  /** Several parts ask for them. */
  const placed = () => {
    found ??= place();
    return found;
  };
  const platform = platformSections(node, inputs, placed);
  const credentials: SystemFileSet[] = [];

  const isAnothersHere = (application: Application, entry: MicroserviceEntry, uuid: string): boolean => {
    const owner = entryHolder(uuid, lookups.applicationsWithEntry(uuid));
    if (!owner || (isSame(owner.application, application) && owner.entry.name === entry.name)) return false;
    return entriesOf(owner.application).includes(owner.entry) || wasOn(owner.application, owner.entry, node);
  };

  for (const application of applications) {
    const kept = keptOf(application);
    for (const stored of entriesOf(application)) {
      const uuid = entryUuid(application, stored);
      const entry = normalEntry(stored);
      const runs = shouldRun(application, stored);
      const negative = (kept.includes(stored) ? judgeKept : judge)(application, stored, entry);
      // What runs here under a uuid of an entry that is or was here is not held for another entry that claims the uuid.
      if (isIdentityTaken(negative) && isAnothersHere(application, stored, uuid)) continue;
      entries.set(uuid, {
        owner: application.metadata.uid ?? '',
        application: v3Name(application),
        name: stored.name,
        shouldRun: runs,
        ...(negative && { verdict: negative }),
      });
      // An entry that was never sent cannot be held, and the list has no room for it.
      if (!runs || deleting || negative?.reason === 'NodeFull') continue;
      if (entry.container.runtime) runtimes.add(entry.container.runtime);
      const binds = platform.bindsOf(application, entry);
      credentials.push(...(busCredsOf({ application, entry, uuid, node }, inputs) ?? []));
      const config = platform.configOf(application, entry);
      const view = entryView({ application, entry, uuid, node, lookups, binds, config, key: inputs.revisionKey });
      const registry = resolveRegistry(inputs.find, imageSourceOf(entry, inputs.find).registry);
      if (registry && normalType(registry.spec.type) === 'oci') registries.add(registry);
      if (!negative) views.push(view);
      else {
        held.set(uuid, view);
        const { reason, message } = negative;
        const { application, name, serviceAccount } = view;
        holds.push({ uuid, hold: true, reason, message, application, name, serviceAccount });
      }
    }
  }

  const content = contentSections(node, lookups, deleting);
  const catalog = catalogSections({ registries: [...registries, ...content.registries], runtimes }, inputs);
  const self = nodeSections(inputs, deleteNode);
  const systemFiles = [...platform.systemFiles, ...credentials].sort((a, b) => compareTexts(a.name, b.name));
  const microservices = unique([...views, ...holds]).sort((a, b) => compareTexts(a.uuid, b.uuid));
  const ofMicroservices = microserviceDigests(microservices);
  return {
    microservices,
    registries: catalog.registries,
    runtimeClasses: catalog.runtimeClasses,
    models: content.models,
    knowledge: content.knowledge,
    volumeMounts: content.volumeMounts,
    systemFiles,
    parts: platform.parts,
    leftOut: content.leftOut,
    config: self.config,
    ...(self.tunnel && { tunnel: self.tunnel }),
    deleteNode,
    held,
    entries,
    digests: {
      ...self.digests,
      ...ofMicroservices,
      microserviceList: digestWithMoves(ofMicroservices.microserviceList ?? '', applications, node),
      ...catalog.digests,
      ...content.digests,
      ...digestUnlessEmpty('systemFiles', systemFiles.map(systemFilesView)),
      ...self.actions,
    },
  };
}

/** One item per uuid; items with a view take precedence. */
function unique<T extends { uuid: string }>(items: readonly T[]): T[] {
  const first = new Map<string, T>();
  for (const item of items) if (!first.has(item.uuid)) first.set(item.uuid, item);
  return [...first.values()];
}
