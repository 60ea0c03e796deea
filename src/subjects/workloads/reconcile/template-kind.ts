import type { ApplicationTemplate, MicroserviceTemplate } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import type { Kind } from '../../../kinds/definition.ts';
import type { Controller } from '../../../kube/mod.ts';
import { stalledBy } from '../../../rules/kind-status.ts';
import { templateProblem } from '../rules/templates/problem.ts';

type Template = ApplicationTemplate | MicroserviceTemplate;

/** Templates whose verdict is remembered; one beyond them is read again at its next run. */
const REMEMBERED = 4_096;

/** Application and microservice templates: besides what every kind has, whether their expressions can be read. */
export function createTemplateKindController<T extends Template>(
  deps: ControllerDependencies,
  kind: Kind<T>,
): Controller {
  /** why the expressions of a template cannot be read, by uid, oldest first */
  const looked = new Map<string, { generation: number; problem?: string }>();

  return createKindController(deps, kind, {
    async prepare(template, signal) {
      const { uid = '', generation = 0 } = template.metadata;
      if (looked.get(uid)?.generation === generation) return;
      const problem = await templateProblem(deps.templates, template.spec, { caller: `template ${uid}`, signal });
      looked.delete(uid);
      const [oldest] = looked.size >= REMEMBERED ? looked.keys() : [];
      if (oldest !== undefined) looked.delete(oldest);
      looked.set(uid, { generation, ...(problem !== undefined && { problem }) });
    },
    obstacle(template) {
      const problem = looked.get(template.metadata.uid ?? '')?.problem;
      return problem === undefined ? undefined : stalledBy({ reason: 'TemplateInvalid', message: problem });
    },
  });
}
