import type { ControllerDependencies } from '../controllers/dependencies.ts';
import type { Controller } from '../kube/mod.ts';
import type { TaggedRoute } from '../rest/contract/route.ts';
import { access } from '../subjects/access/subject.ts';
import { accounts } from '../subjects/accounts/subject.ts';
import { busAccounts } from '../subjects/bus-accounts/subject.ts';
import { busRules } from '../subjects/bus-rules/subject.ts';
import { busServers } from '../subjects/bus-servers/subject.ts';
import { catalog } from '../subjects/catalog/subject.ts';
import { content } from '../subjects/content/subject.ts';
import { identity } from '../subjects/identity/subject.ts';
import type { KindKey } from '../subjects/kinds.ts';
import { nodes, type Silence } from '../subjects/nodes/subject.ts';
import { pki } from '../subjects/pki/subject.ts';
import { platform } from '../subjects/platform/subject.ts';
import { routers } from '../subjects/routers/subject.ts';
import { services } from '../subjects/services/subject.ts';
import { workloads } from '../subjects/workloads/subject.ts';

/** What a subject brings besides its kinds, which are in the list of `src/subjects/kinds.ts`. */
interface Subject {
  /** routes of kinds that need more than the plain ones */
  routes?: Partial<Record<KindKey, readonly TaggedRoute[]>>;
  furtherRoutes?: readonly TaggedRoute[];
  reconcilers?(deps: ControllerDependencies, silence: Silence): Reconcilers;
}

interface Reconcilers {
  /** reconcilers of kinds in place of the plain one */
  ofKinds?: Partial<Record<KindKey, Controller>>;
  further?: readonly Controller[];
  /** what the reconcilers of later subjects know of these */
  gives?: Partial<ControllerDependencies>;
}

const machines = nodes(content.membersOfNodes);

/** Makes what the reconcilers of one term judge silence by. */
export const silenceOfTerm = machines.silence;

/** Every subject, in the order of hack/deps.json: each knows those before it. */
export const SUBJECTS: readonly Subject[] = [
  machines,
  accounts,
  catalog,
  access,
  identity,
  content,
  pki,
  workloads,
  routers,
  services,
  busRules,
  busAccounts,
  busServers,
  platform,
];
