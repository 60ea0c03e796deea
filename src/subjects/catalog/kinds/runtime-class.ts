import { labelName } from '../../../api/meta.ts';
import { type RuntimeClass, runtimeClassResource, runtimeClassSpecSchema } from '../../../api/v3/runtime-class.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { plainShapes } from '../../../kinds/rest.ts';
import { runtimeClassRefusal } from '../rules/runtime-class.ts';

export const runtimeClassKind = defineKind<RuntimeClass>()({
  key: 'runtimeClasses',
  definition: runtimeClassResource,
  lookedUp: true,
  noun: 'runtime class',
  access: 'workloads',
  inUse: { status: 409, code: 'RUNTIME_CLASS_IN_USE' },
  links: {
    reply: 'nodes',
    inUse: 'RUNTIME_CLASS_UNLINK_IN_USE',
    refusal: { of: runtimeClassRefusal, reason: 'RuntimeNotAvailable', nodes: 'nodes without its runtime' },
  },
  rest: {
    tag: 'Runtime classes',
    key: 'name',
    notFound: 'RUNTIME_CLASS_NOT_FOUND',
    crud: {
      path: '/runtimeClasses',
      list: 'runtimeClasses',
      replies: {
        create: { status: 200, body: 'object' },
        change: { status: 200, body: 'object' },
        delete: { status: 202 },
      },
      shapes: plainShapes(runtimeClassResource, runtimeClassSpecSchema),
      ...plainTranslation<RuntimeClass>(runtimeClassSpecSchema, { closed: true, name: labelName() }),
      upload: { part: 'runtimeClass', update: 'PUT', checksApiVersion: true, topLevel: ['handler'] },
    },
  },
  indexes: {},
});
