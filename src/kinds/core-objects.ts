import { z } from 'zod';
import { BOUNDS } from '../api/bounds.ts';
import { IDENTITIES, type ResourceDefinition } from '../api/meta.ts';
import { ANNOTATIONS } from '../api/names.ts';
import { CORE_RESOURCES, type ResourceOf } from '../api/resources.ts';
import { text } from '../api/schema.ts';
import {
  bodyOfDocument,
  configMapFromBody,
  configMapPatch,
  SECRET_TYPES,
  secretFromBody,
  secretPatch,
} from '../domain/core-objects/body.ts';
import type { ConfigMapForm, SecretForm } from '../domain/core-objects/form.ts';
import { DomainError } from '../domain/errors.ts';
import { v3Name } from '../domain/names.ts';
import type { Kind, KindObject } from './definition.ts';
import { type KindCrud, type KindRest, replyShape } from './rest.ts';

/**
 * Secrets and ConfigMaps of the v3 API. They are core objects with the label skerry.dev/shareable, so they have no CRD, no
 * status and no store of their own; in the form of domain/core-objects/form.ts the plain REST operations and references serve
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
const content = { data: data.optional(), binaryData: data.optional() };

/** Times of a core object: the API server does not say when an object was changed, so REST notes it. */
const timesOf = ({ metadata: { creationTimestamp, annotations } }: KindObject): Json => ({
  created_at: creationTimestamp,
  updated_at: annotations?.[ANNOTATIONS.updatedAt] ?? creationTimestamp,
});

/** What a read shows in addition to a list. */
export const contentOf = ({ spec }: SecretForm | ConfigMapForm): Json => ({
  data: spec.data,
  ...(spec.binaryData && { binaryData: spec.binaryData }),
});

const REPLIES = {
  create: { status: 201, body: 'object' },
  change: { status: 200, body: 'object' },
  delete: { status: 200 },
} as const;

/** The part of a spec that a PATCH replaces; bytes that are no text stay unless their key gets a text. */
const withData = <S extends { data: object; binaryData?: Readonly<Record<string, string>> }>(
  spec: S,
  given: Readonly<Record<string, string>>,
): S => {
  const { binaryData = {}, ...rest } = spec;
  const left = Object.entries(binaryData).filter(([key]) => !Object.hasOwn(given, key));
  return { ...rest, data: given, ...(left.length > 0 && { binaryData: Object.fromEntries(left) }) } as S;
};

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
        create: z.strictObject({ name: z.string(), type: z.enum(SECRET_TYPES), data }).meta({ id: 'NewSecret' }),
        change: z.strictObject({ data }).meta({ id: 'SecretChanges' }),
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
        const given = secretPatch(body, { name: v3Name(secret), type: secret.spec.type });
        requireMutable(secret, secret.core?.immutable, 'SECRET_IMMUTABLE');
        return { spec: withData(secret.spec, given) };
      },
      read: (secret) => ({ name: v3Name(secret), type: secret.spec.type, ...timesOf(secret) }),
      upload: { part: 'secret', update: 'PATCH', body: (document) => bodyOfDocument(document, 'Secret') },
    },
  },
);

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
            data,
            immutable: z.boolean().optional(),
            useVault: z.boolean().optional().describe('Accepted without effect.'),
          })
          .meta({ id: 'NewConfigMap' }),
        change: z
          .strictObject({ data: data.optional(), immutable: z.boolean().optional() })
          .meta({ id: 'ConfigMapChanges' }),
        read: replyShape({ ...head, immutable: z.boolean(), useVault: z.boolean(), ...content }, 'ConfigMap'),
      },
      texts: {
        list: { summary: 'All config maps, without data' },
        change: { description: '`data` replaces the data. An immutable config map cannot be changed.' },
        delete: { description: 'Deletes its volume mounts as well, which no microservice may use.' },
      },
      fromBody: (body) => {
        const { name, data, immutable } = configMapFromBody(body);
        return { name, spec: { data, ...(immutable && { immutable }) } };
      },
      patch: (configMap, body) => {
        const { data: given, immutable } = configMapPatch(body, { name: v3Name(configMap) });
        requireMutable(configMap, configMap.spec.immutable, 'CONFIGMAP_IMMUTABLE');
        const spec = given ? withData(configMap.spec, given) : configMap.spec;
        return { spec: immutable === undefined ? spec : { ...spec, immutable } };
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

function requireMutable(object: KindObject, immutable: boolean | undefined, code: string): void {
  if (!immutable) return;
  throw new DomainError(400, code, `${object.kind} ${v3Name(object)} is immutable: delete it and create it again`);
}

/** The core kinds by key: their stores are those of the core resources. */
export const CORE_KINDS = { secrets: secretKind, configMaps: configMapKind } as const;
