import type { EdgeNodeStatus, ObservedMicroservice } from '../../api/v3/index.ts';

/** What it costs to write a status that a node causes, and whether it can wait for others to be merged with it. */
export interface StatusCost {
  /** others act on it: a state, a revision, a port; texts and counters wait */
  urgent: boolean;
  /** KiB of the status, or microservices that changed, whichever is more */
  units: number;
}

export function statusCost(before: EdgeNodeStatus | undefined, after: EdgeNodeStatus): StatusCost {
  const is = placed(after);
  const was = placed(before);
  const changed = [...new Set([...is.keys(), ...was.keys()])].filter((uuid) => is.get(uuid) !== was.get(uuid)).length;
  return {
    urgent: changed > 0 || ofNode(before) !== ofNode(after),
    units: Math.max(Math.ceil(Buffer.byteLength(JSON.stringify(after)) / 1024), changed),
  };
}

/** What statuses of applications, verdicts and orders depend on, of each microservice that was placed there. */
const placed = (status: EdgeNodeStatus | undefined) =>
  new Map(
    (status?.microservices ?? [])
      .filter(({ application }) => application !== undefined)
      .map((item) => [item.uuid, actedOn(item)]),
  );

// members are named one by one, since the API server returns them in another order
const actedOn = ({ state, reason, revision, imageId, rebuildOrder, healthStatus, ports }: ObservedMicroservice) =>
  JSON.stringify([
    [state, reason, revision, imageId, rebuildOrder, healthStatus],
    ports?.map(({ internal, external, protocol = 'tcp' }) => [internal, external, protocol]),
  ]);

const ofNode = ({ daemonStatus, provisionedTime, orders, conditions }: Partial<EdgeNodeStatus> = {}) =>
  JSON.stringify([
    [daemonStatus, provisionedTime],
    [orders?.reboot, orders?.prune, orders?.version, orders?.reconcile],
    conditions?.map(({ type, status, reason }) => [type, status, reason]),
  ]);
