import type { ApplicationTemplate, MicroserviceTemplate } from '../api/v3/index.ts';
import { findExpression } from '../domain/expressions.ts';
import { DomainError, stalledBy } from '../domain/index.ts';
import type { Fields } from '../domain/microservice/body-values.ts';
import type { Kind } from '../kinds/index.ts';
import type { Controller } from '../kube/mod.ts';
import type { ControllerDependencies } from './dependencies.ts';
import { createKindController } from './kind.ts';

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

  async function problemOf({ metadata, spec }: T, signal: AbortSignal): Promise<string | undefined> {
    const document = bodyOf(spec);
    if (!findExpression(document)) return undefined;
    try {
      const caller = `template ${metadata.uid}`;
      await deps.templates.render({ document, parsesOnly: true }, { lookUp: noLookUp, caller, signal });
      return undefined;
    } catch (error) {
      if (error instanceof DomainError && error.status === 400) return error.message;
      throw error;
    }
  }

  return createKindController(deps, kind, {
    async prepare(template, signal) {
      const { uid = '', generation = 0 } = template.metadata;
      if (looked.get(uid)?.generation === generation) return;
      const problem = await problemOf(template, signal);
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

/** The fields of a template, under the name that they have in its spec. */
function bodyOf(spec: Template['spec']): Fields {
  const body: Fields = 'application' in spec ? { application: spec.application } : { microservice: spec.microservice };
  return structuredClone(body);
}

const noLookUp = async () => {
  throw new Error('nothing is looked up while expressions are only read');
};
