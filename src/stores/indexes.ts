import type { ConfigMap, Secret } from '../api/resources.ts';
import type { Application, EdgeNode, Registry } from '../api/v3/index.ts';
import { applicationId, applicationUuid, nodeUuid, registryId, v3Name } from '../domain/index.ts';
import {
  entryUuidsOf,
  nodeRefsOf,
  passwordSecretOf,
  provisioningKeyOf,
  registriesOf,
  reportedApplicationsOf,
  sourcesOf,
  textNameOf,
} from './references.ts';

const numbered = (id: number | undefined) => (id === undefined ? [] : [String(id)]);

/** Under what the objects of each view are found. */
export const INDEXES = {
  nodes: {
    uuid: (node: EdgeNode) => [nodeUuid(node)],
    name: (node: EdgeNode) => [v3Name(node)],
    /** names of the applications that it still reports */
    reports: reportedApplicationsOf,
  },
  applications: {
    uuid: (application: Application) => [applicationUuid(application)],
    id: (application: Application) => numbered(applicationId(application)),
    name: (application: Application) => [v3Name(application)],
    /** `name:<node>` and `uuid:<node>` */
    node: nodeRefsOf,
    /** uuids of its microservices */
    microservice: entryUuidsOf,
    /** `secret:<name>` and `configMap:<name>` */
    source: sourcesOf,
    /** `id:<id>` and `name:<name>` of the registries that its entries name */
    registry: registriesOf,
  },
  registries: {
    id: (registry: Registry) => numbered(registryId(registry)),
    name: (registry: Registry) => [v3Name(registry)],
    /** name of the Secret with its password */
    secret: passwordSecretOf,
  },
  secrets: {
    name: (secret: Secret) => [textNameOf(secret)],
    /** uuid of the node that a provisioning key is for */
    provisioningKeyOf,
  },
  configMaps: { name: (configMap: ConfigMap) => [textNameOf(configMap)] },
} as const;
