import { z } from 'zod';
import { BOUNDS } from '../../../api/bounds.ts';
import { IDENTITIES, type ResourceDefinition } from '../../../api/meta.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import { CORE_RESOURCES, type ResourceOf } from '../../../api/resources.ts';
import { text, withoutEffect } from '../../../api/schema.ts';
import type { Kind } from '../../../kinds/definition.ts';
import type { KindObject } from '../../../kinds/object.ts';
import { type KindCrud, type KindRest, replyShape } from '../../../kinds/rest.ts';
import { v3Name } from '../../../rules/names.ts';
import {
  configMapFromBody,
  configMapPatch,
  patchedContent,
  requireMutable,
  secretFromBody,
  secretPatch,
} from '../rules/core-objects/body.ts';
import { bodyOfDocument } from '../rules/core-objects/document.ts';
import type { ConfigMapForm, SecretForm } from '../rules/core-objects/form.ts';
import { SECRET_TYPES } from '../rules/core-objects/rules.ts';

/**
 * Secrets and ConfigMaps of the v3 API. They are core objects with the label skerry.dev/shareable, so they have no CRD, no
 * status and no store of their own; in the form of rules/core-objects/form.ts the plain REST operations and references serve
 * them as they serve every kind.
 */

type Json = Record<string, unknown>;

const identity = IDENTITIES.id;
const head = {
  id: z.number().int().optional(),
  name: z.string(),
  created_at: z.string().optional(),
  updated_at: z.string().optional(),
};
const data = z.record(z.string(), z.string());
const content = {
  data: data.optional(),
  binaryData: data.optional().describe('Bytes that are no text, in base64.'),
};
const whole = { ...content, immutable: z.boolean().optional() };

/** Times of a core object: the API server does not say when an object was changed, so REST notes it. */
const timesOf = ({ metadata: { creationTimestamp, annotations } }: KindObject): Json => ({
  created_at: creationTimestamp,
  updated_at: annotations?.[ANNOTATIONS.updatedAt] ?? creationTimestamp,
});

/** What a read shows in addition to a list. */
export const contentMembers = ({ spec }: SecretForm | ConfigMapForm): Json => ({
  data: spec.data,
  ...(spec.binaryData && { binaryData: spec.binaryData }),
});

const REPLIES = {
  create: { status: 201, body: 'object' },
  change: { status: 200, body: 'object' },
  delete: { status: 200 },
} as const;

function definitionOf(kind: 'Secret' | 'ConfigMap', plural: string, description: string): ResourceDefinition {
  const spec = z.object({ name: text({ max: BOUNDS.anyName }).optional(), ...identity.asked });
  return {
    kind,
    plural,
    singular: kind.toLowerCase(),
    shortNames: [],
    description,
    spec,
    status: z.object({}),
    identity,
    conditions: [],
    selectableFields: [],
    printerColumns: [],
  };
}

interface CoreKind<T extends KindObject> extends Kind<T> {
  rest: KindRest<T> & { crud: KindCrud<T> };
}

function coreKind<T extends KindObject>(
  kind: Omit<Kind<T>, 'resource' | 'identity' | 'indexes' | 'access' | 'rest'> & { resource: unknown },
  rest: CoreKind<T>['rest'],
): CoreKind<T> {
  return {
    ...kind,
    resource: kind.resource as ResourceOf<T>,
    identity: { id: ({ spec: { id } }) => id },
    access: 'workloads',
    indexes: {},
    rest,
  };
}

export const secretKind = coreKind<SecretForm>(
  {
    key: 'secrets',
    definition: definitionOf('Secret', 'secrets', 'A Secret that microservices may use.'),
    resource: CORE_RESOURCES.secrets,
    noun: 'secret',
    inUse: { status: 409, code: 'SECRET_IN_USE' },
  },
  {
    tag: 'Secrets',
    key: 'name',
    notFound: 'SECRET_NOT_FOUND',
    crud: {
      path: '/secrets',
      list: 'secrets',
      replies: REPLIES,
      readPermission: 'secrets/data',
      templated: false,
      shapes: {
        create: z
          .strictObject({ name: z.string(), type: z.enum(SECRET_TYPES), ...whole, data })
          .meta({ id: 'NewSecret' }),
        change: z.strictObject({ ...whole, data }).meta({ id: 'SecretChanges' }),
        read: replyShape({ ...head, type: z.enum(SECRET_TYPES), ...content }, 'Secret'),
        listed: z.looseObject({ ...head, type: z.enum(SECRET_TYPES), data: z.undefined().optional() }),
      },
      texts: {
        list: { summary: 'All secrets, without data' },
        get: { description: 'Needs the permission to read data of secrets, `get secrets/data`.' },
        create: { description: 'The reply has the data for callers who may get `secrets/data`.' },
        change: { description: '`data` replaces the data. The reply has it for callers who may get `secrets/data`.' },
        delete: { description: 'Deletes its volume mounts as well, which no microservice may use.' },
      },
      fromBody: (body) => {
        const { name, ...spec } = secretFromBody(body);
        return { name, spec };
      },
      patch: (secret, body) => {
        const spec = patchedContent(secret.spec, secretPatch(body, { name: v3Name(secret), type: secret.spec.type }));
        requireMutable(`Secret ${v3Name(secret)}`, 'SECRET_IMMUTABLE', { before: secret.spec, after: spec });
        return { spec };
      },
      read: (secret) => ({
        name: v3Name(secret),
        type: secret.spec.type,
        ...(secret.spec.immutable && { immutable: true }),
        ...timesOf(secret),
      }),
      upload: { part: 'secret', update: 'PATCH', body: (document) => bodyOfDocument(document, 'Secret') },
    },
  },
);

const useVault = withoutEffect(z.boolean(), 'there is no vault, and a ConfigMap of Kubernetes has the data');

export const configMapKind = coreKind<ConfigMapForm>(
  {
    key: 'configMaps',
    definition: definitionOf('ConfigMap', 'configmaps', 'A ConfigMap that microservices may use.'),
    resource: CORE_RESOURCES.configMaps,
    noun: 'config map',
    inUse: { status: 409, code: 'CONFIGMAP_IN_USE' },
  },
  {
    tag: 'Config maps',
    key: 'name',
    notFound: 'CONFIGMAP_NOT_FOUND',
    crud: {
      path: '/configmaps',
      list: 'configMaps',
      replies: REPLIES,
      templated: false,
      shapes: {
        create: z
          .strictObject({
            name: z.string(),
            ...whole,
            data,
            useVault,
          })
          .meta({ id: 'NewConfigMap' }),
        change: z.strictObject({ ...whole, useVault }).meta({ id: 'ConfigMapChanges' }),
        read: replyShape({ ...head, immutable: z.boolean(), useVault: z.boolean(), ...content }, 'ConfigMap'),
      },
      texts: {
        list: { summary: 'All config maps, without data' },
        change: { description: '`data` replaces the data. An immutable config map cannot be changed.' },
        delete: { description: 'Deletes its volume mounts as well, which no microservice may use.' },
      },
      fromBody: (body) => {
        const { name, ...spec } = configMapFromBody(body);
        return { name, spec };
      },
      patch: (configMap, body) => {
        const spec = patchedContent(configMap.spec, configMapPatch(body, { name: v3Name(configMap) }));
        requireMutable(`ConfigMap ${v3Name(configMap)}`, 'CONFIGMAP_IMMUTABLE', {
          before: configMap.spec,
          after: spec,
        });
        return { spec };
      },
      read: (configMap) => ({
        name: v3Name(configMap),
        immutable: configMap.spec.immutable ?? false,
        useVault: false,
        ...timesOf(configMap),
      }),
      upload: { part: 'configMap', update: 'PATCH', body: (document) => bodyOfDocument(document, 'ConfigMap') },
    },
  },
);

/** The core kinds by key: their stores are those of the core resources. */
export const CORE_KINDS = { secrets: secretKind, configMaps: configMapKind } as const;
