import { z } from 'zod';
import { type Registry, registryResource, registrySpecSchema } from '../../../api/v3/registry.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { type KindCrud, replyShape } from '../../../kinds/rest.ts';
import {
  BUILT_INS,
  builtInError,
  caVerdict,
  isBuiltIn,
  patchRegistry,
  type RegistryWrite,
  registryFromBody,
  registryRead,
} from '../rules/registry.ts';

const fields = z.object(registrySpecSchema.shape).omit({ id: true, passwordSecretRef: true });
const text = z.string().optional();
const flag = z.boolean().optional();
const change = fields.partial().extend({
  password: text,
  userEmail: text.describe('Other spelling of email'),
  userName: text.describe('Other spelling of username'),
});
const listed = {
  id: z.number().int().optional(),
  name: text,
  url: z.string(),
  username: text,
  userEmail: text,
  ca: text,
  isPublic: flag,
  insecure: flag,
  type: z.enum(['oci', 'hub']),
};

/** Passwords are not in the spec: the routes store and read them by hooks. */
export const registryCrud: KindCrud<Registry, RegistryWrite> = {
  path: '/registries',
  list: 'registries',
  replies: { create: { status: 201, body: 'key' }, change: { status: 204 }, delete: { status: 204 } },
  shapes: {
    create: change.required({ url: true }),
    change,
    read: replyShape({ ...listed, password: text }, 'Registry'),
    listed: z.looseObject({ ...listed, password: z.undefined().optional() }),
  },
  texts: {
    list: { summary: 'All registries, without passwords' },
    get: {
      description: 'The password is shown to callers who may get `registries/credentials`, and masked for others.',
    },
    change: {
      description:
        'User name and password do not follow a registry to another host, to plain HTTP, away from verified TLS or to another CA: they are removed, unless they come in the same request, and a `Warning` header says so.',
    },
  },
  fromBody: registryFromBody,
  patch: patchRegistry,
  read: (registry) => registryRead(registry),
  undeletable: (registry) => (isBuiltIn(registry) ? builtInError(registry) : undefined),
};

export const registryKind = defineKind<Registry>()({
  key: 'registries',
  definition: registryResource,
  lookedUp: true,
  noun: 'registry',
  builtIns: BUILT_INS,
  inUse: { status: 400, code: 'REGISTRY_IS_IN_USE' },
  access: 'workloads',
  verdict: caVerdict,
  rest: { tag: 'Registries', key: 'id', notFound: 'REGISTRY_NOT_FOUND', crud: registryCrud },
  indexes: {
    /** name of the Secret with its password */
    secret: ({ spec: { passwordSecretRef } }) => (passwordSecretRef ? [passwordSecretRef.name] : []),
  },
});
