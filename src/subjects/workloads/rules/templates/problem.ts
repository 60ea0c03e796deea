import type { ApplicationTemplate, MicroserviceTemplate } from '../../../../api/v3/index.ts';
import type { Fields } from '../../../../rules/body-values.ts';
import { DomainError } from '../../../../rules/errors.ts';
import { findExpression } from '../../../../rules/expressions.ts';
import type { Renderer, RenderOptions } from '../../../../rules/renderer.ts';

export type TemplateSpec = ApplicationTemplate['spec'] | MicroserviceTemplate['spec'];

/**
 * Why the expressions of a template cannot be read, with the field in its spec; undefined when all can. Nothing is evaluated:
 * which variables there are is known only where the template is used. Throws what is no fault of the template, such as a
 * renderer without room.
 */
export async function templateProblem(
  renderer: Renderer,
  spec: TemplateSpec,
  options: Omit<RenderOptions, 'lookUp'>,
): Promise<string | undefined> {
  const document = bodyOf(spec);
  if (!findExpression(document)) return undefined;
  try {
    await renderer.render({ document, parsesOnly: true }, { ...options, lookUp: noLookUp });
    return undefined;
  } catch (error) {
    if (error instanceof DomainError && error.status === 400) return error.message;
    throw error;
  }
}

/** The fields of a template, under the name that they have in its spec. */
function bodyOf(spec: TemplateSpec): Fields {
  const body: Fields = 'application' in spec ? { application: spec.application } : { microservice: spec.microservice };
  return structuredClone(body);
}

const noLookUp = async () => {
  throw new Error('nothing is looked up while expressions are only read');
};
