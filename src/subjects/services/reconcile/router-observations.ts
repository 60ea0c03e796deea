import type { EdgeNode } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { Observation } from '../../../rules/inputs.ts';
import { hasFilesOf } from '../../../rules/part.ts';
import type { EndState } from '../rules/links.ts';

type Report = NonNullable<Observation['report']['router']>;
type Issues = ReadonlyMap<string, EndState>;

/** What a report may change of the ends of services at a router. */
export interface ObservedLinks {
  /** names of the ends that are in another state now */
  ends: ReadonlySet<string>;
  /** all ends of the node may be in another state */
  isAll: boolean;
}

/**
 * What the routers of nodes have of the ends of services. What routers report stays in the observations; kept here are the ends that a router was
 * asked for and has not been seen to have since: a router at rest takes no memory.
 */
export class RouterObservations {
  readonly #deps: Pick<ControllerDependencies, 'observations' | 'desired'>;
  /** uuids of nodes by the name of an end that they may lack, and the reverse */
  readonly #nodesOf = new Map<string, Set<string>>();
  readonly #endsOf = new Map<string, Set<string>>();
  /** nodes whose routers have never been seen to have their whole configuration in this term */
  readonly #unsure = new Set<string>();
  readonly #issues = new WeakMap<Report, Issues>();

  constructor(deps: Pick<ControllerDependencies, 'observations' | 'desired'>) {
    this.#deps = deps;
  }

  /** Nodes were asked for an end that they did not have before. */
  ask(end: string, nodes: Iterable<string>): void {
    for (const node of nodes) {
      setOf(this.#nodesOf, end).add(node);
      setOf(this.#endsOf, node).add(end);
    }
  }

  /** Of the nodes that may lack an end, those alone are still asked for it. */
  askOnly(end: string, isAsked: (node: string) => boolean): void {
    for (const node of [...this.lacking(end)].filter((one) => !isAsked(one))) {
      drop(this.#nodesOf, end, node);
      drop(this.#endsOf, node, end);
    }
  }

  /** An end exists no more. */
  forgetEnd(end: string): void {
    for (const node of this.#nodesOf.get(end) ?? []) drop(this.#endsOf, node, end);
    this.#nodesOf.delete(end);
  }

  forgetNode(node: string): void {
    for (const end of this.#endsOf.get(node) ?? []) drop(this.#nodesOf, end, node);
    this.#endsOf.delete(node);
    this.#unsure.delete(node);
  }

  /** The nodes that may lack an end. */
  lacking(end: string): ReadonlySet<string> {
    return this.#nodesOf.get(end) ?? NONE;
  }

  /** Takes a report. Names of ends that the node was never asked for may be among its answer. */
  observe(node: EdgeNode, now: Report | undefined, before: Report | undefined): ObservedLinks {
    const uuid = nodeUuid(node);
    if (now && !before) this.#unsure.add(uuid);
    const wasUnsure = this.#unsure.has(uuid);
    const confirmed = this.confirm(node);
    const isAll = (now?.isReached ?? false) !== (before?.isReached ?? false) || (wasUnsure && !this.#unsure.has(uuid));
    const [is, was] = [this.#issuesOf(now), this.#issuesOf(before)];
    const differ = [...is.keys(), ...was.keys()].filter(
      (name) => JSON.stringify(is.get(name)) !== JSON.stringify(was.get(name)),
    );
    return { isAll, ends: new Set([...confirmed, ...differ]) };
  }

  /** Looks whether a router has all that its node is sent at present. Resolves with the ends that it was not known to have before. */
  confirm(node: EdgeNode): readonly string[] {
    const uuid = nodeUuid(node);
    const lacked = this.#endsOf.get(uuid);
    if (!lacked && !this.#unsure.has(uuid)) return [];
    const { router, systemFiles } = this.#deps.observations.get(uuid)?.report ?? {};
    const { digests, parts = [] } = this.#deps.desired(node) ?? {};
    const part = parts.find(({ condition }) => condition === 'RouterReady') ?? {};
    if (!router?.isCurrent || !hasFilesOf(part, digests?.systemFiles, systemFiles)) return [];
    this.forgetNode(uuid);
    return [...(lacked ?? [])];
  }

  /** The state of one end at the router of a node that has a router. */
  stateOf(end: string, node: EdgeNode): EndState {
    const { daemonStatus } = node.status ?? {};
    if (daemonStatus === 'UNKNOWN') return { is: 'silent' };
    const uuid = nodeUuid(node);
    const observation = this.#deps.observations.get(uuid);
    if (!observation?.reportedAt)
      return { is: daemonStatus === undefined || ABSENT.has(daemonStatus) ? 'none' : 'unknown' };
    const { router } = observation.report;
    if (!router) return { is: 'none' };
    if (!router.isReached) return { is: 'unreached' };
    const issue = this.#issuesOf(router).get(end);
    if (issue) return issue;
    return { is: this.#unsure.has(uuid) || this.#nodesOf.get(end)?.has(uuid) ? 'behind' : 'up' };
  }

  /** Whether a report names not all listeners that are down. */
  isCut(node: EdgeNode): boolean {
    const { notUp = [], notUpCount = 0 } = this.#deps.observations.get(nodeUuid(node))?.report.router ?? {};
    return notUpCount > notUp.length;
  }

  #issuesOf(report: Report | undefined): Issues {
    if (!report) return new Map();
    const known = this.#issues.get(report);
    if (known) return known;
    const { notUp = [], refused = [] } = report;
    const issues = new Map<string, EndState>();
    for (const { name, message } of notUp) issues.set(name, message ? { is: 'failed', message } : { is: 'waiting' });
    for (const { name, message = 'no reason' } of refused) issues.set(name, { is: 'refused', message });
    this.#issues.set(report, issues);
    return issues;
  }
}

const NONE: ReadonlySet<string> = new Set();
/** States of nodes without an agent. */
const ABSENT: ReadonlySet<string> = new Set(['NOT_PROVISIONED', 'DEPROVISIONED']);

function setOf(map: Map<string, Set<string>>, key: string): Set<string> {
  const known = map.get(key);
  if (known) return known;
  const made = new Set<string>();
  map.set(key, made);
  return made;
}

function drop(map: Map<string, Set<string>>, key: string, value: string): void {
  const set = map.get(key);
  set?.delete(value);
  if (set?.size === 0) map.delete(key);
}
