import type { ControllerDependencies } from '../controllers/dependencies.ts';
import { createKindController } from '../controllers/kind.ts';
import type { Controller } from '../kube/mod.ts';
import { SUBJECTS, silenceOfTerm } from './subjects.ts';

/** Runs every reconciler until the signal aborts, and resolves when the last one has ended. */
export async function runControllers(deps: ControllerDependencies, signal: AbortSignal): Promise<void> {
  await using running = new AsyncDisposableStack();
  const silence = silenceOfTerm(deps);
  running.use(silence.mass);
  let known = deps;
  const made = SUBJECTS.map(({ reconcilers }) => {
    const own = reconcilers?.(known, silence) ?? {};
    known = { ...known, ...own.gives };
    return own;
  });
  const ofKinds: Readonly<Record<string, Controller>> = Object.assign({}, ...made.map(({ ofKinds: own = {} }) => own));
  const plain = Object.values(deps.kinds).filter(({ key }) => !Object.hasOwn(ofKinds, key));
  const controllers = [
    ...Object.values(ofKinds),
    ...made.flatMap(({ further = [] }) => further),
    ...plain.map((kind) => createKindController(deps, kind)),
  ];
  for (const controller of controllers) running.use(controller);
  await Promise.all(controllers.map((controller) => controller.run(signal)));
}
