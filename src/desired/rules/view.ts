import { BUILT_IN_REGISTRIES } from '../../api/names.ts';
import type { Application, EdgeNode } from '../../api/v3/index.ts';
import { BUS_CREDS_MOUNT, type BusAccess, busVariables } from '../../rules/bus-access.ts';
import { registryId } from '../../rules/identity.ts';
import type { Lookups } from '../../rules/inputs.ts';
import { v3Name } from '../../rules/names.ts';
import { imageFor, type NormalEntry } from '../../rules/normal-entry.ts';
import type { SystemBind } from '../../rules/part.ts';
import { serviceAccountOf } from '../../subjects/accounts/rules/service-account.ts';
import { imageSourceOf } from '../../subjects/catalog/rules/catalog-images.ts';
import { resolveRegistry } from '../../subjects/catalog/rules/registry.ts';
import { runtimeOn } from '../../subjects/catalog/rules/runtime-class.ts';
import { mappedContent } from '../../subjects/content/rules/volume-mount/mapping.ts';
import { rebuildCountOf } from '../../subjects/nodes/rules/actions.ts';
import { busAccessOn } from '../../subjects/nodes/rules/bus-access.ts';
import { archOf } from '../../subjects/nodes/rules/settings.ts';
import { resolveHost } from '../../subjects/workloads/rules/application/extra-hosts.ts';
import { CONTROLLER_ENTRY } from '../../subjects/workloads/rules/controller-entry.ts';
import { resolveEnv } from '../../subjects/workloads/rules/entry/env.ts';
import { configText } from '../../subjects/workloads/rules/entry/flat.ts';
import type { MicroserviceView } from '../../wire/agent.ts';
import { type ContainerResolution, containerMembers } from '../../wire/container.ts';
import { busCredsSet, SYSTEM_FILES_PREFIX } from '../../wire/system-files.ts';
import { revisionOf } from './revision.ts';

interface ViewInputs {
  application: Application;
  entry: NormalEntry;
  uuid: string;
  node: EdgeNode;
  lookups: Lookups;
  /** what the container binds of the system's files */
  binds?: readonly SystemBind[];
  /** in place of the `config` of the entry */
  config?: unknown;
  key: string | undefined;
}

/**
 * The view of an entry as far as it resolves; an entry whose verdict is positive resolves wholly. Members that are
 * undefined are absent: neither the wire nor a digest has them.
 */
export function entryView(inputs: ViewInputs): MicroserviceView {
  const { application, entry, uuid, node, lookups, key } = inputs;
  const isSystem = application.spec.isSystem ?? false;
  const carriedOut = node.status?.microservices?.find((item) => item.uuid === uuid)?.rebuildCount ?? 0;
  const rebuildCount = rebuildCountOf(application, entry.name, carriedOut);
  const source = imageSourceOf(entry, lookups.find);
  const registry = resolveRegistry(lookups.find, source.registry);
  const view: MicroserviceView = {
    uuid,
    name: entry.name,
    application: v3Name(application),
    imageId: imageFor(source, archOf(node)) ?? '',
    registryId: (registry && registryId(registry)) ?? BUILT_IN_REGISTRIES.remote.id,
    config: configText(inputs.config ?? entry.config),
    rebuild: rebuildCount > carriedOut,
    rebuildCount,
    revision: '',
    schedule: entry.schedule,
    isSystem,
    ...containerMembers(entry.container, resolvedAt(inputs)),
    ...(entry.models && { models: catalogOf(entry.models) }),
    ...(entry.knowledge && { knowledge: catalogOf(entry.knowledge) }),
    serviceAccount: serviceAccountOf(application, entry, lookups.find),
    isRouter: isSystem && entry.name === 'router',
    isBus: isSystem && entry.name === 'bus',
    isController: isSystem && entry.name === CONTROLLER_ENTRY,
  };
  const access = busAccessOn({ application, entry, node }, lookups.bus);
  if (access && access !== 'no server') addBusAccess(view, access);
  if (inputs.binds) view.volumeMappings = [...view.volumeMappings, ...inputs.binds.map(mappingOf)];
  view.revision = revisionOf(view, key);
  return view;
}

/** A changed file of credentials changes in place; another server is another variable, and so another container. */
function addBusAccess(view: MicroserviceView, access: BusAccess): void {
  view.env = [...view.env, ...busVariables(access)];
  const bind = { set: busCredsSet(view.uuid), containerDestination: BUS_CREDS_MOUNT };
  view.volumeMappings = [...view.volumeMappings, mappingOf(bind)];
}

/** A mapping that only the controller makes: no VolumeMount has such a name. */
const mappingOf = ({ set, path, containerDestination }: SystemBind): MicroserviceView['volumeMappings'][number] => ({
  hostDestination: `${SYSTEM_FILES_PREFIX}${set}${path === undefined ? '' : `/${path}`}`,
  containerDestination,
  accessMode: 'ro',
  type: 'volumeMount',
  scope: 'private',
});

type Place = Pick<ViewInputs, 'node' | 'lookups'>;

/** What an agent gets of the fields that depend on other objects. */
const resolvedAt = ({ node, lookups }: Place): ContainerResolution => ({
  env: (variables) =>
    variables.flatMap((item) => {
      const resolved = resolveEnv(item, lookups);
      return 'env' in resolved ? [resolved.env] : [];
    }),
  extraHosts: (hosts) =>
    hosts.flatMap((host) => {
      const resolved = resolveHost(host, node, lookups);
      return 'address' in resolved ? [`${host.name}:${resolved.address}`] : [];
    }),
  runtime: (name) => runtimeOn(node, name, lookups.find('runtimeClasses', name)),
  // Only one key of a volume mount has a content.
  volumes: (volumes) =>
    volumes.map((one) => {
      const content = one.type === 'volumeMount' ? mappedContent(one, lookups) : undefined;
      return { ...one, ...(content !== undefined && { content }) };
    }),
});

const catalogOf = ({ bindPath, permissions = 'ro', items = [] }: NonNullable<NormalEntry['models']>) => ({
  bindPath,
  permissions,
  items,
});
