/** A Service as routers see it: it leads from an address, which is its name, to a port of its backend. */
export interface BridgedService {
  name: string;
  type: 'microservice' | 'agent' | 'cluster' | 'external';
  /** what it leads to, as it is stored: a uuid or a name of ours, else a host */
  resource: string;
  targetPort: number;
  /** the port of its listeners, the same at all routers */
  bridgePort: number;
  /** uuid of a node whose router listens as well; absent: the default router alone */
  defaultBridge?: string;
  /** tokens by which nodes select it */
  tags: readonly string[];
  /** sorts by age, the oldest first */
  since: string;
}

/** What rules read of Services. Those that have no port yet are left out. */
export interface ServiceLookups {
  /** what tags of nodes that select services begin with */
  tagPrefix: string;
  /** by what they lead to: uuid or name of a node, uuid of a microservice or `application/microservice` */
  backedBy(resource: string): readonly BridgedService[];
  /** by a token that they have and that may select them */
  tagged(token: string): readonly BridgedService[];
  all(): readonly BridgedService[];
  /** by the node that is named as their bridge */
  bridgedAt(nodeUuid: string): readonly BridgedService[];
}

/** Services as routers see them, and their changes. */
export interface BridgedServices extends ServiceLookups {
  /** for which the default router has room */
  ofHub(): readonly BridgedService[];
  /** names of the youngest, which wait until the default router has room for them */
  leftOut(): ReadonlySet<string>;
  whenSynced(signal: AbortSignal): Promise<void>;
  /** The listener is called synchronously with services as they were and as they are. `initial`: of the first list. */
  subscribe(listener: (changed: readonly BridgedService[], initial: boolean) => void): Disposable;
}
