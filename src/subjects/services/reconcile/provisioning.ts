import type { Service } from '../../../api/v3/service.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { ApiError, keyOf } from '../../../kube/mod.ts';
import type { Progress } from '../../../rules/conditions.ts';
import type { ServiceSettings } from '../../../rules/service-settings.ts';
import { ingressOf } from '../rules/cluster-service.ts';
import {
  ADDRESS_POLL_MS,
  ADDRESS_POLLS,
  ATTEMPTS,
  isCurrent,
  pauseAfter,
  requestedReconciles,
} from '../rules/provisioning.ts';
import { hasClusterService } from '../rules/verdict.ts';
import { createClusterServices } from './cluster-services.ts';

/** How far one service is. */
interface Step {
  /** generation of the spec and request of another attempt that it is about */
  of: string;
  failures: number;
  /** looks at a load balancer without an address */
  polls: number;
  problem?: Progress;
  address?: string;
  /** Unix ms of the next attempt or look */
  nextAt?: number;
}

const stepKey = (service: Service) =>
  `${service.metadata.uid} ${service.metadata.generation} ${requestedReconciles(service)}`;

/** Makes the Services of the cluster, with pauses between attempts that fail, and counts these. */
export function createServiceSteps(deps: ControllerDependencies, settings: ServiceSettings) {
  const { clock, client, namespace, log } = deps;
  const cluster = createClusterServices({ client, namespace, log }, settings);
  const hasCluster = settings.isEnabled && settings.controlPlane === 'kubernetes';
  const steps = new Map<string, Step>();

  function stepOf(service: Service): Step {
    const of = stepKey(service);
    const known = steps.get(keyOf(service));
    if (known?.of === of) return known;
    // Another leader may have counted already.
    const failures = isCurrent(service) ? (service.status?.attempts ?? 0) : 0;
    const address = known?.address ?? service.status?.serviceEndpoint;
    const begun: Step = { of, failures, polls: 0, ...(address !== undefined && { address }) };
    steps.set(keyOf(service), begun);
    return begun;
  }

  function fail(step: Step, problem: Omit<Progress, 'is'>): void {
    step.failures = Math.min(ATTEMPTS, step.failures + 1);
    step.polls = 0;
    step.nextAt = clock() + pauseAfter(step.failures, Math.random());
    const needsChange = problem.reason === 'NameTaken' || step.failures >= ATTEMPTS;
    step.problem = { is: needsChange ? 'stalled' : 'working', ...problem };
  }

  function succeed(step: Step, address: string | undefined): void {
    step.failures = 0;
    step.polls = 0;
    delete step.problem;
    delete step.nextAt;
    delete step.address;
    if (address !== undefined) step.address = address;
  }

  /** Looks whether the load balancer has an address; without one this look counts, and ten are an attempt. */
  function lookAgain(step: Step): void {
    delete step.address;
    step.polls++;
    const message = 'the cluster has given its load balancer no address yet';
    if (step.polls >= ADDRESS_POLLS) {
      fail(step, { reason: 'AddressPending', message });
      return;
    }
    step.nextAt = clock() + ADDRESS_POLL_MS;
    // The problem of a former attempt stays until an attempt succeeds.
    step.problem ??= { is: 'working', reason: 'AddressPending', message };
  }

  return {
    /** Makes the Service of the cluster, unless an attempt failed a short time ago. */
    async attempt(service: Service, port: number, signal: AbortSignal): Promise<void> {
      const step = stepOf(service);
      if (step.nextAt !== undefined && clock() < step.nextAt) return;
      if (!hasClusterService(service, settings.controlPlane)) {
        if (hasCluster) await cluster.remove(service, signal);
        return succeed(step, undefined);
      }
      const { name } = service.metadata;
      try {
        const made = await cluster.keep(service, port, signal);
        if (!made)
          return fail(step, {
            reason: 'NameTaken',
            message: `the Service ${name} of the cluster belongs to something else: delete it, or name this one otherwise`,
          });
        if (service.spec.clusterType !== 'LoadBalancer') return succeed(step, undefined);
        const address = ingressOf(made);
        return address === undefined ? lookAgain(step) : succeed(step, address);
      } catch (error) {
        // What another writer or the load of the API server causes is tried again by the controller.
        if (
          signal.aborted ||
          !(error instanceof ApiError) ||
          error.status === 409 ||
          error.status === 429 ||
          error.status >= 500
        )
          throw error;
        fail(step, {
          reason: 'ProvisioningFailed',
          message: `the API server refuses the Service ${name} of the cluster: ${error.message}`.slice(0, 1024),
        });
      }
    },

    obstacle: (service: Service): Progress | undefined => stepOf(service).problem,
    failures: (service: Service): number => stepOf(service).failures,
    address: (service: Service): string | undefined => stepOf(service).address,
    nextAt: (service: Service): number | undefined => stepOf(service).nextAt,
    forget: (key: string): void => void steps.delete(key),
    watch: hasCluster ? cluster.watch : { whenSynced: async () => {}, start: () => ({ [Symbol.dispose]: () => {} }) },
  };
}
