import type { Application, EdgeNode, MicroserviceEntry, ObservedMicroservice } from '../../../../api/v3/index.ts';
import { hasContainer } from '../../../../rules/deletion.ts';
import type { Lookups } from '../../../../rules/inputs.ts';
import { entryUuid, v3Name } from '../../../../rules/names.ts';
import { keptOn, placedOn, shouldRun } from '../../../nodes/rules/placement/entries.ts';

/** A claim of an external port of a node. */
export interface PortClaim {
  external: number;
  protocol: 'tcp' | 'udp';
  uuid: string;
  application: string;
  name: string;
  /** the node last reported a container of the microservice that has this port */
  reported: boolean;
  /** an entry asks for the port now; false for a port that is still reported and that no entry asks for any more */
  wanted: boolean;
  /** the node reports a container of the microservice, whichever ports that has */
  present: boolean;
  /** the entry, if it should run; absent for a stopped or removed one, which gives up all its ports */
  runs?: { application: Application; entry: MicroserviceEntry };
  /** the entry is to move to another node, and asks for its ports there */
  isLeaving?: true;
  /** of the application; absent for removed microservices that are still reported */
  createdAt?: string;
  uid?: string;
}

type Port = { external: number; protocol?: 'tcp' | 'udp' };

/** Every claim on a node's ports: of entries that should run, and of what the node still reports. */
export function portClaims(
  node: EdgeNode,
  applications: readonly Application[],
  lookups: Pick<Lookups, 'nodeByName'>,
): readonly PortClaim[] {
  const observed = new Map((node.status?.microservices ?? []).map((item) => [item.uuid, item]));
  const claims: PortClaim[] = [];
  const seen = new Set<string>();
  const entriesOf = placedOn(node, lookups);
  const leavingOf = keptOn(node, lookups);
  for (const application of applications) {
    const leaving = leavingOf(application);
    for (const entry of entriesOf(application)) {
      const uuid = entryUuid(application, entry);
      if (seen.has(uuid)) continue;
      seen.add(uuid);
      const { creationTimestamp, uid } = application.metadata;
      const item = observed.get(uuid);
      const runs = shouldRun(application, entry);
      const leaves = leaving.includes(entry);
      const owner: Owner = {
        uuid,
        application: v3Name(application),
        name: entry.name,
        present: item !== undefined && hasContainer(item),
        ...(runs && { runs: { application, entry } }),
        ...(leaves && { isLeaving: true }),
        createdAt: creationTimestamp,
        uid,
      };
      const declared = entry.container?.ports ?? [];
      const held = item ? heldPorts(item, declared) : [];
      const asked = runs && !leaves ? declared : [];
      claims.push(...asked.map((port) => claim(owner, port, { wanted: true, reported: includes(held, port) })));
      const left = held.filter((port) => !includes(asked, port));
      claims.push(...left.map((port) => claim(owner, port, { wanted: false, reported: true })));
    }
  }
  for (const [uuid, item] of observed) {
    if (seen.has(uuid)) continue;
    const present = hasContainer(item);
    const owner: Owner = { uuid, application: item.application ?? '', name: item.name ?? uuid, present };
    claims.push(...heldPorts(item, []).map((port) => claim(owner, port, { wanted: false, reported: true })));
  }
  return claims;
}

/** Claims by port and by microservice. A node can have thousands, so each list is indexed once. */
interface Found {
  at: Map<string, PortClaim[]>;
  of: Map<string, PortClaim[]>;
}
const known = new WeakMap<readonly PortClaim[], Found>();

function findIn(claims: readonly PortClaim[]): Found {
  let found = known.get(claims);
  if (!found) {
    found = { at: Map.groupBy(claims, keyOf), of: Map.groupBy(claims, ({ uuid }) => uuid) };
    known.set(claims, found);
  }
  return found;
}

const keyOf = ({ external, protocol }: Port) => `${external}/${protocol ?? 'tcp'}`;

/** Every claim of one port. */
export const claimsAt = (claims: readonly PortClaim[], port: Port): readonly PortClaim[] =>
  findIn(claims).at.get(keyOf(port)) ?? [];

/** Every claim of one microservice. */
export const portClaimsOf = (claims: readonly PortClaim[], uuid: string): readonly PortClaim[] =>
  findIn(claims).of.get(uuid) ?? [];

/**
 * The claim that gets a port (docs/spec/workloads.md#ports): the reported one, else that of the older Application, of the
 * smaller uid, of the first entry name.
 */
export function portHolder(
  claims: readonly PortClaim[],
  external: number,
  protocol: 'tcp' | 'udp',
): PortClaim | undefined {
  return claimsAt(claims, { external, protocol }).toSorted(byPrecedence)[0];
}

/** Of the entries that ask for a port, the one that has it or gets it once its holder has given it up. */
export function portHeir(claims: readonly PortClaim[], port: Port): PortClaim | undefined {
  return claimsAt(claims, port)
    .filter(({ wanted }) => wanted)
    .sort(byPrecedence)[0];
}

/**
 * The microservice because of which another one cannot give up its port: the first refused one in the chain of itself and
 * those that it waits for. A refused microservice keeps its container. Microservices that wait for each other in a ring are
 * no obstacle: the machine gets all of them in one list and determines the order. `claimsThere` are those of the node to which
 * a microservice is to move: until that may take it, it keeps its container and its ports here.
 */
export function portKeeper(
  claims: readonly PortClaim[],
  holder: PortClaim,
  isRefused: (entry: NonNullable<PortClaim['runs']>) => boolean,
  claimsThere: (entry: NonNullable<PortClaim['runs']>) => readonly PortClaim[],
): PortClaim | undefined {
  const line = [{ member: holder, claims }];
  const seen = new Set([holder.uuid]);
  for (const { member, claims } of line) {
    if (!member.runs) continue;
    if (isRefused(member.runs)) return member;
    const there = member.isLeaving ? claimsThere(member.runs) : claims;
    for (const asked of portClaimsOf(there, member.uuid).filter(({ wanted }) => wanted)) {
      if (portHeir(there, asked)?.uuid !== member.uuid) return member;
      const next = portHolder(there, asked.external, asked.protocol);
      if (!next || seen.has(next.uuid)) continue;
      seen.add(next.uuid);
      line.push({ member: next, claims: there });
    }
  }
  return undefined;
}

/** States in which a container may still use its ports. */
const HOLDING: ReadonlySet<string> = new Set([
  'CREATING',
  'CREATED',
  'STARTING',
  'RUNNING',
  'UPDATING',
  'RESTARTING',
  'STUCK_IN_RESTART',
  'EXITING',
  'STOPPING',
  'MARKED_FOR_DELETION',
  'DELETING',
  'UNKNOWN',
]);

/** Ports of a reported container; for agents that do not report ports, those that the entry declares. */
function heldPorts(item: ObservedMicroservice, declared: readonly Port[]): readonly Port[] {
  return item.ports ?? (HOLDING.has(item.state) ? declared : []);
}

type Owner = Omit<PortClaim, 'external' | 'protocol' | 'wanted' | 'reported'>;

const claim = (owner: Owner, { external, protocol }: Port, is: { wanted: boolean; reported: boolean }): PortClaim => ({
  ...owner,
  external,
  protocol: protocol ?? 'tcp',
  ...is,
});

const isSamePort = (a: Port, b: Port) => a.external === b.external && (a.protocol ?? 'tcp') === (b.protocol ?? 'tcp');
const includes = (ports: readonly Port[], port: Port) => ports.some((other) => isSamePort(other, port));

function byPrecedence(a: PortClaim, b: PortClaim): number {
  return (
    Number(b.reported) - Number(a.reported) ||
    compare(a.createdAt, b.createdAt) ||
    compare(a.uid, b.uid) ||
    compare(a.name, b.name) ||
    compare(a.uuid, b.uuid)
  );
}

/** An object that is not stored yet has no time and no uid, and comes last. */
const LAST = '\uffff';
const compare = (a = LAST, b = LAST) => (a < b ? -1 : a > b ? 1 : 0);
