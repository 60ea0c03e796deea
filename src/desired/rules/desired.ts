import { hash } from 'node:crypto';
import type {
  Application,
  ArtifactKind,
  EdgeNode,
  EdgeNodeSpec,
  MicroserviceEntry,
  Registry,
} from '../../api/v3/index.ts';
import { hasContainer } from '../../rules/deletion.ts';
import type { DesiredEntry, DesiredState, LinkableKind, NodeInputs, ReferencedObjects } from '../../rules/inputs.ts';
import { entryUuid, isIdentityTaken, v3Name } from '../../rules/names.ts';
import { normalEntry } from '../../rules/normal-entry.ts';
import { imageSourceOf } from '../../subjects/catalog/rules/catalog-images.ts';
import { normalRegistry, normalType, resolveRegistry } from '../../subjects/catalog/rules/registry.ts';
import { artifactsOn } from '../../subjects/content/rules/artifact/on-node.ts';
import { type MountOnNode, mountForm, mountsOn, mountView } from '../../subjects/content/rules/volume-mount/on-node.ts';
import { isDue, isWithdrawn, requestedAction } from '../../subjects/nodes/rules/actions.ts';
import { isSame, keptOn, placedOn, shouldRun } from '../../subjects/nodes/rules/placement/entries.ts';
import { digestWithMoves, wasOn } from '../../subjects/nodes/rules/placement/moves.ts';
import { CONFIG_FIELDS } from '../../subjects/nodes/rules/settings.ts';
import { entryHolder } from '../../subjects/workloads/rules/application/claims.ts';
import { lookupsOf } from '../../subjects/workloads/rules/application/lookups.ts';
import { createJudge, KEEPING_RULES } from '../../subjects/workloads/rules/verdicts/verdict.ts';
import type { AgentConfig, MicroserviceHold, MicroserviceView, RegistryView } from '../../wire/agent.ts';
import type { Digests } from '../../wire/sections.ts';
import { viewOf } from './view.ts';

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
  const registries = new Map<number, RegistryView>();
  const addRegistry = (registry: Registry) => {
    const view = registryView(registry, inputs.registryPassword);
    if (view) registries.set(view.id, view);
  };
  const runtimes = new Set<string>();

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
      const view = viewOf({ application, entry, uuid, node, lookups, key: inputs.revisionKey });
      const registry = resolveRegistry(inputs.find, imageSourceOf(entry, inputs.find).registry);
      if (registry && normalType(registry.spec.type) === 'oci') addRegistry(registry);
      if (!negative) views.push(view);
      else {
        held.set(uuid, view);
        const { reason, message } = negative;
        holds.push({ uuid, hold: true, reason, message, application: view.application, name: view.name });
      }
    }
  }

  const artifacts = (kind: ArtifactKind) => (deleting ? [] : artifactsOn(kind, node, lookups));
  const [allModels, allKnowledge] = [artifacts('models'), artifacts('knowledge')];
  const artifactViews = (all: ReturnType<typeof artifacts>) =>
    all
      .filter(({ fits }) => fits)
      .map(({ view, registry }) => {
        addRegistry(registry);
        return view;
      })
      .sort(by(({ uuid }) => uuid));
  const [models, knowledge] = [artifactViews(allModels), artifactViews(allKnowledge)];
  const config = configOf(node.spec);
  const mounts = mountsOn(node, lookups).toSorted((a, b) => (v3Name(a.mount) < v3Name(b.mount) ? -1 : 1));
  const desired = {
    microservices: unique([...views, ...holds]).sort(by(({ uuid }) => uuid)),
    registries: [...registries.values()].sort((a, b) => a.id - b.id),
    runtimeClasses: linkedOrUsed('runtimeClasses', runtimes, inputs).map((one) => ({
      name: v3Name(one),
      handler: one.spec.handler,
    })),
    models,
    knowledge,
    volumeMounts: mounts.map(mountView),
    leftOut: {
      models: allModels.flatMap(({ fits, view }) => (fits ? [] : [view.name])),
      knowledge: allKnowledge.flatMap(({ fits, view }) => (fits ? [] : [view.name])),
      volumeMounts: mounts.flatMap(({ fits, mount }) => (fits ? [] : [v3Name(mount)])),
    },
    config,
    deleteNode,
    held,
    entries,
  };
  const digests = digestsOf(node, desired, mounts);
  const microserviceList = digestWithMoves(digests.microserviceList ?? '', applications, node);
  return { ...desired, digests: { ...digests, microserviceList } };
}

/** The objects of a kind that are linked to the node or that its entries name; of two with one name the oldest. */
function linkedOrUsed<K extends LinkableKind>(
  kind: K,
  used: ReadonlySet<string>,
  { find, linked }: NodeInputs,
): ReferencedObjects[K][] {
  const names = new Set([...used, ...linked(kind).map(v3Name)]);
  return [...names].sort().flatMap((name) => find(kind, name) ?? []);
}

function configOf(spec: EdgeNodeSpec): AgentConfig {
  return Object.fromEntries(
    CONFIG_FIELDS.filter((field) => spec[field] !== undefined).map((field) => [field, spec[field]]),
  );
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

/**
 * One digest per section. Empty lists have one too, so that a new agent fetches them once and learns that there is nothing
 * to run.
 */
function digestsOf(node: EdgeNode, desired: Omit<DesiredState, 'digests'>, mounts: readonly MountOnNode[]): Digests {
  const views = desired.microservices.filter(isView);
  const catalogs = (member: 'models' | 'knowledge') =>
    views.filter((view) => view[member]).map((view) => [view.uuid, view[member]?.items]);
  const actions = (['reboot', 'prune', 'version'] as const)
    .filter((action) => isDue(node, action) || (action === 'version' && isWithdrawn(node)))
    .map((action) => [action, sectionDigest([action, requestedAction(node, action)])]);
  return {
    config: sectionDigest(desired.config),
    ...(desired.deleteNode && { deleteNode: sectionDigest('deleteNode') }),
    microserviceList: sectionDigest(
      desired.microservices.map((item) => ('hold' in item ? holdForm(item) : listForm(item))),
    ),
    microserviceConfig: sectionDigest(views.map(({ uuid, config }) => [uuid, config])),
    ...digestUnlessEmpty('microserviceModels', catalogs('models')),
    ...digestUnlessEmpty('microserviceKnowledge', catalogs('knowledge')),
    registries: sectionDigest(desired.registries),
    ...digestUnlessEmpty('runtimeClasses', desired.runtimeClasses),
    ...digestUnlessEmpty('models', desired.models),
    ...digestUnlessEmpty('knowledge', desired.knowledge),
    ...digestUnlessEmpty('volumeMounts', mounts.map(mountForm)),
    ...Object.fromEntries(actions),
  };
}

/** Names of what is on hold are for people: no list is sent again for them. */
const holdForm = ({ application: _application, name: _name, ...hold }: MicroserviceHold) => hold;

const digestUnlessEmpty = (section: keyof Digests, value: readonly unknown[]): Digests =>
  value.length > 0 ? { [section]: sectionDigest(value) } : {};

/**
 * Digest of a section. Plain JSON is several times cheaper than canonical JSON and sufficient: the members are built here,
 * always in the same order, and an unnecessary difference costs one fetch.
 */
const sectionDigest = (value: unknown): string => hash('sha256', JSON.stringify(value)).slice(0, 16);

const isView = (item: MicroserviceView | MicroserviceHold): item is MicroserviceView => !('hold' in item);

/** A view without members that have a section of their own and without those that depend on the report of the node. */
function listForm({ config, rebuild, models, knowledge, ...view }: MicroserviceView): unknown {
  const withoutItems = (catalog: MicroserviceView['models']) =>
    catalog && { ...catalog, items: catalog.items.length > 0 };
  return { ...view, models: withoutItems(models), knowledge: withoutItems(knowledge) };
}

/** One item per uuid; items with a view take precedence. */
function unique<T extends { uuid: string }>(items: readonly T[]): T[] {
  const first = new Map<string, T>();
  for (const item of items) if (!first.has(item.uuid)) first.set(item.uuid, item);
  return [...first.values()];
}

const by =
  <T>(key: (item: T) => string) =>
  (a: T, b: T) =>
    key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0;
