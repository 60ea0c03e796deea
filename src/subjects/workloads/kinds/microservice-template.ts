import { labelName } from '../../../api/meta.ts';
import {
  type MicroserviceTemplate,
  microserviceTemplateResource,
  microserviceTemplateSpecSchema,
} from '../../../api/v3/microservice-template.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { type KindCrud, plainShapes } from '../../../kinds/rest.ts';
import { isObject } from '../../../rules/document.ts';
import { templateBody } from '../rules/templates/overlay.ts';

const plain = plainTranslation<MicroserviceTemplate>(microserviceTemplateSpecSchema, {
  closed: true,
  name: labelName(),
});

/** What belongs to each microservice, such as its name, is not part of a template. */
const stripped = (body: unknown): unknown =>
  isObject(body) && isObject(body.microservice) ? { ...body, microservice: templateBody(body.microservice) } : body;

export const microserviceTemplateCrud: KindCrud<MicroserviceTemplate> = {
  path: '/microserviceTemplates',
  list: 'microserviceTemplates',
  replies: {
    create: { status: 200, body: 'object' },
    change: { status: 200, body: 'object' },
    delete: { status: 202 },
  },
  shapes: plainShapes(microserviceTemplateResource, microserviceTemplateSpecSchema),
  templated: { only: 'variables' },
  closed: true,
  fromBody: (body) => plain.fromBody(stripped(body)),
  patch: (object, body) => plain.patch(object, stripped(body)),
  read: (object, find) => ({ description: '', variables: [], ...plain.read(object, find) }),
  upload: { part: 'template', update: 'PUT', checksApiVersion: true },
};

export const microserviceTemplateKind = defineKind<MicroserviceTemplate>()({
  key: 'microserviceTemplates',
  definition: microserviceTemplateResource,
  noun: 'microservice template',
  access: 'workloads',
  withholdsTexts: true,
  rest: {
    tag: 'Microservice templates',
    key: 'name',
    notFound: 'MICROSERVICE_TEMPLATE_NOT_FOUND',
    crud: microserviceTemplateCrud,
  },
  indexes: {},
});
