import { hash } from 'node:crypto';
import { jsonExcess } from '../../../api/json.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { EdgeNode, EdgeNodeStatus } from '../../../api/v3/index.ts';
import { cut, type Finding } from '../../../rules/conditions.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { NodeInputs, Observation } from '../../../rules/inputs.ts';
import { holder } from '../../../rules/precedence.ts';
import { sectionDigest } from '../../../rules/section-digest.ts';
import type { TunnelSettings } from '../../../rules/tunnel.ts';
import { TUNNEL_STATES, type TunnelReport, type TunnelView } from '../../../wire/tunnel.ts';

/** The tunnel of a node: the annotation asks for it, the leader gives it a port, and the machine opens it. */

export const TUNNEL_ACTIONS = ['open', 'close'] as const;
export type TunnelAction = (typeof TUNNEL_ACTIONS)[number];

/** What the annotation asks for; undefined without one, or for a text that asks for nothing. */
const tunnelAction = ({ metadata }: EdgeNode): TunnelAction | undefined =>
  TUNNEL_ACTIONS.find((action) => action === metadata.annotations?.[ANNOTATIONS.tunnel]);

export const wantsTunnel = (node: EdgeNode): boolean =>
  tunnelAction(node) === 'open' && node.metadata.deletionTimestamp === undefined;

/** The port of the ssh server that belongs to the node now. */
export const tunnelPortOf = ({ status }: EdgeNode): number | undefined =>
  status?.tunnel && status.tunnel.state !== 'closed' ? status.tunnel.remotePort : undefined;

/** A message about an annotation that asks for nothing. */
export function ignoredTunnelAction(node: EdgeNode): string | undefined {
  const text = node.metadata.annotations?.[ANNOTATIONS.tunnel];
  return text === undefined || tunnelAction(node)
    ? undefined
    : `${ANNOTATIONS.tunnel}: ${JSON.stringify(text.slice(0, 64))}; must be open or close`;
}

/**
 * The port for the tunnel of a node, undefined when all of the range are taken. A node keeps its port while the tunnel is open, and
 * gets the former one again while that is free. Otherwise the search begins at a place that depends on the node: it ends after two or
 * three look-ups however many tunnels are open, as long as half of the range is free, and a port that a node gave up is seldom the
 * next one's, so that whoever still uses it does not reach another machine.
 *
 * `owners`: the nodes that have a port by their statuses. `isReserved`: whether it was given to another node, whose status does not
 * have it yet.
 */
export function chooseTunnelPort(
  node: EdgeNode,
  { first, last }: TunnelSettings['ports'],
  { owners, isReserved }: { owners(port: number): readonly EdgeNode[]; isReserved(port: number): boolean },
): number | undefined {
  const uid = node.metadata.uid;
  const isFree = (port: number) => !isReserved(port) && owners(port).every(({ metadata }) => metadata.uid === uid);
  const inRange = (port: number | undefined) => port !== undefined && port >= first && port <= last;
  const former = node.status?.tunnel?.remotePort;
  if (former !== undefined && inRange(former)) {
    // After a change of the leader two nodes may have one port: the older node keeps it.
    const isOwn = tunnelPortOf(node) === former && holder(owners(former))?.metadata.uid === uid;
    if (isOwn || isFree(former)) return former;
  }
  const size = last - first + 1;
  const start = hash('sha256', nodeUuid(node), 'buffer').readUInt32BE(0) % size;
  for (let step = 0; step < size; step++) {
    const port = first + ((start + step) % size);
    if (isFree(port)) return port;
  }
  return undefined;
}

/** What the leader decided about the tunnel of a node. */
export interface TunnelGrant {
  /** absent: none is wanted, or none can be given */
  port?: number;
  /** why the node gets no tunnel although it is wanted */
  problem?: Pick<Finding, 'reason' | 'message'>;
}

const STATES: ReadonlySet<string> = new Set(TUNNEL_STATES);
/** Characters that a terminal would act on, and line breaks. */
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;
const MESSAGE = 256;

/** What a report says of the tunnel, in our own form; undefined for other forms and for `{}`. */
export function readTunnelStatus(text: string | undefined): TunnelReport | undefined {
  if (text === undefined || jsonExcess(text)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { status, message } = (value ?? {}) as Record<string, unknown>;
  if (typeof status !== 'string' || !STATES.has(status)) return undefined;
  const said =
    typeof message === 'string'
      ? cut(
          message
            .slice(0, 4 * MESSAGE)
            .replace(CONTROL, ' ')
            .trim(),
          MESSAGE,
        )
      : '';
  return { status: status as TunnelReport['status'], ...(said !== '' && { message: said }) };
}

/** The members of the status about the tunnel. */
export function tunnelStatus(
  node: EdgeNode,
  {
    observation,
    daemonStatus,
    port,
  }: TunnelGrant & Pick<EdgeNodeStatus, 'daemonStatus'> & { observation?: Observation | undefined },
): Pick<EdgeNodeStatus, 'tunnel' | 'tunnelStatus'> {
  const before = node.status?.tunnel;
  const said = observation?.report.tunnelStatus;
  const hasLeft = daemonStatus === 'DEPROVISIONED';
  // Until the first report to a new leader, what the machine said to the former one stays.
  const machine = hasLeft ? undefined : said === undefined ? node.status?.tunnelStatus : readTunnelStatus(said);
  if (wantsTunnel(node)) {
    const tunnel = port === undefined ? undefined : ({ remotePort: port, state: 'open' } as const);
    return { tunnel, tunnelStatus: machine };
  }
  const isEnding = before && before.state !== 'closed' && machine !== undefined && machine.status !== 'closed';
  return {
    tunnel: before && { remotePort: before.remotePort, state: isEnding ? 'closing' : 'closed' },
    tunnelStatus: machine,
  };
}

/** Why a tunnel that was asked for is not open, with the fix. */
export function tunnelFailed(
  node: EdgeNode,
  status: EdgeNodeStatus,
  { problem }: TunnelGrant = {},
): Finding | undefined {
  if (!wantsTunnel(node)) return undefined;
  if (problem) return { status: 'True', ...problem };
  const { status: state, message } = status.tunnelStatus ?? {};
  if (state !== 'failed') return undefined;
  return {
    status: 'True',
    reason: 'TunnelNotOpen',
    message: `the machine cannot open it: ${message ?? 'it does not say why'}`,
  };
}

/** The tunnel as the node gets it. A closed one says that its machine is to end it. */
export function tunnelView({ node, tunnels }: Pick<NodeInputs, 'node' | 'tunnels'>): {
  tunnel?: TunnelView;
  digest?: string;
} {
  const given = node.status?.tunnel;
  if (!given || !tunnels) return {};
  const { host, port, username, localPort } = tunnels.settings;
  const place = { host, port, username, remotePort: given.remotePort, localPort };
  const server = given.state === 'open' && wantsTunnel(node) ? tunnels.server() : undefined;
  if (!server || 'problem' in server)
    return {
      tunnel: { ...place, rsaKey: '', password: '', knownHosts: '', closed: true },
      digest: sectionDigest({ ...place, closed: true }),
    };
  const { rsaKey, password, knownHosts, identity } = server;
  return {
    tunnel: { ...place, rsaKey, password, knownHosts, closed: false },
    digest: sectionDigest({ ...place, closed: false, identity }),
  };
}

/** The answer of `GET /node/{uuid}/tunnel`; undefined for a node that has none. */
export function tunnelRead(node: EdgeNode, settings: TunnelSettings | undefined): Record<string, unknown> | undefined {
  const isWanted = wantsTunnel(node);
  const given = node.status?.tunnel;
  if (!settings || !(isWanted || given)) return undefined;
  const { host, username, localPort } = settings;
  const hasPort = given && (!isWanted || given.state === 'open');
  return {
    username,
    host,
    remotePort: hasPort ? given.remotePort : 0,
    localPort,
    status: isWanted ? 'open' : 'closed',
  };
}
