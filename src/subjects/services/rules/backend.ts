import type { EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import type { Service } from '../../../api/v3/service.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { Lookups } from '../../../rules/inputs.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import { currentNodeOf } from '../../nodes/rules/placement/entries.ts';

/** The lookups by which a resource is found. */
export type BackendLookups = Pick<Lookups, 'nodeByName' | 'nodeByUuid' | 'applicationByName' | 'applicationsWithEntry'>;

/** What a service of type microservice or agent leads to. */
export interface Backend {
  /** of the microservice or the node */
  uuid: string;
  /** name of the Application or the EdgeNode */
  object: string;
  /** the node whose router reaches it; absent: the microservice has none */
  node?: EdgeNode;
}

/** The backend of a service of ours, by uuid or name; undefined: it does not exist, or the service leads elsewhere. */
export function backendOf({ spec: { type, resource } }: Pick<Service, 'spec'>, lookups: BackendLookups) {
  if (type === 'agent') return nodeBackend(resource, lookups);
  return type === 'microservice' ? microserviceBackend(resource, lookups) : undefined;
}

function nodeBackend(resource: string, { nodeByName, nodeByUuid }: BackendLookups): Backend | undefined {
  const node = nodeByUuid(resource) ?? nodeByName(resource);
  return node && { uuid: nodeUuid(node), object: node.metadata.name, node };
}

function microserviceBackend(resource: string, lookups: BackendLookups): Backend | undefined {
  const slash = resource.indexOf('/');
  const named = slash < 0 ? undefined : lookups.applicationByName(resource.slice(0, slash));
  const applications = slash < 0 ? lookups.applicationsWithEntry(resource) : [named ?? []].flat();
  for (const application of applications) {
    const isMeant = (entry: MicroserviceEntry) =>
      slash < 0 ? entryUuid(application, entry) === resource : entry.name === resource.slice(slash + 1);
    const entry = (application.spec.microservices ?? []).find(isMeant);
    if (!entry) continue;
    const node = currentNodeOf(application, entry, lookups);
    return { uuid: entryUuid(application, entry), object: application.metadata.name, ...(node && { node }) };
  }
  return undefined;
}

/** The texts under which services may name a node. */
export const namesOfNode = (node: EdgeNode): string[] => [nodeUuid(node), v3Name(node)];
