import type { EdgeNodeStatus, ObservedMicroservice } from '../../api/v3/index.ts';
import { moveTimeIn } from '../../subjects/nodes/rules/placement/moves.ts';

/** The cost of writing a status that a report causes, and whether the write can wait and be merged with later ones. */
export interface StatusCost {
  /** other objects depend on the change: a state, a revision, a port; texts and counters can wait */
  urgent: boolean;
  /** the greatest of the size in KiB, the microservices that changed, and the applications whose statuses change too */
  units: number;
}

/** The minimum cost of a write. */
const MIN_UNITS = 40;

/** `applications` counts the applications that depend on the node; it is called only when the change affects all of them. */
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

/** What statuses of applications, verdicts and actions depend on, by placed microservice. */
const placed = (status: EdgeNodeStatus | undefined) =>
  new Map(
    (status?.microservices ?? [])
      .filter(({ application }) => application !== undefined)
      .map((item) => [item.uuid, actedOn(item)]),
  );

// The members have a fixed order here, since the API server returns them in another one.
const actedOn = ({ state, reason, revision, imageId, rebuildCount, healthStatus, ports }: ObservedMicroservice) =>
  JSON.stringify([
    [state, reason, revision, imageId, rebuildCount, healthStatus],
    ports?.map(({ internal, external, protocol = 'tcp' }) => [internal, external, protocol]),
  ]);

const ofNode = ({
  daemonStatus,
  provisionedTime,
  actions,
  conditions,
  microserviceList,
}: Partial<EdgeNodeStatus> = {}) =>
  JSON.stringify([
    [daemonStatus, provisionedTime, moveTimeIn(microserviceList)],
    [actions?.reboot, actions?.prune, actions?.version, actions?.reconcile],
    conditions?.map(({ type, status, reason }) => [type, status, reason]),
  ]);

/** What every application on the node shows of the node itself: its state and the text of a warning. */
const seenByAll = ({ daemonStatus, warningMessage }: Partial<EdgeNodeStatus> = {}) =>
  JSON.stringify([daemonStatus, daemonStatus === 'WARNING' ? warningMessage : undefined]);
