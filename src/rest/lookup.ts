import { UUID_PATTERN } from '../api/meta.ts';
import type { Application, EdgeNode, MicroserviceEntry, Registry } from '../api/v3/index.ts';
import { entryUuid, nodeUuid, objectName, registryId, v3Name } from '../domain/names.ts';
import { oldest } from '../stores/oldest.ts';
import { isPresent } from './deletion.ts';
import type { Objects, RestDependencies, StoredObject } from './dependencies.ts';
import { notFound } from './errors.ts';

const UUID = new RegExp(UUID_PATTERN);

/** The node as it is now, or 404. */
export async function nodeByUuid(deps: RestDependencies, uuid: string, signal: AbortSignal): Promise<EdgeNode> {
  const missing = () => notFound('INVALID_NODE_UUID', `there is no node with the uuid ${uuid}`);
  if (!UUID.test(uuid)) throw missing();
  const is = (node: EdgeNode) => isPresent(node) && nodeUuid(node) === uuid;
  const find = () => oldestPresent(deps.nodes.find('uuid', uuid));
  const known = find();
  const node =
    (await fresh(deps.nodes, known, is, signal)) ??
    oldest((await deps.nodes.select('uuid', uuid, signal)).filter(is)) ??
    // Its uuid may be its uid, which nothing selects.
    (known ? undefined : await deps.nodes.refresh(signal).then(find));
  if (!node || !isPresent(node)) throw missing();
  return node;
}

/** The application as it is now, or 404. Those of the system are another resource. */
export async function applicationByName(
  deps: RestDependencies,
  name: string,
  signal: AbortSignal,
  { system = false }: { system?: boolean } = {},
): Promise<Application> {
  const is = (application: Application) => isPresent(application) && v3Name(application) === name;
  const known = oldestPresent(deps.applications.find('name', name));
  const application =
    (await fresh(deps.applications, known, is, signal)) ??
    (known ? undefined : await fresh(deps.applications, { metadata: { name: objectName(name) } }, is, signal)) ??
    oldest((await deps.applications.select('name', name, signal)).filter(is));
  if (!application || (application.spec.isSystem === true) !== system)
    throw notFound('INVALID_APPLICATION_NAME', `there is no ${system ? 'system ' : ''}application "${name}"`);
  return application;
}

/** An entry and its application, as they are now. */
export interface Microservice {
  application: Application;
  entry: MicroserviceEntry;
}

/** The microservice as it is now; undefined when there is none. */
export async function findMicroservice(
  deps: RestDependencies,
  uuid: string,
  signal: AbortSignal,
): Promise<Microservice | undefined> {
  if (!UUID.test(uuid)) return undefined;
  const within = (application: Application | undefined): Microservice | undefined => {
    const entry = application?.spec.microservices?.find((one) => entryUuid(application, one) === uuid);
    return application && entry && isPresent(application) ? { application, entry } : undefined;
  };
  const find = () => oldestPresent(deps.applications.find('microservice', uuid));
  const known = find();
  const now = known && (await deps.applications.read(known.metadata.name, signal));
  if (now && !isPresent(now)) return undefined;
  const there = within(now);
  if (there) return there;
  await deps.applications.refresh(signal);
  return within(find());
}

export const microserviceMissing = (uuid: string) =>
  notFound('INVALID_MICROSERVICE_UUID', `there is no microservice with the uuid ${uuid}`);

/** The registry as it is now, or 404. */
export async function registryById(deps: RestDependencies, id: number, signal: AbortSignal): Promise<Registry> {
  const is = (registry: Registry) => isPresent(registry) && registryId(registry) === id;
  const find = () => oldestPresent(deps.registries.find('id', String(id)));
  const registry =
    (await fresh(deps.registries, find(), is, signal)) ?? (await deps.registries.refresh(signal).then(find));
  if (!registry || !isPresent(registry)) throw notFound('REGISTRY_NOT_FOUND', `there is no registry with the id ${id}`);
  return registry;
}

/** The oldest of those that are not being deleted, if there is one. */
function oldestPresent<T extends StoredObject>(objects: readonly T[]): T | undefined {
  return oldest(objects.filter(isPresent)) ?? oldest(objects);
}

/** What the API server has under the name of a known object, as long as it is the same thing. */
async function fresh<T extends StoredObject>(
  objects: Objects<T>,
  known: StoredObject | undefined,
  is: (object: T) => boolean,
  signal: AbortSignal,
): Promise<T | undefined> {
  const now = known && (await objects.read(known.metadata.name, signal));
  return now && is(now) ? now : undefined;
}
