/**
 * Where containers reach the hub of the message bus. Another address replaces each container that has it, so that nodes get it
 * one after the other, while the hub at it has every token: a mistake in an address reaches no container.
 */

/** An address of the hub. */
export interface BusAddress {
  host: string;
  port: number;
}

/** Where the containers of a node reach the hub. */
export interface BusDoor extends BusAddress {
  /** clients have to connect by TLS */
  hasTls?: boolean;
}

/** The address that containers get, in the status of the hub. */
export interface BusClients extends BusAddress {
  /** the address before; absent: every node has the present one */
  former?: BusAddress | undefined;
  /** of the nodes that have the present one already */
  percent?: number | undefined;
  /** when `percent` became what it is, RFC 3339 */
  since?: string | undefined;
}

/** How fast nodes get another address: all of them within five minutes, and none in the first half minute. */
export const BUS_MOVE = { stepMs: 30_000, percent: 10 } as const;

const isSame = (a: BusAddress, b: BusAddress) => a.host === b.host && a.port === b.port;

/** The clients of the hub at `now` (Unix ms). `isReady`: its servers at the wanted address have every token. */
export function nextClients(
  present: BusClients | undefined,
  wanted: BusAddress | undefined,
  { isReady, now }: { isReady: boolean; now: number },
): BusClients | undefined {
  if (!wanted || !present) return wanted ?? present;
  const since = new Date(now).toISOString();
  const { former, percent = 0 } = present;
  if (!isSame(present, wanted)) {
    if (!former) return { ...wanted, former: { host: present.host, port: present.port }, percent: 0, since };
    // Nodes that have the address before stay as they are, those that had moved follow.
    return isSame(former, wanted) ? wanted : { ...wanted, former, percent, since };
  }
  if (!former || !isReady || now < nextStep(present)) return present;
  const further = percent + BUS_MOVE.percent;
  return further >= 100 ? wanted : { ...present, percent: further, since };
}

/** Unix ms of the next step while nodes get another address. */
export const nextStep = ({ since = '' }: BusClients): number => (Date.parse(since) || 0) + BUS_MOVE.stepMs;

/** The address that the containers of a node have, by the uuid of the node. */
export function busAddressFor({ host, port, former, percent = 0 }: BusClients, node: string): BusAddress {
  return former && shareOf(node) >= percent ? former : { host, port };
}

/** A number from 0 to 99 that a node always has, and that nodes have equally often (FNV-1a). */
function shareOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return hash % 100;
}
