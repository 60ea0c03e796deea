import { describe, expect, it } from 'vitest';
import { makeBusLookups, makeInputs, makeLookups } from '../../../../../testing/inputs.ts';
import { VERDICT_REASONS, type VerdictReason } from '../../../../api/conditions.ts';
import type { Application, MicroserviceEntry } from '../../../../api/v3/index.ts';
import type { Lookups } from '../../../../rules/inputs.ts';
import { entryUuid } from '../../../../rules/names.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { makeCatalogItem, makeRegistry, makeRuntimeClass } from '../../../catalog/_make.ts';
import { makeKnowledge, makeModel, makeVolumeMount } from '../../../content/_make.ts';
import { makeNode } from '../../../nodes/_make.ts';
import { nodeOf } from '../../../nodes/rules/placement/entries.ts';
import { APP_UUID, makeApplication, makeEntry, observedReader } from '../../_make.ts';
import { lookupsOf, lookupsWith } from '../application/lookups.ts';
import { fieldsNotActing } from '../application/not-acting.ts';
import { applicationVerdict, VERDICT_RULES, verdict, verdicts } from './verdict.ts';

const UUID = '33333333-3333-4333-8333-333333333333';
const port = (external: number, internal = 80, protocol: 'tcp' | 'udp' = 'tcp') => ({ internal, external, protocol });

const other = (container: MicroserviceEntry['container'], more: Parameters<typeof makeApplication>[0] = {}) =>
  makeApplication({
    name: 'plant-b',
    uid: '44444444-4444-4444-8444-444444444444',
    createdAt: '2025-01-01T00:00:00Z',
    entries: [makeEntry({ name: 'writer', container })],
    ...more,
  });

const catalog = (name: string, bindPath = '/m') => ({ bindPath, permissions: 'ro' as const, items: [{ name }] });

interface Given {
  entry?: Partial<MicroserviceEntry>;
  /** members of the entry that its schema would refuse today */
  stored?: Partial<MicroserviceEntry>;
  application?: Parameters<typeof makeApplication>[0];
  lookups?: Omit<NonNullable<Parameters<typeof makeLookups>[0]>, 'applications'>;
  others?: readonly Application[];
  writing?: boolean;
}

function judge({ entry, stored, application, lookups, others = [], writing }: Given): Verdict | undefined {
  const own = makeApplication({ entries: [makeEntry(entry)], ...application });
  Object.assign(own.spec.microservices?.[0] ?? {}, stored);
  const applications = [...others, own].sort((a, b) =>
    (a.metadata.creationTimestamp ?? '') < (b.metadata.creationTimestamp ?? '') ? -1 : 1,
  );
  const judged = own.spec.microservices?.[0] as MicroserviceEntry;
  return verdict(own, judged, makeLookups({ applications, ...lookups }), { writing });
}

/** Functions, since the table stands above them. */
function mapped(hostDestination: string): Partial<MicroserviceEntry> {
  return volume({ type: 'volumeMount', hostDestination });
}
function onBus(entry: Partial<MicroserviceEntry>, lookups: Given['lookups'] = { bus: makeBusLookups() }): Given {
  return {
    entry: { ...entry, busConfig: { busAccess: true } },
    application: { spec: { busConfig: { busAccess: true } } },
    lookups,
  };
}
function mountedSecret(data: Record<string, string>) {
  return { volumeMounts: [makeVolumeMount('m', { secretName: 'db' })], secrets: [{ name: 'db', data }] };
}

/** What is refused, with which reason, status and code, and a word of the message. */
const REFUSED: Record<string, [Given, [VerdictReason, Verdict['status'], string, RegExp]]> = {
  'the name of an older application': [
    { others: [other({}, { spec: { name: 'plant-a' } })] },
    ['NameTaken', 409, 'DUPLICATE_NAME', /plant-b/],
  ],
  'a role that does not exist': [
    { entry: { serviceAccount: { roleRef: { name: 'king' } } } },
    ['RoleNotFound', 400, 'ROLE_NOT_FOUND', /king.*agent-admin/],
  ],
  'a write of bus access that the application has not': [
    { entry: { busEnabled: true }, writing: true },
    [
      'BusAccessNotGranted',
      400,
      'BUS_ACCESS_NOT_GRANTED',
      /busConfig\.busAccess needs busConfig\.busAccess of the application/,
    ],
  ],
  'a variable of the message bus beside the access': [
    onBus({ container: { env: [{ key: 'BUS_SERVER_URL', value: 'x' }] } }),
    ['ReservedEnv', 400, 'RESERVED_ENV', /"BUS_SERVER_URL" is refused: .*turn busConfig\.busAccess off/],
  ],
  'a mapping to the credentials of the message bus': [
    onBus({
      container: { volumes: [{ hostDestination: '/a', containerDestination: '/etc/bus/creds/', accessMode: 'ro' }] },
    }),
    ['VolumeInvalid', 400, 'INVALID_VOLUME_MAPPING', /"\/etc\/bus\/creds\/" is refused/],
  ],
  'bus access where there is neither a server on the node nor a hub': [
    onBus({}, { nodes: [makeNode({ spec: { busMode: 'none' } })], bus: makeBusLookups({ hub: () => undefined }) }),
    ['BusNotReachable', 400, 'BUS_NOT_REACHABLE', /set busMode of the node to leaf or server, or configure the hub/],
  ],
  'the uuid of an older microservice': [
    { entry: { uuid: UUID }, others: [other({}, { entries: [makeEntry({ name: 'writer', uuid: UUID })] })] },
    ['UuidTaken', 409, 'DUPLICATE_UUID', /plant-b\/writer/],
  ],
  'a write with the uuid of a younger microservice': [
    {
      entry: { uuid: UUID },
      writing: true,
      others: [other({}, { createdAt: '2027-01-01T00:00:00Z', entries: [makeEntry({ name: 'writer', uuid: UUID })] })],
    },
    ['UuidTaken', 409, 'DUPLICATE_UUID', /plant-b\/writer/],
  ],
  'an entry without a node': [
    { entry: { agent: undefined } },
    ['NodeNotSet', 400, 'NODE_NOT_SET', /agent\.name or agent\.uuid/],
  ],
  'an unknown node name': [
    { entry: { agent: { name: 'nowhere' } } },
    ['NodeNotFound', 404, 'NOT_FOUND_AGENT_NAME', /"nowhere"/],
  ],
  'an unknown node uuid': [{ entry: { agent: { uuid: UUID } } }, ['NodeNotFound', 404, 'INVALID_NODE_UUID', /3333/]],
  'a node that is being deleted': [
    { lookups: { nodes: [makeNode({ deletionTimestamp: '2026-01-01T00:00:00Z' })] } },
    ['NodeDeleting', 409, 'NODE_DELETING', /gw-1/],
  ],
  'a node that is full': [
    {
      others: [0, 1, 2, 3].map((n) =>
        makeApplication({
          name: `old-${n}`,
          uid: `5555555${n}-5555-4555-8555-555555555555`,
          createdAt: '2025-01-01T00:00:00Z',
          entries: Array.from({ length: 125 }, (_, i) => makeEntry({ name: `m${i}` })),
        }),
      ),
    },
    ['NodeFull', 400, 'NODE_FULL', /500/],
  ],
  'an entry with a template that was not rendered yet': [
    { entry: { template: { name: 'base' } } },
    ['TemplateNotRendered', 400, 'TEMPLATE_NOT_RENDERED', /has not been rendered/],
  ],
  'a model that does not exist': [
    { entry: { models: catalog('tiny') } },
    ['ModelNotFound', 404, 'MODEL_NOT_FOUND', /"tiny"/],
  ],
  'a model whose registry does not exist': [
    { entry: { models: catalog('tiny') }, lookups: { models: [makeModel('tiny', { registryId: 77 })] } },
    ['ModelNotReady', 400, 'MODEL_NOT_READY', /no registry 77/],
  ],
  'a model whose registry has no id yet': [
    {
      entry: { models: catalog('tiny') },
      lookups: { models: [makeModel('tiny', { registryId: 'hub' })], registries: [makeRegistry('hub')] },
    },
    ['ModelNotReady', 409, 'MODEL_NOT_READY', /no id yet/],
  ],
  'knowledge that does not exist': [
    { entry: { knowledge: catalog('manuals') } },
    ['KnowledgeNotFound', 404, 'KNOWLEDGE_NOT_FOUND', /"manuals"/],
  ],
  'knowledge whose registry does not exist': [
    {
      entry: { knowledge: catalog('manuals') },
      lookups: { knowledge: [makeKnowledge('manuals', { registryId: 'nowhere' })] },
    },
    ['KnowledgeNotReady', 400, 'KNOWLEDGE_NOT_READY', /no registry "nowhere"/],
  ],
  'knowledge of a system microservice': [
    {
      entry: { knowledge: catalog('manuals') },
      application: { spec: { isSystem: true } },
      lookups: { knowledge: [makeKnowledge('manuals')] },
    },
    ['SystemMicroservice', 400, 'SYSTEM_MICROSERVICE_UPDATE', /system application/],
  ],
  'models on the root of the container': [
    { entry: { models: catalog('tiny', '//') }, lookups: { models: [makeModel('tiny')] } },
    ['BindPathInvalid', 400, 'MICROSERVICE_CATALOG_BIND_PATH_ABSOLUTE', /must not be \//],
  ],
  'knowledge at a path that leaves its place': [
    { entry: { knowledge: catalog('tiny', '/k/../etc') }, lookups: { knowledge: [makeKnowledge('tiny')] } },
    ['BindPathInvalid', 400, 'MICROSERVICE_KNOWLEDGE_BIND_PATH_ABSOLUTE', /without \. and \.\./],
  ],
  'a model at the path of a volume': [
    {
      entry: { ...volume({ containerDestination: '/m/tiny/' }), models: catalog('tiny', '/m') },
      lookups: { models: [makeModel('tiny')] },
    },
    ['PathCollision', 400, 'MICROSERVICE_CATALOG_PATH_COLLISION', /\/m\/tiny/],
  ],
  'models and knowledge at one path': [
    {
      entry: { models: catalog('tiny', '/data'), knowledge: catalog('manuals', '/data/') },
      lookups: { models: [makeModel('tiny')], knowledge: [makeKnowledge('manuals')] },
    },
    ['PathCollision', 400, 'MICROSERVICE_KNOWLEDGE_PATH_COLLISION', /\/data/],
  ],
  'a volume mount that does not exist': [
    { entry: mapped('m/tls.crt') },
    ['VolumeMountNotFound', 404, 'VOLUME_MOUNT_NOT_FOUND', /no volume mount "m"/],
  ],
  'files of the system, in an entry of a user': [
    { entry: mapped('system:certificates/tls.key') },
    [
      'VolumeMountNotFound',
      404,
      'VOLUME_MOUNT_NOT_FOUND',
      /no volume mount "system:certificates": a name that begins with "system:" is of files that the system alone mounts/,
    ],
  ],
  'a volume mount without a name': [
    { entry: mapped('/m') },
    ['VolumeInvalid', 400, 'INVALID_VOLUME_MOUNT_REFERENCE_FOR_VOLUME_MAPPING', /<volume mount>\[\/<key>\]/],
  ],
  'a key that leads out of its volume mount': [
    { entry: mapped('m/../../etc/passwd') },
    ['VolumeInvalid', 400, 'INVALID_VOLUME_MOUNT_REFERENCE_FOR_VOLUME_MAPPING', /\.\./],
  ],
  'a volume mount whose Secret does not exist': [
    { entry: mapped('m'), lookups: { volumeMounts: [makeVolumeMount('m', { secretName: 'db' })] } },
    ['SecretNotFound', 404, 'SECRET_NOT_FOUND', /volume mount m: secretName: no Secret "db"/],
  ],
  'a volume mount whose ConfigMap does not exist': [
    { entry: mapped('m'), lookups: { volumeMounts: [makeVolumeMount('m', { configMapName: 'site' })] } },
    ['ConfigMapNotFound', 404, 'CONFIGMAP_NOT_FOUND', /no ConfigMap "site"/],
  ],
  'a key that the Secret of a volume mount does not have': [
    { entry: mapped('m/con'), lookups: mountedSecret({ 'conf/a': 'hunter2' }) },
    ['VolumeMountKeyNotFound', 400, 'SECRET_KEY_NOT_FOUND_IN_VOLUME_MOUNT', /"db" has no key "con"/],
  ],
  'a key that the ConfigMap of a volume mount does not have': [
    {
      entry: mapped('m/constructor'),
      lookups: {
        volumeMounts: [makeVolumeMount('m', { configMapName: 'site' })],
        configMaps: [{ name: 'site', data: { a: 'b' } }],
      },
    },
    ['VolumeMountKeyNotFound', 400, 'CONFIGMAP_KEY_NOT_FOUND_IN_VOLUME_MOUNT', /constructor/],
  ],
  'a volume mount whose content cannot become files': [
    { entry: mapped('m'), lookups: mountedSecret({ a: 'hunter2', 'a/b': 'hunter2' }) },
    ['VolumeMountInvalid', 400, 'VOLUME_MOUNT_INVALID', /"db" cannot become files/],
  ],
  'a volume mount beyond what a node gets': [
    { entry: mapped('m'), lookups: mountedSecret({ a: 'x'.repeat(13 * 1024 * 1024) }) },
    ['VolumeMountsTooLarge', 400, 'VOLUME_MOUNTS_TOO_LARGE', /16777216 bytes/],
  ],
  'an entry without images': [
    { entry: { images: {} } },
    ['ImageMissing', 400, 'MICROSERVICE_DOES_NOT_HAVE_IMAGES', /no images/],
  ],
  "an entry without an image for the node's architecture": [
    { lookups: { nodes: [makeNode({ status: { archId: 2 } })] } },
    ['ImageMissing', 400, 'MISSING_IMAGE', /arm64.*"gw-1".*amd64/],
  ],
  'a catalog item that does not exist': [
    { entry: { images: { amd64: 'a', catalogId: 12 } } },
    ['CatalogItemNotFound', 404, 'INVALID_CATALOG_ITEM_ID', /^no catalog item 12$/],
  ],
  "a catalog item without an image for the node's architecture, whatever images the entry has": [
    {
      entry: { images: { amd64: 'own:1', catalogId: 'reader' } },
      lookups: { catalogItems: [makeCatalogItem({ images: [{ archId: 2, containerImage: 'a:1' }] })] },
    },
    ['ImageMissing', 400, 'MISSING_IMAGE', /^the catalog item "reader" has no image for amd64.*it has arm64$/],
  ],
  'a catalog item of a registry that does not exist': [
    {
      entry: { images: { catalogId: 12, registry: 1 } },
      lookups: { catalogItems: [makeCatalogItem({ registryId: 77 })] },
    },
    ['RegistryNotFound', 404, 'REGISTRY_NOT_FOUND', /^no registry 77 of the catalog item "reader"$/],
  ],
  'an unknown registry name': [
    { entry: { images: { amd64: 'a', registry: 'team' } } },
    ['RegistryNotFound', 404, 'REGISTRY_NOT_FOUND', /"team"/],
  ],
  'an unknown registry id': [
    { entry: { images: { amd64: 'a', registry: 77 } } },
    ['RegistryNotFound', 404, 'REGISTRY_NOT_FOUND', /77/],
  ],
  'a registry of type hub': [
    {
      entry: { images: { amd64: 'a', registry: 'team' } },
      lookups: { registries: [makeRegistry('team', { id: 9, type: 'hf' })] },
    },
    ['RegistryWrongType', 400, 'INVALID_REGISTRY_TYPE', /hub.*oci/],
  ],
  'a registry without an id': [
    { entry: { images: { amd64: 'a', registry: 'team' } }, lookups: { registries: [makeRegistry('team')] } },
    ['RegistryNotReady', 409, 'REGISTRY_NOT_READY', /no id/],
  ],
  'an annotation with our prefix': [
    { entry: { container: { annotations: { 'skerry.dev/agent': 'x' } } } },
    ['ReservedAnnotation', 400, 'RESERVED_ANNOTATION', /skerry\.dev\/agent/],
  ],
  'an env variable with our prefix': [
    { entry: { container: { env: [{ key: 'SKERRY_TOKEN', value: 'hunter2' }] } } },
    ['ReservedEnv', 400, 'RESERVED_ENV', /SKERRY_TOKEN/],
  ],
  'a config of more than 64 KiB': [
    { entry: { config: 'ä'.repeat(32_768) } },
    ['ConfigTooLarge', 400, 'CONFIG_TOO_LARGE', /65538/],
  ],
  'a volume name with a slash': [
    { entry: volume({ type: 'volume', hostDestination: 'a/b' }) },
    ['VolumeInvalid', 400, 'INVALID_VOLUME_MAPPING', /"a\/b"/],
  ],
  'a relative bind path': [
    { entry: volume({ type: 'bind', hostDestination: 'srv/x' }) },
    ['VolumeInvalid', 400, 'INVALID_VOLUME_MAPPING', /absolute/],
  ],
  'a mount on the root': [
    { entry: volume({ containerDestination: '/' }) },
    ['VolumeInvalid', 400, 'INVALID_VOLUME_MAPPING', /\/ of the container/],
  ],
  'a volume and a tmpfs on one path': [
    {
      entry: { container: { ...volume({ containerDestination: '/x/' }).container, tmpfs: [{ containerPath: '/x' }] } },
    },
    ['PathCollision', 400, 'VOLUME_MAPPING_ALREADY_EXISTS', /\/x/],
  ],
  'a runtime of the node that no runtime class names': [
    {
      entry: { container: { runtime: 'crun' } },
      lookups: { nodes: [makeNode({ status: { availableRuntimes: ['runc', 'crun'] } })] },
    },
    ['RuntimeClassNotFound', 400, 'RUNTIME_CLASS_MISSING', /^no runtime class "crun".*"gw-1" has crun, runc$/],
  ],
  'a runtime class whose handler the node does not have': [
    {
      entry: { container: { runtime: 'kata' } },
      lookups: {
        nodes: [makeNode({ status: { availableRuntimes: ['runc', 'crun'] } })],
        runtimeClasses: [makeRuntimeClass('kata', 'kata-qemu')],
      },
    },
    ['RuntimeNotAvailable', 400, 'RUNTIME_CLASS_MISSING', /"kata-qemu".*"kata".*"gw-1" has crun, runc/],
  ],
  'a reserved port': [
    { entry: { container: { ports: [port(54321)] } } },
    ['PortReserved', 400, 'PORT_RESERVED', /54321.*54322/],
  ],
  'one external port twice, in an entry that was stored before its schema refused that': [
    { stored: { container: { ports: [port(8080, 80), port(8080, 81)] } } },
    ['PortTaken', 400, 'PORT_MAPPING_ALREADY_EXISTS', /8080\/tcp/],
  ],
  'a port of an older application': [
    { entry: { container: { ports: [port(8080)] } }, others: [other({ ports: [port(8080, 1)] })] },
    ['PortTaken', 400, 'PORT_NOT_AVAILABLE', /8080\/tcp.*gw-1.*plant-b\/writer/],
  ],
  'a write with the port of a younger application': [
    {
      entry: { container: { ports: [port(8080)] } },
      writing: true,
      others: [other({ ports: [port(8080, 1)] }, { createdAt: '2027-01-01T00:00:00Z' })],
    },
    ['PortTaken', 400, 'PORT_NOT_AVAILABLE', /plant-b\/writer/],
  ],
  'a Secret that does not exist': [
    { entry: { container: { env: [{ key: 'P', valueFromSecret: 'db/pass' }] } } },
    ['SecretNotFound', 404, 'SECRET_NOT_FOUND', /env P.*"db".*shareable/],
  ],
  'a key that the Secret does not have': [
    {
      entry: { container: { env: [{ key: 'P', valueFromSecret: 'db/a/b' }] } },
      lookups: { secrets: [{ name: 'db', data: { a: 'hunter2' } }] },
    },
    ['SecretKeyNotFound', 400, 'SECRET_KEY_NOT_FOUND', /"a\/b"/],
  ],
  'a Secret key that is the name of an inherited JavaScript member': [
    {
      entry: { container: { env: [{ key: 'P', valueFromSecret: 'db/constructor' }] } },
      lookups: { secrets: [{ name: 'db', data: {} }] },
    },
    ['SecretKeyNotFound', 400, 'SECRET_KEY_NOT_FOUND', /constructor/],
  ],
  'a ConfigMap that does not exist': [
    { entry: { container: { env: [{ key: 'P', valueFromConfigMap: 'site/a' }] } } },
    ['ConfigMapNotFound', 404, 'CONFIGMAP_NOT_FOUND', /"site"/],
  ],
  'a key that the ConfigMap does not have': [
    {
      entry: { container: { env: [{ key: 'P', valueFromConfigMap: 'site/a' }] } },
      lookups: { configMaps: [{ name: 'site', data: {} }] },
    },
    ['ConfigMapKeyNotFound', 400, 'CONFIGMAP_KEY_NOT_FOUND', /"a"/],
  ],
  'an unknown expression of an extra host': [
    { entry: host('${Nodes.gw-1}') },
    ['HostTemplateInvalid', 400, 'INVALID_HOST_TEMPLATE', /\$\{Agents\.<node>\}/],
  ],
  'an expression in the middle of an extra host': [
    { entry: host('x.${Agents.gw-1}') },
    ['HostTemplateInvalid', 400, 'INVALID_HOST_TEMPLATE', /must be/],
  ],
  'an extra host with a plain name': [
    { entry: host('db.example.com') },
    ['HostTemplateInvalid', 400, 'INVALID_HOST_TEMPLATE', /"db\.example\.com" must be an IP address/],
  ],
  'an extra host of an unknown node': [
    { entry: host('${Agents.nowhere}') },
    ['HostNotFound', 404, 'NOT_FOUND_HOST_TEMPLATE', /"nowhere"/],
  ],
  'an extra host of a node without an address': [
    { entry: host('${Agents.gw-1}'), lookups: { nodes: [makeNode({ status: { ipAddress: '0.0.0.0' } })] } },
    ['HostNotFound', 400, 'NOT_FOUND_HOST_TEMPLATE', /no address/],
  ],
  'an extra host of a microservice on another node': [
    {
      entry: host('${Apps.plant-b.writer.local}'),
      others: [other({}, { entries: [makeEntry({ name: 'writer', agent: { name: 'gw-2' } })] })],
    },
    ['HostNotFound', 400, 'NOT_FOUND_APPS_TEMPLATE', /"plant-b\.writer" is not on the node "gw-1"/],
  ],
  'an extra host of a microservice that does not exist': [
    { entry: host('${Apps.plant-b.gone.local}'), others: [other({})] },
    ['HostNotFound', 404, 'NOT_FOUND_APPS_TEMPLATE', /no microservice "plant-b\.gone".*gw-1/],
  ],
};

function volume(mapping: object): Partial<MicroserviceEntry> {
  const base = { hostDestination: '/a', containerDestination: '/a', accessMode: 'rw', type: 'bind', scope: 'private' };
  return { container: { volumes: [{ ...base, ...mapping } as never] } };
}
function host(address: string): Partial<MicroserviceEntry> {
  return { container: { extraHosts: [{ name: 'h', address }] } };
}

const ADMITTED: Record<string, Given> = {
  'bus access on a node whose bus is none, where there is a hub': onBus(
    {},
    { nodes: [makeNode({ spec: { busMode: 'none' } })], bus: makeBusLookups() },
  ),
  'bus access while there is no hub, on a node with a server': onBus(
    {},
    { bus: makeBusLookups({ hub: () => undefined }) },
  ),
  'variables of the message bus and no server of it while the bus is off': onBus(
    { container: { env: [{ key: 'BUS_SERVER_URL', value: 'x' }] } },
    {},
  ),
  'variables of the message bus without access': {
    entry: { container: { env: [{ key: 'BUS_SERVER_URL', value: 'nats://own:4222' }] } },
    lookups: { bus: makeBusLookups() },
  },
  'the minimal entry': {},
  'a node by uuid': { entry: { agent: { uuid: makeNode().metadata.uid } } },
  'images of unknown architecture while the node is not known': {
    entry: { images: { arm: 'a' } },
    lookups: { nodes: [makeNode({ spec: { archId: 0 } })] },
  },
  'an image for the reported architecture, which precedes that of the spec': {
    entry: { images: { arm64: 'a' } },
    lookups: { nodes: [makeNode({ spec: { archId: 1 }, status: { archId: 2 } })] },
  },
  'the built-in registries before their objects exist': { entry: { images: { amd64: 'a', registry: 'local' } } },
  'a registry by id as text': {
    entry: { images: { amd64: 'a', registry: '9' } },
    lookups: { registries: [makeRegistry('team', { id: 9 })] },
  },
  'a port that a younger application claims too': {
    entry: { container: { ports: [port(8080)] } },
    others: [other({ ports: [port(8080, 1)] }, { createdAt: '2027-01-01T00:00:00Z' })],
  },
  'the same port with another protocol': {
    entry: { container: { ports: [port(8080, 80, 'udp')] } },
    others: [other({ ports: [port(8080, 1)] })],
  },
  'one port number with both protocols': { entry: { container: { ports: [port(8080), port(8080, 80, 'udp')] } } },
  'the port of a stopped microservice': {
    entry: { container: { ports: [port(8080)] } },
    others: [other({ ports: [port(8080, 1)] }, { spec: { isActivated: false } })],
  },
  'the port of a microservice on another node': {
    entry: { container: { ports: [port(8080)] } },
    others: [
      other(
        {},
        { entries: [makeEntry({ name: 'writer', agent: { name: 'gw-2' }, container: { ports: [port(8080)] } })] },
      ),
    ],
  },
  'a runtime class while the node has not reported its runtimes': {
    entry: { container: { runtime: 'kata' } },
    lookups: { runtimeClasses: [makeRuntimeClass('kata', 'kata-qemu')] },
  },
  'a runtime class whose handler the node has': {
    entry: { container: { runtime: 'kata' } },
    lookups: {
      nodes: [makeNode({ status: { availableRuntimes: ['kata-qemu'] } })],
      runtimeClasses: [makeRuntimeClass('kata', 'kata-qemu')],
    },
  },
  'a key with a slash of a Secret': {
    entry: { container: { env: [{ key: 'P', valueFromSecret: 'db/a/b' }] } },
    lookups: { secrets: [{ name: 'db', data: { 'a/b': 'x' } }] },
  },
  'an empty value of a Secret': {
    entry: { container: { env: [{ key: 'P', valueFromSecret: 'db/a' }] } },
    lookups: { secrets: [{ name: 'db', data: { a: '' } }] },
  },
  'a Windows bind path': { entry: volume({ hostDestination: 'C:\\data' }) },
  'a node name with dots in an extra host': {
    entry: host('${Agents.gw.1.site}'),
    lookups: { nodes: [makeNode(), makeNode({ name: 'gw.1.site', uuid: UUID, spec: { host: '10.0.0.9' } })] },
  },
  'a microservice name with dots in an extra host': {
    entry: host('${Apps.plant.b.wri.ter.local}'),
    others: [other({}, { name: 'plant.b', entries: [makeEntry({ name: 'wri.ter' })] })],
  },
  'models and knowledge of one name, side by side': {
    entry: { models: catalog('tiny', '/data/models'), knowledge: catalog('tiny', '/data/knowledge') },
    lookups: { models: [makeModel('tiny')], knowledge: [makeKnowledge('tiny')] },
  },
  'a volume inside the path of the models': {
    entry: { ...volume({ containerDestination: '/m/cache' }), models: catalog('tiny') },
    lookups: { models: [makeModel('tiny')] },
  },
  'a directory of a volume mount': { entry: mapped('m'), lookups: mountedSecret({}) },
  'a key of a volume mount': { entry: mapped('m/conf/a'), lookups: mountedSecret({ 'conf/a': '' }) },
  'the keys of a volume mount below a path': { entry: mapped('m/conf'), lookups: mountedSecret({ 'conf/a': '' }) },
  'a config of exactly 64 KiB': { entry: { config: 'x'.repeat(65_534) } },
  'a service account, and bus settings, which have no effect yet': {
    entry: { busConfig: { busAccess: true }, serviceAccount: { roleRef: { name: 'microservice' } } },
  },
  'the oldest of several applications with one name': {
    others: [other({}, { spec: { name: 'plant-a' }, createdAt: '2027-01-01T00:00:00Z' })],
  },
};

describe('verdict', () => {
  it.each(Object.entries(REFUSED))('refuses %s', (_, [given, [reason, status, code, message]]) => {
    const found = judge(given);
    expect(found).toMatchObject({ reason, status, code });
    expect(found?.message).toMatch(message);
    expect(found?.message).not.toContain('hunter2');
  });

  it.each(Object.entries(ADMITTED))('admits %s', (_, given) => expect(judge(given)).toBeUndefined());

  it('has a case for every reason', () => {
    const tried = new Set(Object.values(REFUSED).map(([, [reason]]) => reason));
    // are no entry's: see identity.test.ts and kinds/service-account.test.ts
    tried.add('IdTaken').add('ApplicationNotFound');
    // is a move's: see moves.test.ts
    tried.add('MovingFromNode');
    // The hub of the message bus: src/subjects/bus-servers/routes/hub.test.ts
    tried.add('BusHubInvalid');
    // Of an AuthPolicy: src/subjects/identity/rules/policy.test.ts
    tried.add('NotUsed');
    // The default router: src/subjects/routers/routes/hub.test.ts
    tried.add('RouterHubInvalid');
    // are of a model or knowledge: see artifact.test.ts
    tried.add('FilesRequired').add('FilesForbidden');
    // is no entry's: see catalog-item.test.ts
    tried.add('PublisherReserved');
    // Registries: src/subjects/catalog/rules/registry.test.ts
    tried.add('CaInvalid');
    // Rules of the message bus: src/subjects/bus-rules/rules/rule-verdict.test.ts
    tried.add('BusRuleInvalid');
    // Certificates and their authorities: src/subjects/pki/certificates.api.test.ts, reconcile/certificate.test.ts
    tried.add('AuthorityExpired').add('AuthorityInvalid').add('AuthorityNotFound').add('AuthorityNotReady');
    tried
      .add('AuthorityOfSystem')
      .add('CertificateExpired')
      .add('ExpirationInvalid')
      .add('HostInvalid')
      .add('NameReserved')
      .add('NotOnControlPlane')
      .add('SecretTaken');
    // Services: src/subjects/services/rules/verdict.test.ts
    tried.add('ServiceInvalid').add('MicroserviceNotFound').add('RouterNone').add('BridgeNotConnected');
    // are of nodes that name others: see edge-node/upstreams.test.ts
    tried.add('RouterWrongMode').add('BusServerWrongMode');
    // need a crowded node: see ../artifact/artifact.test.ts
    tried.add('NodeModelsFull').add('NodeKnowledgeFull');
    // are of the reconciler: see controllers/templates.api.test.ts
    tried.add('TemplateNotFound').add('TemplateInvalid').add('TemplateConflict');
    expect([...tried].sort()).toEqual(Object.keys(VERDICT_REASONS).sort());
  });

  it('applies the rules in the documented order and returns the first verdict', () => {
    expect(VERDICT_RULES.map(({ name }) => name)).toMatchInlineSnapshot(`
      [
        "nameIsFree",
        "applicationUuidIsFree",
        "uuidIsFree",
        "nodeIsSet",
        "nodeIsFound",
        "nodeStays",
        "nodeHasRoom",
        "catalogItemIsFound",
        "templateIsRendered",
        "imageIsGiven",
        "registryIsUsable",
        "annotationsAreAllowed",
        "envIsAllowed",
        "configIsSmall",
        "volumesAreValid",
        "catalogsAreValid",
        "mountsAreApart",
        "runtimeClassIsFound",
        "runtimeIsAvailable",
        "roleIsFound",
        "busAccessIsGranted",
        "busPlacesAreFree",
        "busIsReachable",
        "portsAreAllowed",
        "envResolves",
        "volumeMountsResolve",
        "extraHostsResolve",
        "catalogsResolve",
        "catalogsFit",
        "formerNodesHaveStopped",
        "portsAreFree",
      ]
    `);
  });

  it('distinguishes verdicts that pass without an edit from those that need one', () => {
    const passing = Object.entries(REFUSED).filter(([, [given]]) => judge(given)?.passes);
    expect(passing.map(([sentence]) => sentence)).toEqual([
      'an entry with a template that was not rendered yet',
      'a model whose registry has no id yet',
      'a registry without an id',
      'an extra host of a node without an address',
    ]);
  });
});

describe('ports that are being given up', () => {
  const own = makeApplication({ entries: [makeEntry({ container: { ports: [port(8080)] } })] });
  const entry = own.spec.microservices?.[0] as MicroserviceEntry;
  const left = observedReader({ uuid: UUID, application: 'plant-a', name: 'old', ports: [port(8080)] });
  const lookups = makeLookups({ nodes: [makeNode({ status: { microservices: [left] } })], applications: [own] });

  it('cause a verdict that passes without an edit until the node no longer reports them', () => {
    expect(verdict(own, entry, lookups)).toMatchObject({ reason: 'PortTaken', passes: true });
    expect(verdict(own, entry, lookups)?.message).toMatch(/plant-a\/old, which is giving it up/);
  });

  it('do not refuse a write', () => expect(verdict(own, entry, lookups, { writing: true })).toBeUndefined());

  it('are free for an entry of the same name that is added again', () => {
    const revived = observedReader({ uuid: entryUuid(own, entry), ports: [port(8080)] });
    const before = makeLookups({ nodes: [makeNode({ status: { microservices: [revived] } })], applications: [own] });
    expect(verdict(own, entry, before)).toBeUndefined();
  });
});

describe('verdicts', () => {
  it('returns a verdict for each refused entry', () => {
    const application = makeApplication({
      entries: [makeEntry(), makeEntry({ name: 'lost', agent: { name: 'nowhere' } })],
    });
    const found = verdicts(application, makeLookups({ applications: [application] }));
    expect([...found]).toEqual([['lost', expect.objectContaining({ reason: 'NodeNotFound' })]]);
  });

  it('of two entries with one uuid or one port the first name keeps it', () => {
    const twins = makeApplication({
      entries: [makeEntry({ name: 'b', uuid: UUID }), makeEntry({ name: 'a', uuid: UUID })],
    });
    expect([...verdicts(twins, makeLookups({ applications: [twins] })).keys()]).toEqual(['b']);
    const rivals = makeApplication({
      entries: ['b', 'a'].map((name) => makeEntry({ name, container: { ports: [port(8080)] } })),
    });
    expect([...verdicts(rivals, makeLookups({ applications: [rivals] })).keys()]).toEqual(['b']);
  });
});

describe('applicationVerdict', () => {
  const own = makeApplication();
  const older = other({}, { spec: { name: 'plant-a', uuid: APP_UUID } });
  it('is NameTaken when an older application has the name', () => {
    expect(applicationVerdict(own, makeLookups({ applications: [older, own] }))).toMatchObject({ reason: 'NameTaken' });
    expect(applicationVerdict(older, makeLookups({ applications: [older, own] }))).toBeUndefined();
  });
  it('is UuidTaken when an older application has the uuid and the lookups can find it', () => {
    const lookups = { ...makeLookups({ applications: [own] }), applicationByUuid: () => older };
    expect(verdicts(own, lookups).get('reader')).toMatchObject({ reason: 'UuidTaken', status: 409 });
    expect(applicationVerdict(own, lookups)).toMatchObject({ reason: 'UuidTaken', status: 409 });
  });
});

describe('a full node', () => {
  it('keeps the microservices that it reports even when others are older', () => {
    const own = makeApplication();
    const older = [0, 1, 2, 3].map((n) =>
      makeApplication({
        name: `old-${n}`,
        uid: `5555555${n}-5555-4555-8555-555555555555`,
        createdAt: '2025-01-01T00:00:00Z',
        entries: Array.from({ length: 125 }, (_, i) => makeEntry({ name: `m${i}` })),
      }),
    );
    const entry = own.spec.microservices?.[0] as MicroserviceEntry;
    const node = makeNode({ status: { microservices: [observedReader({ uuid: entryUuid(own, entry) })] } });
    const lookups = makeLookups({ nodes: [node], applications: [...older, own] });
    expect(verdict(own, entry, lookups)).toBeUndefined();
    // one of the older ones has to wait: the last by uid and name
    const last = older[3] as Application;
    expect([...verdicts(last, lookups)].map(([name, { reason }]) => [name, reason])).toEqual([['m99', 'NodeFull']]);
  });

  it('has room for a microservice of the system, before those that it reports', () => {
    const crowd = [0, 1, 2, 3].map((n) =>
      makeApplication({
        name: `old-${n}`,
        uid: `5555555${n}-5555-4555-8555-555555555555`,
        createdAt: '2025-01-01T00:00:00Z',
        entries: Array.from({ length: 125 }, (_, i) => makeEntry({ name: `m${i}` })),
      }),
    );
    const system = makeApplication({ name: 'system-gw-1', spec: { isSystem: true } });
    const microservices = crowd.flatMap((application) =>
      (application.spec.microservices ?? []).map((entry) => observedReader({ uuid: entryUuid(application, entry) })),
    );
    const lookups = makeLookups({
      nodes: [makeNode({ status: { microservices } })],
      applications: [...crowd, system],
    });
    expect(verdicts(system, lookups).size).toBe(0);
  });
});

describe('lookupsWith', () => {
  it('finds each application by its own name only', () => {
    const stored = other({});
    const lookups = lookupsWith(makeLookups({ applications: [stored] }), makeApplication());
    expect(lookups.applicationByName('plant-a')?.metadata.name).toBe('plant-a');
    expect(lookups.applicationByName('plant-b')).toBe(stored);
    expect(lookups.applicationByName('plant-c')).toBeUndefined();
  });

  it('finds the stored application under a name that it has', () => {
    const stored = other({}, { spec: { name: 'plant-a' } });
    const fresh = makeApplication();
    expect(verdict(fresh, makeEntry(), lookupsWith(makeLookups({ applications: [stored] }), fresh))).toMatchObject({
      reason: 'NameTaken',
    });
  });

  it('treats an object of the same name with another uid as another application', () => {
    const stored = makeApplication({ uid: '88888888-8888-4888-8888-888888888888' });
    expect(applicationVerdict(makeApplication(), makeLookups({ applications: [stored] }))).toMatchObject({
      reason: 'NameTaken',
    });
  });

  it('finds the uuids of the written entries, and only those', () => {
    const stored = makeApplication({ entries: [makeEntry({ uuid: UUID })] });
    const edited = makeApplication({
      entries: [makeEntry({ name: 'a', uuid: UUID }), makeEntry({ name: 'b', uuid: UUID })],
    });
    const lookups = lookupsWith(makeLookups({ applications: [stored] }), edited);
    expect(lookups.applicationsWithEntry(UUID)).toEqual([edited]);
    expect(lookups.applicationsWithEntry(APP_UUID)).toEqual([]);
    expect([...verdicts(edited, lookups).keys()]).toEqual(['b']);
  });

  it('gives the verdicts of a write as if it were stored', () => {
    const stored = makeApplication();
    const edited = makeApplication({ entries: [makeEntry({ container: { ports: [port(8080)] } })] });
    const lookups = lookupsWith(makeLookups({ applications: [stored] }), edited);
    expect(
      verdict(edited, edited.spec.microservices?.[0] as MicroserviceEntry, lookups, { writing: true }),
    ).toBeUndefined();
    expect(lookups.applicationsOn(makeNode())).toEqual([edited]);
  });

  it('finds a new application, which has no uid yet, in addition to the stored ones', () => {
    const stored = other({ ports: [port(8080)] });
    const fresh = makeApplication({ entries: [makeEntry({ container: { ports: [port(8080)] } })] });
    delete fresh.metadata.uid;
    delete fresh.metadata.creationTimestamp;
    delete fresh.metadata.namespace;
    const lookups = lookupsWith(makeLookups({ applications: [stored] }), fresh);
    expect(verdict(fresh, fresh.spec.microservices?.[0] as MicroserviceEntry, lookups)).toMatchObject({
      reason: 'PortTaken',
    });
  });

  it('gives a verdict on one of two entries of a write that claim the same', () => {
    const fresh = makeApplication({
      entries: ['a', 'b'].map((name) => makeEntry({ name, container: { ports: [port(8080)] } })),
    });
    const lookups = lookupsWith(makeLookups(), fresh);
    expect(
      verdict(fresh, fresh.spec.microservices?.[0] as MicroserviceEntry, lookups, { writing: true }),
    ).toMatchObject({
      reason: 'PortTaken',
    });
  });
});

describe('lookupsOf', () => {
  it('gives the same verdicts as lookups over all objects', () => {
    const node = makeNode();
    const application = makeApplication({
      entries: [makeEntry({ container: { env: [{ key: 'P', valueFromSecret: 'db/p' }] } })],
    });
    const entry = application.spec.microservices?.[0] as MicroserviceEntry;
    const secrets = [{ name: 'db', data: {} }];
    const lookups: Lookups = lookupsOf(makeInputs({ node, applications: [application], secrets }));
    expect(verdict(application, entry, lookups)).toEqual(
      verdict(application, entry, makeLookups({ nodes: [node], applications: [application], secrets })),
    );
  });

  it('uses the applications of the inputs when there are no lookups over the namespace', () => {
    const own = makeApplication({ entries: [makeEntry({ uuid: UUID })] });
    const older = other({}, { spec: { name: 'plant-a' }, entries: [makeEntry({ name: 'writer', uuid: UUID })] });
    const lookups = lookupsOf(makeInputs({ applications: [own, older] }));
    expect(lookups.applicationByName('plant-a')).toBe(older);
    expect(lookups.applicationByName('plant-b')).toBeUndefined();
    expect(lookups.applicationsWithEntry(UUID)).toEqual([own, older]);
    expect(lookups.applicationsWithEntry(APP_UUID)).toEqual([]);
  });

  it('finds its own node by name and uuid, and no other node by uuid', () => {
    const node = makeNode();
    const lookups = lookupsOf({ ...makeInputs({ node }), nodeByName: () => undefined });
    expect(lookups.nodeByName('gw-1')).toBe(node);
    expect(lookups.nodeByName('gw-2')).toBeUndefined();
    expect(lookups.nodeByUuid(node.metadata.uid as string)).toBe(node);
    expect(lookups.nodeByUuid(UUID)).toBeUndefined();
  });

  it('places entries by name on the older node of that name', () => {
    const older = makeNode({ uuid: UUID });
    const inputs = { ...makeInputs(), nodeByName: () => older };
    expect(nodeOf(makeEntry(), lookupsOf(inputs))?.metadata.uid).toBe(UUID);
  });
});

describe('notActing', () => {
  const granted = makeApplication({ spec: { busConfig: { busAccess: true } } });
  const cases: Record<string, [Partial<MicroserviceEntry>, string[]]> = {
    'the minimal entry has no such field': [{}, []],
    'bus access is listed': [{ busEnabled: true }, ['busConfig']],
    'a bus rule is listed': [{ busConfig: { busRule: 'r' } }, ['busConfig']],
    'busAccess false is not listed': [{ busConfig: { busAccess: false } }, []],
    'a config is not listed': [{ config: { rate: 5 } }, []],
    'an empty config is not listed': [{ config: {} }, []],
  };
  it.each(Object.entries(cases))('%s', (_, [entry, want]) =>
    expect(fieldsNotActing(granted, makeEntry(entry))).toEqual(want),
  );

  it('says which bus access the application has not', () => {
    expect(fieldsNotActing(makeApplication(), makeEntry({ busEnabled: true }))).toEqual([
      'busConfig (needs busConfig.busAccess of the application)',
    ]);
  });
});
