import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { ROOT } from '../paths.ts';

/**
 * The longest files, the longest first. Projects of several workers begin with them, so that none of them runs alone at the
 * end. A file that mostly waits stands beside one that mostly computes.
 */
const LONG: readonly string[] = [
  'e2e/installation.test.ts',
  'e2e/history/history.test.ts',
  'e2e/silence.test.ts',
  'e2e/bus.test.ts',
  'e2e/upgrade.test.ts',
  'e2e/cluster.test.ts',
  'e2e/hostile/controller.test.ts',
  'e2e/bus-hub.test.ts',
  'e2e/services.test.ts',
  'e2e/restore.test.ts',
  'e2e/link.test.ts',
  'e2e/first-minutes.test.ts',
  'e2e/identity-kubectl.test.ts',
  'e2e/certificates.test.ts',
  'e2e/replicas.test.ts',
  'e2e/hostile/agent.test.ts',
  'e2e/main-job.test.ts',
  'e2e/controller-faults.test.ts',
  'e2e/troubleshooting.test.ts',
  'e2e/controller-faults-api.test.ts',
  'e2e/identity-provider-down.test.ts',
  'src/rest/generated-requests.api.test.ts',
  'src/kube/lease.api.test.ts',
  'hack/chart.api.test.ts',
  'src/kube/reflector.api.test.ts',
  'src/rest/fuzz.api.test.ts',
  'src/kube/restart.api.test.ts',
  'src/kube/memory.api.test.ts',
  'agent/src/control-plane.engine.test.ts',
  'src/edit-cost.test.ts',
  'agent/src/app.test.ts',
  'src/subjects/bus-accounts/reconcile/killed.test.ts',
  'src/sessions/relay.test.ts',
];

/** The order of the test files: the long ones, then as vitest orders them (by their last duration, else by size). */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const index = LONG.indexOf(relative(ROOT, moduleId));
      return index < 0 ? LONG.length : index;
    };
    return (await super.sort(files)).sort((a, b) => place(a) - place(b));
  }
}
