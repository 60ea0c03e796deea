import type { BusHub } from '../../../api/v3/bus-hub.ts';
import { HUB_PORTS, HUB_SIZES, type HubSettings } from '../../../rules/bus-hub.ts';
import { invalid } from '../../../rules/errors.ts';
import { HUB_SECRET } from '../../bus-accounts/rules/secret.ts';
import { storeBytes } from './sizes.ts';

/** Names of what the hub is in the cluster; services of users have none of them. */
export const HUB_NAMES = {
  members: 'bus',
  service: 'bus',
  headless: 'bus-headless',
  /** the Secret with server.conf */
  config: HUB_SECRET,
} as const;

/** Members that a hub can have. */
export const MOST_MEMBERS = 5;

/** Members of the hub, by number: their pods have stable names. */
export const memberName = (index: number): string => `${HUB_NAMES.members}-${index}`;
export const memberHost = (index: number, namespace: string): string =>
  `${memberName(index)}.${HUB_NAMES.headless}.${namespace}.svc`;

/** Settings of the hub as reads show them and its servers have them. */
const DEFAULTS = {
  serverPort: 4222,
  clusterPort: 6222,
  leafPort: 7422,
  mqttPort: 8883,
  httpPort: 8222,
  jsStorageSize: '10g',
  jsMemoryStoreSize: '1g',
} as const;

export function hubSettings({ spec, status }: Pick<BusHub, 'spec' | 'status'>): HubSettings {
  const host = spec.host ?? status?.host;
  const ofNode: Partial<Record<keyof HubSettings, unknown>> = spec.host === undefined ? (status ?? {}) : {};
  const entries = [...HUB_PORTS, ...HUB_SIZES].map(
    (field) => [field, spec[field] ?? ofNode[field] ?? DEFAULTS[field]] as const,
  );
  return { ...(host !== undefined && { host }), ...(Object.fromEntries(entries) as unknown as HubSettings) };
}

/** Whether clients of a hub have to connect by TLS. */
export const hasClientTls = ({ spec, status }: Pick<BusHub, 'spec' | 'status'>): boolean =>
  ((spec.host === undefined ? status?.clientTls : undefined) ?? spec.clientTls) === true;

/** Why a hub cannot be, although each of its members has the right form. */
export function hubProblem({ spec }: Pick<BusHub, 'spec'>): { field: string; message: string } | undefined {
  const settings = hubSettings({ spec });
  for (const field of HUB_SIZES)
    if (storeBytes(settings[field]) === undefined)
      return { field, message: `${field}: "${settings[field]}" is no size above 0 and below 2^53 bytes, such as 10g` };
  for (const [i, field] of HUB_PORTS.entries()) {
    const other = HUB_PORTS.slice(0, i).find((before) => settings[before] === settings[field]);
    if (other) return { field, message: `${field}: ${settings[field]} is the port of ${other} as well` };
  }
  return undefined;
}

/** Throws when a hub cannot be. */
export function requireHub(hub: Pick<BusHub, 'spec'>): void {
  const problem = hubProblem(hub);
  if (problem) throw invalid(problem.message, problem.field);
}

/** What the configuration of an installation says of members in the cluster; absent: the hub is elsewhere. */
interface MadeMembers {
  replicas: number;
}

/** Whether the controller makes the servers of a hub. */
export const isMade = ({ spec }: Pick<BusHub, 'spec'>, made: MadeMembers | undefined): boolean =>
  made !== undefined && spec.isExternal !== true;

/** Number of servers that tokens are sent to. */
export const membersOf = (hub: Pick<BusHub, 'spec'>, made: MadeMembers | undefined): number =>
  isMade(hub, made) ? (hub.spec.replicas ?? made?.replicas ?? 0) : hub.spec.host === undefined ? 0 : 1;

/** A server of the hub as the leader reaches it. */
export interface HubMember {
  name: string;
  /** `tls:` where clients have to connect by TLS, else `nats:` */
  url: string;
  /** whether a pod of this name runs it */
  isPod: boolean;
}

/** The servers of a hub. Of a hub elsewhere one is known, which passes tokens on to its cluster. */
export function hubMembers(
  hub: Pick<BusHub, 'spec' | 'status'>,
  namespace: string,
  made: MadeMembers | undefined,
): HubMember[] {
  const { serverPort, host: known } = hubSettings(hub);
  // Where a node of the system is the hub, the status has its address.
  const host = hub.spec.isExternal ? hub.spec.host : known;
  const scheme = hasClientTls(hub) ? 'tls' : 'nats';
  const urlOf = (of: string) => `${scheme}://${of.includes(':') ? `[${of}]` : of}:${serverPort}`;
  if (isMade(hub, made))
    return Array.from({ length: membersOf(hub, made) }, (_, i) => ({
      name: memberName(i),
      url: urlOf(memberHost(i, namespace)),
      isPod: true,
    }));
  return host === undefined ? [] : [{ name: host, url: urlOf(host), isPod: false }];
}
