import type { Application, EdgeNode, MicroserviceEntry } from '../../../../api/v3/index.ts';
import { nodeUuid } from '../../../../rules/identity.ts';
import type { Lookups } from '../../../../rules/inputs.ts';
import { entryUuid } from '../../../../rules/names.ts';
import { type NormalEntry, normalEntry } from '../../../../rules/normal-entry.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { artifactsOn } from '../../../content/rules/artifact/on-node.ts';
import { mountsOn } from '../../../content/rules/volume-mount/on-node.ts';
import { crowdOn } from '../../../nodes/rules/placement/crowd.ts';
import { nodeOf, shouldRun } from '../../../nodes/rules/placement/entries.ts';
import { mayHave, recordedNode } from '../../../nodes/rules/placement/moves.ts';
import { portClaims } from '../application/ports.ts';
import type { NodeFacts } from '../application/status-inputs.ts';
import { catalogsAreValid, catalogsFit, catalogsResolve } from './catalogs.ts';
import {
  annotationsAreAllowed,
  configIsSmall,
  envIsAllowed,
  templateIsRendered,
  volumesAreValid,
} from './container.ts';
import { applicationUuidIsFree, nameIsFree, uuidIsFree } from './identity.ts';
import { catalogItemIsFound, imageIsGiven, registryIsUsable } from './image.ts';
import { mountsAreApart } from './mounts.ts';
import { formerNodesHaveStopped, isToMove, nodeHasRoom, nodeIsFound, nodeIsSet, nodeStays } from './node.ts';
import { portsAreAllowed, portsAreFree } from './ports.ts';
import {
  busAccessIsGranted,
  busIsReachable,
  busPlacesAreFree,
  envResolves,
  extraHostsResolve,
  roleIsFound,
} from './references.ts';
import type { VerdictInput, VerdictRule } from './rule.ts';
import { runtimeClassIsFound, runtimeIsAvailable } from './runtime.ts';
import { volumeMountsResolve } from './volume-mounts.ts';

/**
 * The rules in the order in which they apply; the first verdict counts. Rules about the node come before rules about
 * the entry itself, since a missing node is the most important reason.
 */
export const VERDICT_RULES: readonly VerdictRule[] = [
  nameIsFree,
  applicationUuidIsFree,
  uuidIsFree,
  nodeIsSet,
  nodeIsFound,
  nodeStays,
  nodeHasRoom,
  catalogItemIsFound,
  templateIsRendered,
  imageIsGiven,
  registryIsUsable,
  annotationsAreAllowed,
  envIsAllowed,
  configIsSmall,
  volumesAreValid,
  catalogsAreValid,
  mountsAreApart,
  runtimeClassIsFound,
  runtimeIsAvailable,
  roleIsFound,
  busAccessIsGranted,
  busPlacesAreFree,
  busIsReachable,
  portsAreAllowed,
  envResolves,
  volumeMountsResolve,
  extraHostsResolve,
  catalogsResolve,
  catalogsFit,
  formerNodesHaveStopped,
  // The last rule depends on whether other entries may run, which all rules before it decide.
  portsAreFree,
];

/** The rules of a node that keeps an entry which is to move: whether the other node may take it is for the leader to say. */
export const KEEPING_RULES: readonly VerdictRule[] = [
  nameIsFree,
  applicationUuidIsFree,
  uuidIsFree,
  nodeIsSet,
  isToMove,
];

/** Whether a node may take an entry does not depend on the nodes that have it now. */
const TAKING = VERDICT_RULES.filter((rule) => rule !== formerNodesHaveStopped);

/** Verdicts on several entries by the same lookups; what the entries share is computed once. */
export function createJudge(
  lookups: Lookups,
  { writing = false, rules = VERDICT_RULES }: { writing?: boolean; rules?: readonly VerdictRule[] } = {},
): (application: Application, entry: MicroserviceEntry, normal?: NormalEntry) => Verdict | undefined {
  const once = <V>(make: (node: EdgeNode, applications: readonly Application[], lookups: Lookups) => V) => {
    const known = new Map<EdgeNode, V>();
    return (node: EdgeNode) => {
      const made = known.get(node) ?? make(node, lookups.applicationsOn(node), lookups);
      known.set(node, made);
      return made;
    };
  };
  const claims = once(portClaims);
  const crowd = once(crowdOn);
  const mounts = once((node) => mountsOn(node, lookups));
  const artifacts = {
    models: once((node) => artifactsOn('models', node, lookups)),
    knowledge: once((node) => artifactsOn('knowledge', node, lookups)),
  };
  const inputOf = (application: Application, stored: MicroserviceEntry, entry: NormalEntry): VerdictInput => {
    const uuid = entryUuid(application, stored);
    return {
      application,
      entry,
      uuid,
      node: nodeOf(stored, lookups),
      lookups,
      writing,
      claims,
      crowd,
      mounts,
      artifacts,
      isRefused,
    };
  };
  const refused = new Map<MicroserviceEntry, boolean>();
  const isRefused: VerdictInput['isRefused'] = ({ application, entry }) => {
    const known =
      refused.get(entry) ?? firstOf(WITHOUT_PORTS, inputOf(application, entry, normalEntry(entry))) !== undefined;
    refused.set(entry, known);
    return known;
  };
  return (application, stored, entry = normalEntry(stored)) => firstOf(rules, inputOf(application, stored, entry));
}

const WITHOUT_PORTS = TAKING.filter((rule) => rule !== portsAreFree);

function firstOf(policies: readonly VerdictRule[], input: VerdictInput): Verdict | undefined {
  for (const policy of policies) {
    const found = policy(input);
    if (found) return found;
  }
  return undefined;
}

/** Why an entry may not run as asked; undefined when it may. */
export function verdict(
  application: Application,
  entry: MicroserviceEntry,
  lookups: Lookups,
  options?: { writing?: boolean },
): Verdict | undefined {
  return createJudge(lookups, options)(application, entry);
}

/**
 * Why entries stay on the nodes that they are to leave, by entry name: the nodes that they name do not exist or may not take them,
 * as far as the controller knows. A node that never had an agent keeps nothing. A port that its holder is giving up is no reason: two
 * entries may exchange their nodes.
 */
export function refusedMoves(
  application: Application,
  nodes: readonly Pick<NodeFacts, 'node' | 'liveness'>[],
  lookups: Lookups,
): ReadonlyMap<string, Verdict> {
  const judge = createJudge(lookups, { rules: TAKING });
  const found = new Map<string, Verdict>();
  for (const entry of application.spec.microservices ?? []) {
    const from = shouldRun(application, entry) ? recordedNode(application, entry) : undefined;
    const to = from === undefined ? undefined : nodeOf(entry, lookups);
    if (from === undefined || (to && nodeUuid(to) === from)) continue;
    const at = nodes.find(({ node }) => nodeUuid(node) === from);
    if (!at || !mayHave(entryUuid(application, entry), at)) continue;
    const refused = judge(application, entry);
    if (refused && !(refused.reason === 'PortTaken' && refused.passes)) found.set(entry.name, refused);
  }
  return found;
}

/** Why a whole application is refused: its name or its uuid belongs to an older one. */
export const applicationVerdict = (application: Application, lookups: Lookups): Verdict | undefined =>
  nameIsFree({ application, lookups }) ?? applicationUuidIsFree({ application, lookups });

/** Negative verdicts of an application, by entry name. */
export function verdicts(
  application: Application,
  lookups: Lookups,
  options?: { writing?: boolean },
): ReadonlyMap<string, Verdict> {
  const judge = createJudge(lookups, options);
  const found = new Map<string, Verdict>();
  for (const entry of application.spec.microservices ?? []) {
    const negative = judge(application, entry);
    if (negative) found.set(entry.name, negative);
  }
  return found;
}
