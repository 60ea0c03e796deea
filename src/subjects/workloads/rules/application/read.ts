import type {
  Application,
  ApplicationSpec,
  CatalogItem,
  EdgeNode,
  MicroserviceEntry,
} from '../../../../api/v3/index.ts';
import type { BusLookups } from '../../../../rules/bus-lookups.ts';
import { hasContainer } from '../../../../rules/deletion.ts';
import { requireUnchanged } from '../../../../rules/document.ts';
import { applicationId, applicationUuid } from '../../../../rules/identity.ts';
import type { Liveness } from '../../../../rules/inputs.ts';
import { entryUuid, v3Name } from '../../../../rules/names.ts';
import { keepLogSize } from '../../../../rules/normal-entry.ts';
import type { MicroserviceStatus } from '../../../../wire/agent.ts';
import { currentNodeOf, nodeOf } from '../../../nodes/rules/placement/entries.ts';
import type { ApplicationUpload } from '../upload/application.ts';
import { busRead, microserviceRead, type ReferredValue, removedRead } from './microservice-read.ts';

/** The inputs of an application read besides the objects. */
export interface ReadContext {
  nodeByName: (name: string) => EdgeNode | undefined;
  nodeByUuid: (uuid: string) => EdgeNode | undefined;
  liveness: (node: EdgeNode) => Liveness;
  /** item of the node's latest report, when this replica has it */
  live: (node: EdgeNode, microserviceUuid: string) => MicroserviceStatus | undefined;
  /** nodes that still report a microservice of this application (by v3 name) */
  nodesReporting: (application: string) => readonly EdgeNode[];
  registryId: (ref: number | string) => number | undefined;
  catalogItem: (ref: number | string) => CatalogItem | undefined;
  applicationsOn: (node: EdgeNode) => readonly Application[];
  referredValue?: ReferredValue;
  /** absent: the bus is off */
  bus?: BusLookups;
  /** Unix ms, from which running times are computed */
  now?: number;
}

/** The v3 read of an application, its microservices in full; removed ones that are still reported have `delete: true`. */
export function applicationRead(application: Application, context: ReadContext): Record<string, unknown> {
  const id = applicationId(application);
  const { description, isActivated, isSystem, busConfig } = application.spec;
  return {
    ...(id !== undefined && { id }),
    name: v3Name(application),
    description: description ?? '',
    isActivated: isActivated ?? true,
    isSystem: isSystem ?? false,
    busConfig: busRead(busConfig),
    microservices: microserviceReads(application, context),
  };
}

/** The v3 reads of all microservices of an application, removed ones included. */
export const microserviceReads = (application: Application, context: ReadContext): Record<string, unknown>[] => [
  ...presentEntries(application).map((entry) => entryRead(application, entry, context)),
  ...allRemovedReads(application, context),
];

/** The v3 read of one microservice of an application, which may be a removed one. */
export function microserviceReadOf(
  application: Application,
  uuid: string,
  context: ReadContext,
): Record<string, unknown> | undefined {
  const entry = presentEntries(application).find((one) => entryUuid(application, one) === uuid);
  if (entry) return entryRead(application, entry, context);
  return allRemovedReads(application, context).find((read) => read.uuid === uuid);
}

/** Of an application in deletion only the microservices remain that machines still have. */
const presentEntries = ({ metadata, spec }: Application) =>
  metadata.deletionTimestamp ? [] : (spec.microservices ?? []);

function allRemovedReads(application: Application, context: ReadContext): Record<string, unknown>[] {
  const uuids = new Set(presentEntries(application).map((entry) => entryUuid(application, entry)));
  return context.nodesReporting(v3Name(application)).flatMap((node) => removedReads(application, node, uuids, context));
}

function entryRead(application: Application, entry: MicroserviceEntry, context: ReadContext): Record<string, unknown> {
  const node = currentNodeOf(application, entry, context);
  const named = nodeOf(entry, context);
  const uuid = entryUuid(application, entry);
  return microserviceRead({
    application,
    entry,
    registryId: context.registryId,
    catalogItem: context.catalogItem,
    hosts: context,
    ...(context.referredValue && { referredValue: context.referredValue }),
    ...(context.bus && { bus: context.bus }),
    ...(node && {
      node,
      ...(node !== named && { movesTo: named ?? 'missing' }),
      liveness: context.liveness(node),
      now: context.now,
      observed: node.status?.microservices?.find((item) => item.uuid === uuid),
      live: context.live(node, uuid),
    }),
  });
}

function removedReads(
  application: Application,
  node: EdgeNode,
  uuids: ReadonlySet<string>,
  context: ReadContext,
): Record<string, unknown>[] {
  const name = v3Name(application);
  return (node.status?.microservices ?? [])
    .filter((item) => item.application === name && !uuids.has(item.uuid) && hasContainer(item))
    .map((observed) =>
      removedRead({
        application,
        node,
        observed,
        liveness: context.liveness(node),
        live: context.live(node, observed.uuid),
      }),
    );
}

/**
 * The spec after a PUT of the application's state (docs/spec/workloads.md#replacing-an-applications-state): absent
 * microservices leave them, an empty list removes all, an entry kept by name keeps uuid and activation unless the body
 * sets them. Rebuild counts are annotations and stay; rebuild requests of the body are returned in `rebuild`. Other fields
 * that the body does not have stay too.
 */
export function replaceState(
  old: Application,
  body: ApplicationUpload,
): { spec: ApplicationSpec; rebuild: readonly string[] } {
  const before = new Map((old.spec.microservices ?? []).map((entry) => [entry.name, entry]));
  const said = new Set(body.saysActivated);
  const { microservices, isActivated, uuid, id, ...rest } = body.spec;
  requireUnchanged('uuid', uuid, applicationUuid(old));
  requireUnchanged('id', id, applicationId(old));
  return {
    spec: {
      ...old.spec,
      ...rest,
      ...(body.hasIsActivated && { isActivated }),
      ...(body.hasMicroservices && {
        microservices: (microservices ?? []).map((entry) => kept(entry, before.get(entry.name), said)),
      }),
    },
    rebuild: body.rebuild,
  };
}

function kept(
  entry: MicroserviceEntry,
  old: MicroserviceEntry | undefined,
  said: ReadonlySet<string>,
): MicroserviceEntry {
  if (!old) return entry;
  requireUnchanged(`microservices.${entry.name}.uuid`, entry.uuid, old.uuid);
  return {
    ...keepLogSize(entry, old),
    ...(old.uuid !== undefined && { uuid: old.uuid }),
    ...(!said.has(entry.name) && old.isActivated !== undefined && { isActivated: old.isActivated }),
  };
}
