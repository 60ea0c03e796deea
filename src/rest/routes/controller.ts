import { ARCHITECTURES } from '../../api/names.ts';
import { HttpError, RETRY_AFTER } from '../../http/http-error.ts';
import type { RestDependencies } from '../contract/dependencies.ts';
import { grouped, route } from '../contract/route.ts';
import { architecturesShape, livenessShape } from '../crud/shapes.ts';

const startedAt = performance.now();

const liveness = (deps: RestDependencies) => ({
  status: 'online',
  timestamp: deps.clock(),
  uptimeSec: Math.floor((performance.now() - startedAt) / 1000),
  versions: { controller: deps.self.version, console: '' },
});

/** Why people cannot log in at another provider. Nothing else depends on it: agents connect only where this route answers 200. */
function providerProblem({ identity }: RestDependencies): { message?: string } {
  const problem = identity?.off === undefined && identity?.mode === 'external' ? identity.external.problem : undefined;
  return problem === undefined ? {} : { message: `the OpenID provider cannot be asked: ${problem}` };
}

const DESCRIPTIONS = ['Found out by the agent', 'x86, 64 bits', 'ARM, 64 bits', 'RISC-V, 64 bits', 'ARM, 32 bits'];

export const controllerRoutes = grouped('Controller', [
  route({
    method: 'GET',
    path: '/live',
    operation: 'getLiveness',
    summary: 'Whether the process answers',
    access: 'public',
    reply: { status: 200, schema: livenessShape },
    handler: ({ deps }) => liveness(deps),
  }),
  route({
    method: 'GET',
    path: '/status',
    operation: 'getReadiness',
    summary: 'Whether the controller can carry out requests',
    access: 'public',
    reply: { status: 200, schema: livenessShape },
    errors: [503],
    async handler({ deps, signal }) {
      const missing = await deps.readiness.check(signal);
      if (!missing) return { ...liveness(deps), ...providerProblem(deps) };
      throw new HttpError(503, missing.code, missing.message, {
        name: 'ReadinessNotReadyError',
        headers: { 'retry-after': String(RETRY_AFTER) },
        members: { ...liveness(deps), status: 'not ready', error: 'ServiceUnavailable', retryable: true },
      });
    },
  }),
  route({
    method: 'GET',
    path: '/architectures',
    operation: 'listArchitectures',
    summary: 'The architectures that nodes can have',
    access: 'public',
    reply: { status: 200, schema: architecturesShape },
    handler: () => ({
      architectures: ARCHITECTURES.map((name, id) => ({ id, name, image: '', description: DESCRIPTIONS[id] ?? '' })),
    }),
  }),
]);
