import {
  CONTAINER_FIELD_NAMES,
  type ContainerField,
  type containerViewShape,
  fieldRow,
  type WireValue,
} from '../../api/container/index.ts';
import { BUILT_IN_REGISTRIES } from '../../api/names.ts';
import type { Application, EdgeNode } from '../../api/v3/index.ts';
import { BUS_CREDS_MOUNT, type BusAccess, busVariables } from '../../rules/bus-access.ts';
import { registryId } from '../../rules/identity.ts';
import type { Lookups } from '../../rules/inputs.ts';
import { v3Name } from '../../rules/names.ts';
import { imageFor, type NormalContainer, type NormalEntry, type NormalValue } from '../../rules/normal-entry.ts';
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
import { canonicalJson } from '../../wire/digest.ts';
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
    ...containerMembers(entry.container, inputs),
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
type Resolve<F extends ContainerField> = (value: NormalValue<F>, place: Place) => WireValue<F>;

/** Fields whose normal form is not what an agent gets. */
type Resolved = {
  [F in ContainerField]: NormalValue<F> extends WireValue<F> ? never : F;
}[ContainerField];

/** What an agent gets of a field, where that is not the normal form of the entry. */
const RESOLVE: { readonly [F in Resolved]: Resolve<F> } & {
  readonly volumes: Resolve<'volumes'>;
  readonly runtime: Resolve<'runtime'>;
} = {
  env: (variables, { lookups }) =>
    variables.flatMap((item) => {
      const resolved = resolveEnv(item, lookups);
      return 'env' in resolved ? [resolved.env] : [];
    }),
  extraHosts: (hosts, { node, lookups }) =>
    hosts.flatMap((host) => {
      const resolved = resolveHost(host, node, lookups);
      return 'address' in resolved ? [`${host.name}:${resolved.address}`] : [];
    }),
  runtime: (name, { node, lookups }) => runtimeOn(node, name, lookups.find('runtimeClasses', name)),
  // only volumes have a scope, and only one key of a volume mount has a content
  volumes: (volumes, { lookups }) =>
    volumes.map((one) => {
      if (one.type === 'volume') return one;
      const content = one.type === 'volumeMount' ? mappedContent(one, lookups) : undefined;
      return { ...one, scope: 'private', ...(content !== undefined && { content }) };
    }),
  healthCheck: ({ test = [], ...check }) => ({ test, ...check }),
  annotations: canonicalJson,
};

type ContainerMembers = Pick<MicroserviceView, keyof typeof containerViewShape>;

function containerMembers(container: NormalContainer, place: Place): ContainerMembers {
  const members: Record<string, unknown> = {};
  for (const field of CONTAINER_FIELD_NAMES) {
    const { wireName, alias, default: absent } = fieldRow(field);
    const given = container[field];
    const resolve = (RESOLVE as Partial<Record<ContainerField, (value: unknown, place: Place) => unknown>>)[field];
    const value = given === undefined ? absent : resolve ? resolve(given, place) : given;
    if (value === undefined) continue;
    members[wireName] = value;
    if (alias) members[alias.name] = value;
  }
  return members as ContainerMembers;
}

const catalogOf = ({ bindPath, permissions = 'ro', items = [] }: NonNullable<NormalEntry['models']>) => ({
  bindPath,
  permissions,
  items,
});
