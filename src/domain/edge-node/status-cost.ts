import type { EdgeNodeStatus, ObservedMicroservice } from '../../api/v3/index.ts';

/** The cost of writing a status that a report causes, and whether the write can wait and be merged with later ones. */
export interface StatusCost {
  /** others act on it: a state, a revision, a port; texts and counters can wait */
  urgent: boolean;
  /** size in KiB, microservices that changed, or applications whose statuses follow: whichever is most */
  units: number;
}

/** The least that a write costs. */
const MIN_UNITS = 40;

/** `applications` counts the applications that look at the node; it is asked only when all of them see the change. */
export function statusCost(
  before: EdgeNodeStatus | undefined,
  after: EdgeNodeStatus,
  applications: () => number,
): StatusCost {
  const is = placed(after);
  const was = placed(before);
  const changed = [...new Set([...is.keys(), ...was.keys()])].filter((uuid) => is.get(uuid) !== was.get(uuid)).length;
  return {
    urgent: changed > 0 || ofNode(before) !== ofNode(after),
    units: Math.max(
      MIN_UNITS,
      Math.ceil(Buffer.byteLength(JSON.stringify(after)) / 1024),
      changed,
      seenByAll(before) === seenByAll(after) ? 0 : applications(),
    ),
  };
}

/** What statuses of applications, verdicts and actions depend on, by microservice that was placed there. */
const placed = (status: EdgeNodeStatus | undefined) =>
  new Map(
    (status?.microservices ?? [])
      .filter(({ application }) => application !== undefined)
      .map((item) => [item.uuid, actedOn(item)]),
  );

// members are named one by one, since the API server returns them in another order
const actedOn = ({ state, reason, revision, imageId, rebuildCount, healthStatus, ports }: ObservedMicroservice) =>
  JSON.stringify([
    [state, reason, revision, imageId, rebuildCount, healthStatus],
    ports?.map(({ internal, external, protocol = 'tcp' }) => [internal, external, protocol]),
  ]);

const ofNode = ({ daemonStatus, provisionedTime, actions, conditions }: Partial<EdgeNodeStatus> = {}) =>
  JSON.stringify([
    [daemonStatus, provisionedTime],
    [actions?.reboot, actions?.prune, actions?.version, actions?.reconcile],
    conditions?.map(({ type, status, reason }) => [type, status, reason]),
  ]);

/** What every application on the node shows of the node itself: its state, and the text of a warning. */
const seenByAll = ({ daemonStatus, warningMessage }: Partial<EdgeNodeStatus> = {}) =>
  JSON.stringify([daemonStatus, daemonStatus === 'WARNING' ? warningMessage : undefined]);
