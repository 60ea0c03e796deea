import { parameterNames } from '../src/lib/path-pattern.ts';
import type { Method } from '../src/rest/contract/route.ts';

/** One operation of the v3 API, as its clients know it. */
export interface V3Operation {
  section: string;
  method: Method;
  path: string;
}

/**
 * The operations of v3 on fleet, workloads, catalogs, certificates, the message bus and users: method and path. The list says what clients may ask for.
 * Routes, permissions and tests are found by it and must not be entered here.
 */
const TABLE: Readonly<Record<string, string>> = {
  Controller: `
    GET    /live
    GET    /status
    GET    /architectures
    HEAD   /capabilities/applicationTemplates
    HEAD   /capabilities/bus`,
  Certificates: `
    GET    /certificates/ca
    POST   /certificates/ca
    GET    /certificates/ca/{name}
    DELETE /certificates/ca/{name}
    GET    /certificates
    POST   /certificates
    POST   /certificates/yaml
    GET    /certificates/expiring
    GET    /certificates/{name}
    DELETE /certificates/{name}
    POST   /certificates/{name}/renew`,
  Nodes: `
    GET    /node-list
    POST   /node
    GET    /node/{uuid}
    PATCH  /node/{uuid}
    DELETE /node/{uuid}
    POST   /node/{uuid}/reconcile
    GET    /node/{uuid}/provisioning-key
    POST   /node/{uuid}/version/{versionCommand}
    POST   /node/{uuid}/reboot
    POST   /node/{uuid}/prune
    GET    /node/{uuid}/tunnel
    PATCH  /node/{uuid}/tunnel
    POST   /node/{uuid}/exec
    DELETE /node/{uuid}/exec`,
  Applications: `
    GET    /application
    GET    /application/system
    POST   /application
    POST   /application/yaml
    GET    /application/{name}
    GET    /application/system/{name}
    PUT    /application/{name}
    PUT    /application/yaml/{name}
    PATCH  /application/{name}
    DELETE /application/{name}
    DELETE /application/system/{name}`,
  'Application templates': `
    GET    /applicationTemplates
    POST   /applicationTemplate
    POST   /applicationTemplate/yaml
    GET    /applicationTemplate/{name}
    PATCH  /applicationTemplate/{name}
    PUT    /applicationTemplate/{name}
    PUT    /applicationTemplate/yaml/{name}
    DELETE /applicationTemplate/{name}`,
  Cluster: `
    GET    /cluster/controllers
    GET    /cluster/controllers/{uuid}
    PATCH  /cluster/controllers/{uuid}
    DELETE /cluster/controllers/{uuid}`,
  Catalog: `
    GET    /catalog/microservices
    POST   /catalog/microservices
    GET    /catalog/microservices/{id}
    PATCH  /catalog/microservices/{id}
    DELETE /catalog/microservices/{id}`,
  Registries: `
    GET    /registries
    POST   /registries
    GET    /registries/{id}
    PATCH  /registries/{id}
    DELETE /registries/{id}`,
  Microservices: `
    GET    /microservices
    POST   /microservices
    POST   /microservices/yaml
    GET    /microservices/{uuid}
    PATCH  /microservices/{uuid}
    PATCH  /microservices/yaml/{uuid}
    DELETE /microservices/{uuid}
    PATCH  /microservices/{uuid}/rebuild
    PATCH  /microservices/{uuid}/start
    PATCH  /microservices/{uuid}/stop
    GET    /microservices/{uuid}/config
    PATCH  /microservices/{uuid}/config
    DELETE /microservices/{uuid}/config
    GET    /microservices/{uuid}/port-mapping
    POST   /microservices/{uuid}/port-mapping
    DELETE /microservices/{uuid}/port-mapping/{internalPort}
    GET    /microservices/{uuid}/volume-mapping
    POST   /microservices/{uuid}/volume-mapping
    DELETE /microservices/{uuid}/volume-mapping/{id}
    PATCH  /microservices/{uuid}/models
    PATCH  /microservices/{uuid}/knowledge`,
  'System microservices': `
    GET    /microservices/system
    GET    /microservices/system/{uuid}
    PATCH  /microservices/system/{uuid}
    PATCH  /microservices/system/yaml/{uuid}
    PATCH  /microservices/system/{uuid}/rebuild
    GET    /microservices/system/{uuid}/config
    PATCH  /microservices/system/{uuid}/config
    DELETE /microservices/system/{uuid}/config
    POST   /microservices/system/{uuid}/port-mapping
    DELETE /microservices/system/{uuid}/port-mapping/{internalPort}
    POST   /microservices/system/{uuid}/volume-mapping
    DELETE /microservices/system/{uuid}/volume-mapping/{id}`,
  'Microservice templates': upserted('/microserviceTemplates'),
  Models: upserted('/models') + linked('/models'),
  Knowledge: upserted('/knowledge') + linked('/knowledge'),
  'Runtime classes': upserted('/runtimeClasses') + linked('/runtimeClasses'),
  'Volume mounts': patched('/volumeMounts') + linked('/volumeMounts'),
  'Config maps': patched('/configmaps'),
  Secrets: patched('/secrets'),
  'Service accounts': `
    GET    /serviceaccounts
    POST   /serviceaccounts
    POST   /serviceaccounts/yaml
    GET    /serviceaccounts/{appName}/{name}
    PATCH  /serviceaccounts/{appName}/{name}
    PATCH  /serviceaccounts/yaml/{appName}/{name}
    DELETE /serviceaccounts/{appName}/{name}`,
  'Message bus': `
    GET    /bus/operator
    POST   /bus/operator/rotate
    GET    /bus/bootstrap
    GET    /bus/hub
    PUT    /bus/hub
    GET    /bus/users
    GET    /bus/accounts
    GET    /bus/accounts/{appName}
    POST   /bus/accounts/{appName}
    GET    /bus/accounts/{appName}/users
    POST   /bus/accounts/{appName}/users
    GET    /bus/accounts/{appName}/users/{userName}/creds
    DELETE /bus/accounts/{appName}/users/{userName}
    POST   /bus/accounts/{appName}/mqtt-bearer
    DELETE /bus/accounts/{appName}/mqtt-bearer/{userName}${rules('/bus/account-rules')}${rules('/bus/user-rules')}`,
  Roles: patched('/roles'),
  'Role bindings': patched('/rolebindings'),
  'Network topology': `
    GET    /network-topology/summary${topology('router')}${topology('bus')}`,
  'Default router': `
    GET    /router
    PUT    /router`,
  Events: `
    GET    /events
    DELETE /events`,
  User: `
    POST   /user/login
    POST   /user/refresh
    POST   /user/logout
    GET    /user/profile
    POST   /user/change-password
    POST   /user/mfa/enroll
    POST   /user/mfa/confirm
    DELETE /user/mfa
    GET    /user/oauth/authorize
    GET    /user/oauth/callback
    GET    /user/interaction/{uid}
    POST   /user/interaction/{uid}/login
    POST   /user/interaction/{uid}/mfa
    POST   /user/interaction/{uid}/enroll
    POST   /user/interaction/{uid}/confirm-enroll
    POST   /user/interaction/{uid}/change-password
    POST   /user/interaction/{uid}/complete`,
  'User administration': `
    POST   /auth/migration/export
    POST   /auth/jwks/rotate
    GET    /users
    POST   /users
    GET    /users/{id}
    PATCH  /users/{id}
    DELETE /users/{id}
    POST   /users/{id}/reset-password
    POST   /users/{id}/reset-token
    GET    /groups
    POST   /groups
    GET    /groups/{name}
    PATCH  /groups/{name}
    DELETE /groups/{name}`,
};

function patched(path: string): string {
  return `
    GET    ${path}
    POST   ${path}
    POST   ${path}/yaml
    GET    ${path}/{name}
    PATCH  ${path}/{name}
    PATCH  ${path}/yaml/{name}
    DELETE ${path}/{name}`;
}

function rules(path: string): string {
  return `
    GET    ${path}
    POST   ${path}
    POST   ${path}/yaml
    PATCH  ${path}/{name}
    PATCH  ${path}/yaml/{name}
    DELETE ${path}/{name}`;
}

function upserted(path: string): string {
  return patched(path).replace(`PATCH  ${path}/yaml`, `PUT    ${path}/yaml`);
}

function linked(path: string): string {
  return `
    GET    ${path}/{name}/link
    POST   ${path}/{name}/link
    DELETE ${path}/{name}/link`;
}

function topology(network: string): string {
  const path = `/network-topology/${network}`;
  return `
    GET    ${path}/overview
    GET    ${path}/subgraph
    GET    ${path}/nodes
    GET    ${path}/nodes/{id}
    GET    ${path}/nodes/{id}/connections
    GET    ${path}/connections`;
}

export const V3_OPERATIONS: readonly V3Operation[] = Object.entries(TABLE).flatMap(([section, lines]) =>
  lines
    .trim()
    .split('\n')
    .map((line) => {
      const [method = '', path = ''] = line.trim().split(/ +/);
      return { section, method: method as Method, path };
    }),
);

/** Two spellings of one route: `GET /node/{uuid}` and `GET /node/{id}`. */
export const shapeOf = ({ method, path }: { method: string; path: string }): string =>
  `${method} ${parameterNames(path).reduce((text, name) => text.replace(`{${name}}`, '{}'), path)}`;
