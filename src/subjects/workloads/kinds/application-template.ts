import { z } from 'zod';
import { dottedName } from '../../../api/meta.ts';
import {
  type ApplicationTemplate,
  applicationTemplateResource,
  applicationTemplateSpecSchema,
} from '../../../api/v3/application-template.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { type KindCrud, plainShapes } from '../../../kinds/rest.ts';
import { isObject } from '../../../rules/document.ts';
import { invalid } from '../../../rules/errors.ts';
import { v3Name } from '../../../rules/names.ts';
import { validateSpec } from '../../../rules/validate.ts';

const plain = plainTranslation<ApplicationTemplate>(applicationTemplateSpecSchema);
const shapes = plainShapes(applicationTemplateResource, applicationTemplateSpecSchema);
const changes = z
  .object({ name: dottedName(), description: applicationTemplateSpecSchema.shape.description })
  .partial();

/** The collection and its items have different paths. Bodies are templates: only the variables are rendered. */
export const applicationTemplateCrud: KindCrud<ApplicationTemplate> = {
  path: '/applicationTemplate',
  listPath: '/applicationTemplates',
  list: 'applicationTemplates',
  replies: {
    create: { status: 201, body: 'idAndName' },
    change: { status: 204 },
    replace: { status: 200, body: 'idAndName' },
    delete: { status: 204 },
  },
  shapes: { ...shapes, change: changes.meta({ id: 'ApplicationTemplateChanges' }) },
  texts: { change: { summary: 'Rename an application template, or change its description' } },
  templated: { only: 'variables' },
  fromBody: plain.fromBody,
  patch(object, body) {
    if (!isObject(body)) throw invalid('body: must be an object');
    const { name, id, description } = body;
    const named =
      name === undefined || name === null ? v3Name(object) : validateSpec(dottedName(), name, { path: 'name' });
    const patched = plain.patch(object, { id, ...(description !== undefined && { description }) });
    return { spec: { ...patched.spec, ...(named !== v3Name(object) && { name: named }) } };
  },
  read(object, find) {
    return { description: '', variables: [], ...plain.read(object, find) };
  },
  upload: { part: 'template', update: 'PUT' },
  hasPut: true,
};

export const applicationTemplateKind = defineKind<ApplicationTemplate>()({
  key: 'applicationTemplates',
  recordsName: true,
  definition: applicationTemplateResource,
  noun: 'application template',
  access: 'workloads',
  withholdsTexts: true,
  rest: {
    tag: 'Application templates',
    key: 'name',
    notFound: 'INVALID_APPLICATION_TEMPLATE_NAME',
    crud: applicationTemplateCrud,
  },
  indexes: {},
});
