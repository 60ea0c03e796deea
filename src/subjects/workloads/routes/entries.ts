import type { Application, MicroserviceEntry } from '../../../api/v3/index.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import type { Requester } from '../../../rest/contract/route.ts';
import { edit, withChanges } from '../../../rest/objects/edit.ts';
import { type Microservice, microserviceMissing, presentMicroservice } from '../../../rest/objects/lookup.ts';
import { DomainError } from '../../../rules/errors.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { entryUuid } from '../../../rules/names.ts';
import { currentNodeOf } from '../../nodes/rules/placement/entries.ts';
import { controllerIn, controllerUpdate } from '../rules/controller-entry.ts';
import { checkEntries } from './check-entries.ts';
import { rebuildOrder } from './reads.ts';

/** The microservices of users and those of the system: the same operations with different permissions. */
export const VARIANTS = [
  { system: false, path: '/microservices', resource: 'microservices', words: '', suffix: '' },
  {
    system: true,
    path: '/microservices/system',
    resource: 'systemmicroservices',
    words: ' of the system',
    suffix: 'System',
  },
] as const;
export type Variant = (typeof VARIANTS)[number];

/** The present microservice, for the routes that it belongs to; or 404. */
export async function findEntry(
  deps: RestDependencies,
  variant: Variant,
  uuid: string,
  signal: AbortSignal,
): Promise<Microservice> {
  const found = await presentMicroservice(deps, uuid, signal);
  if (!found || (found.application.spec.isSystem === true) !== variant.system) throw microserviceMissing(uuid);
  return found;
}

/** The config of a microservice of the system as its node is sent it, as JSON text: the platform makes the config of a router. */
export function sentConfigOf(
  { sentConfig, lookups }: Pick<RestDependencies, 'sentConfig' | 'lookups'>,
  { application, entry }: Pick<Microservice, 'application' | 'entry'>,
): string | undefined {
  const node = application.spec.isSystem ? currentNodeOf(application, entry, lookups) : undefined;
  return node && sentConfig?.(nodeUuid(node), entryUuid(application, entry));
}

/** The application with these entries and rebuilds ordered, once the domain agrees. */
export async function judged(
  requester: Requester,
  application: Application,
  microservices: MicroserviceEntry[],
  rebuild: readonly string[],
): Promise<Application> {
  const edited = withChanges(application, { spec: { ...application.spec, microservices } });
  return ordered(requester, edited, application, rebuild);
}

/** The edited application with these rebuilds ordered, once the domain agrees. */
export async function ordered(
  requester: Requester,
  edited: Application,
  before: Application | undefined,
  rebuild: readonly string[],
): Promise<Application> {
  await checkEntries(requester, edited, before);
  if (rebuild.length === 0) return edited;
  return withChanges(edited, { annotations: await rebuildOrder(requester.deps, edited, rebuild, requester.signal) });
}

/** Edits the application of a microservice. */
export async function editMicroservice(
  deps: RestDependencies,
  uuid: string,
  signal: AbortSignal,
  change: (found: Microservice) => Application | Promise<Application>,
): Promise<void> {
  let found: Microservice;
  const read = async () => {
    const now = await presentMicroservice(deps, uuid, signal);
    if (!now) throw microserviceMissing(uuid);
    found = now;
    return now.application;
  };
  await edit(deps.applications, read, () => change(found), signal);
}

interface Change {
  entry: MicroserviceEntry;
  rebuild?: boolean;
}

/** Edits one entry and requests its rebuild. */
export async function editEntry(
  requester: Requester,
  variant: Variant,
  uuid: string,
  change: (found: Microservice) => Change | Promise<Change>,
): Promise<undefined> {
  const { deps, signal } = requester;
  await editMicroservice(deps, uuid, signal, async (found) => {
    const { application, entry } = found;
    const isSystem = application.spec.isSystem === true;
    if (isSystem && !variant.system) throw systemUpdate(entry);
    if (!isSystem && variant.system) throw microserviceMissing(uuid);
    const { entry: changed, rebuild = false } = await change(found);
    if (changed === entry && !rebuild) return application;
    if (changed !== entry && controllerIn(application)?.entry === entry) throw controllerUpdate();
    const microservices = (application.spec.microservices ?? []).map((one) => (one === entry ? changed : one));
    return judged(requester, application, microservices, rebuild ? [entry.name] : []);
  });
  return undefined;
}

const systemUpdate = (entry: MicroserviceEntry) =>
  new DomainError(400, 'SYSTEM_MICROSERVICE_UPDATE', `${entry.name} belongs to the system and cannot be changed here`);

/** The user route tells where the config of a microservice of the system is; every other read says that there is none. */
export const systemConfig = (uuid: string, entry: MicroserviceEntry) =>
  new DomainError(
    400,
    'SYSTEM_MICROSERVICE_CONFIG',
    `${entry.name} belongs to the system; its config is at /microservices/system/${uuid}/config`,
  );
