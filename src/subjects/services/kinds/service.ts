import { z } from 'zod';
import { labelName } from '../../../api/meta.ts';
import {
  DEFAULT_BRIDGE,
  PROVISIONING,
  type Service,
  serviceResource,
  serviceSpecSchema,
} from '../../../api/v3/service.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { type KindCrud, plainShapes } from '../../../kinds/rest.ts';
import { isObject, quoted, readDocument, requireUnchanged } from '../../../rules/document.ts';
import { invalid } from '../../../rules/errors.ts';
import { eligibleTags } from '../../routers/rules/tags.ts';
import { claimedPort } from '../rules/bridge-ports.ts';
import { serviceRead } from '../rules/read.ts';
import { bridgeOf, formVerdict } from '../rules/verdict.ts';

type Json = Record<string, unknown>;

const shapes = plainShapes(serviceResource, serviceSpecSchema as unknown as z.ZodObject);
const plain = plainTranslation<Service>(serviceSpecSchema, { closed: true, name: labelName() });

const read = (shapes.read as unknown as z.ZodObject)
  .extend({
    resource: z.string().describe('backend; the uuid of a microservice or a node'),
    defaultBridge: z.string(),
    bridgePort: z.number().int().nullable().describe('port under which routers listen; null until it is given'),
    servicePort: z.number().int().nullable(),
    clusterType: z.string().nullable(),
    serviceEndpoint: z.string().nullable(),
    provisioningStatus: z.enum(PROVISIONING),
    provisioningError: z.string().nullable(),
    createdAt: z.string().nullable().describe('RFC 3339'),
    updatedAt: z.string().nullable().describe('RFC 3339'),
  })
  .meta({ id: 'Service' }) as unknown as typeof shapes.read;

/** Members of a read that a body may repeat, and that are not written. */
const SHOWN = ['serviceEndpoint', 'provisioningStatus', 'provisioningError', 'createdAt', 'updatedAt'];

/** A body without what the controller gives. A bridge port can only be repeated. */
function written(body: unknown, bridgePort?: number): unknown {
  if (!isObject(body)) return body;
  const { bridgePort: given } = body;
  if (given !== undefined && given !== null && given !== bridgePort)
    throw invalid(
      `bridgePort: ${quoted(given)}; the controller gives it once${bridgePort === undefined ? '' : `, and it is ${bridgePort}`}: leave it out`,
      'bridgePort',
    );
  return Object.fromEntries(
    Object.entries(body).filter(([member]) => member !== 'bridgePort' && !SHOWN.includes(member)),
  );
}

/** The body that says the same as a file: tags are in the metadata, and a bridge port counts for nothing. */
function fileBody(document: unknown): Json {
  const { metadata, spec } = readDocument(document, serviceResource.kind, { isClosed: true });
  const { bridgePort: _bridgePort, ...members } = spec;
  if (metadata.tags !== undefined && members.tags !== undefined)
    throw invalid('spec.tags: tags are given in metadata and in spec; give them once', 'spec.tags');
  if (members.name !== undefined) throw invalid('spec: unknown field "name"', 'spec');
  const tags = metadata.tags ?? members.tags;
  return { ...members, ...(tags !== undefined && { tags }), name: metadata.name };
}

export const serviceCrud: KindCrud<Service> = {
  path: '/services',
  list: 'services',
  isBareList: true,
  replies: {
    create: { status: 201, body: 'object' },
    change: { status: 200, body: 'object' },
    delete: { status: 204 },
  },
  shapes: { ...shapes, read },
  // Tags and resources are no expressions.
  templated: false,
  texts: {
    create: { description: 'Replies at once, with `provisioningStatus` pending; `resource` is stored as a uuid.' },
    change: { description: 'Members that are absent stay; null removes one. `type` and `defaultBridge` never change.' },
    delete: { description: 'Its listeners, its connector and the Service that the controller made end with it.' },
  },
  ...plain,
  fromBody: (body) => plain.fromBody(written(body)),
  patch(service, body) {
    const fields = written(body, service.status?.bridgePort);
    if (!isObject(fields)) return plain.patch(service, fields);
    const { defaultBridge, ...others } = fields;
    requireUnchanged('type', others.type, service.spec.type);
    requireUnchanged('defaultBridge', defaultBridge, service.spec.defaultBridge ?? DEFAULT_BRIDGE);
    return plain.patch(service, others);
  },
  read: serviceRead,
  namesOthers: true,
  upload: { part: 'service', update: 'PATCH', body: fileBody },
};

export const serviceKind = defineKind<Service>()({
  key: 'services',
  definition: serviceResource,
  noun: 'service',
  access: 'workloads',
  verdict: formVerdict,
  rest: { tag: 'Services', key: 'name', notFound: 'SERVICE_NOT_FOUND', crud: serviceCrud },
  indexes: {
    /** what it leads to, as the spec has it */
    resource: ({ spec }) => [spec.resource],
    /** uuid of the microservice or the node that it was found to lead to */
    backend: ({ status }) => (status?.backend ? [status.backend.uuid] : []),
    /** tokens by which nodes select it */
    tag: (service) => new Set(eligibleTags({ tags: service.spec.tags ?? [] })),
    /** `true`: every service */
    all: () => ['true'],
    /** the port under which routers listen for it */
    bridgePort: ({ status }) => (status?.bridgePort === undefined ? [] : [String(status.bridgePort)]),
    /** the port that it had before a restore */
    claimedPort: (service) => [claimedPort(service) ?? []].flat().map(String),
    /** uuid of the node whose router listens besides the hub */
    bridge: (service) => [bridgeOf(service) ?? []].flat(),
  },
});
