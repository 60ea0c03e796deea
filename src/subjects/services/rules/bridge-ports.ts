import { LABELS } from '../../../api/names.ts';
import type { Service } from '../../../api/v3/service.ts';

/** Ports of routers, where nothing else is set, of the controller and of agents, which no service has on any machine. */
const OWN_PORTS: ReadonlySet<number> = new Set([
  ...[5671, 5672, 45_671, 55_671, 9090],
  ...[51_121, 51_122, 51_123, 54_321, 54_322],
]);

/** Whether a service may have a port as far as the system is concerned. `ofHub`: what the default router has. */
export const isBridgePort = (port: number, ofHub: readonly number[] = []): boolean =>
  !OWN_PORTS.has(port) && !ofHub.includes(port);

/** Of several services with one port the oldest keeps it. */
export function keepsPort(service: Service, owners: readonly Service[]): boolean {
  return owners.every((other) => other.metadata.uid === service.metadata.uid || isOlder(service, other));
}

const isOlder = (one: Service, other: Service): boolean => ageOf(one) < ageOf(other);

/** Sorts services by age, the oldest first. */
export const ageOf = ({ metadata: { creationTimestamp = '', uid = '' } }: Service): string =>
  `${creationTimestamp} ${uid}`;

/** The port that a service had, by its label, while its status has none: a restored object has no status. */
export function claimedPort({ metadata, status }: Service): number | undefined {
  const text = status?.bridgePort === undefined ? metadata.labels?.[LABELS.bridgePort] : undefined;
  return text !== undefined && /^[0-9]{1,5}$/.test(text) ? Number(text) : undefined;
}
