import { randomUUID } from 'node:crypto';
import { type ApplicationTemplate, applicationTemplateResource } from '../../../api/v3/index.ts';
import type { Write } from '../../../kinds/rest.ts';
import { isAlreadyExists } from '../../../kube/api-error.ts';
import { forbidden } from '../../../rest/contract/errors.ts';
import type { TaggedRoute } from '../../../rest/contract/route.ts';
import { type CrudHooks, crudRoutes } from '../../../rest/crud/crud.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { withChanges } from '../../../rest/objects/edit.ts';
import { duplicateName } from '../../../rules/errors.ts';
import { v3Name } from '../../../rules/names.ts';
import { KINDS } from '../../kinds.ts';
import { applicationTemplateCrud } from '../kinds/application-template.ts';
import { templateWarning } from './template-warning.ts';

const hooks: CrudHooks<ApplicationTemplate, Write<ApplicationTemplate>> = {
  /** A template that was renamed keeps its object name, which a new one with its former name cannot have. */
  async create({ applicationTemplates }, object, { name = object.metadata.name }, signal) {
    try {
      return await applicationTemplates.create(object, signal);
    } catch (error) {
      const holder = isAlreadyExists(error) && (await applicationTemplates.read(object.metadata.name, signal));
      if (!holder || v3Name(holder) === name) throw error;
      const metadata = {
        ...object.metadata,
        name: `${object.metadata.name.slice(0, 240)}-${randomUUID().slice(0, 8)}`,
      };
      return applicationTemplates.create({ ...object, metadata, spec: { ...object.spec, name } }, signal);
    }
  },
  /** A template may be renamed, to a name that is free; whoever uses that name gets it, so that it takes the permission to create. */
  async change({ applicationTemplates }, before, { spec }, _signal, caller) {
    const after = withChanges(before, { spec });
    const name = v3Name(after);
    if (name === v3Name(before)) return after;
    if (!(await caller.may({ resource: applicationTemplateResource.plural, verb: 'create' })))
      throw forbidden(`name: a template takes the name "${name}" only for those who may create templates`);
    const others = applicationTemplates
      .find('name', name)
      .filter((one) => isPresent(one) && one.metadata.uid !== before.metadata.uid);
    if (others.length > 0) throw duplicateName('application template', name);
    return after;
  },
  warning: templateWarning,
};

export const applicationTemplateRoutes: readonly TaggedRoute[] = crudRoutes(
  KINDS.applicationTemplates,
  applicationTemplateCrud,
  hooks,
);
