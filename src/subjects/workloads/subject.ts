import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import type { Controller } from '../../kube/mod.ts';
import { crudRoutes } from '../../rest/crud/crud.ts';
import { KINDS } from '../kinds.ts';
import { createSilencePacer } from '../nodes/reconcile/silence-pacer.ts';
import type { Silence } from '../nodes/subject.ts';
import { microserviceTemplateCrud } from './kinds/microservice-template.ts';
import { createApplicationController } from './reconcile/application.ts';
import { createDebugShellController } from './reconcile/debug-shell.ts';
import { createTemplateKindController } from './reconcile/template-kind.ts';
import { createTemplateController } from './reconcile/templates.ts';
import { applicationTemplateRoutes } from './routes/application-templates.ts';
import { applicationRoutes } from './routes/applications.ts';
import { debugShellRoutes } from './routes/debug-shell.ts';
import { microservicePartRoutes } from './routes/microservice-parts.ts';
import { microserviceRoutes } from './routes/microservices.ts';
import { templateWarning } from './routes/template-warning.ts';

/** What runs: Application with its microservices, templates, uploads, the debug shell. */
export const workloads = {
  routes: {
    applications: [...applicationRoutes, ...microserviceRoutes, ...microservicePartRoutes],
    applicationTemplates: applicationTemplateRoutes,
    microserviceTemplates: crudRoutes(KINDS.microserviceTemplates, microserviceTemplateCrud, {
      warning: templateWarning,
    }),
  },
  furtherRoutes: debugShellRoutes,
  reconcilers(deps: ControllerDependencies, { mass }: Silence) {
    const templates = createTemplateController(deps, (key) => applications.enqueue(key));
    const pacer = createSilencePacer(deps.clock);
    const applications: Controller = createApplicationController(deps, mass, pacer, templates.verdicts);
    return {
      ofKinds: {
        applicationTemplates: createTemplateKindController(deps, KINDS.applicationTemplates),
        microserviceTemplates: createTemplateKindController(deps, KINDS.microserviceTemplates),
        applications,
      },
      further: [templates.controller, createDebugShellController(deps)],
    };
  },
};
