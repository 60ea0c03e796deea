import type { Call } from '../../../rest/contract/route.ts';
import { type TemplateSpec, templateProblem } from '../rules/templates/problem.ts';

/** The warning about a template that is stored and cannot be rendered, with the place in the request; kubectl shows it in Ready. */
export async function templateWarning(
  { deps, caller, signal, document }: Pick<Call, 'deps' | 'caller' | 'signal' | 'document'>,
  spec: TemplateSpec,
): Promise<string | undefined> {
  const problem = await templateProblem(deps.templates, spec, { caller: caller.identity?.name ?? '', signal });
  return problem && `the template cannot be rendered: ${document === undefined ? '' : 'spec.'}${problem}`;
}
