import type { Service } from '../../../api/v3/service.ts';

/** Ports of routers, of the controller and of agents, which no service has on any machine. */
const OWN_PORTS: ReadonlySet<number> = new Set([
  ...[5671, 5672, 45_671, 55_671, 9090],
  ...[51_121, 51_122, 51_123, 54_321, 54_322],
]);

/** Whether a service may have a port as far as the system is concerned. */
export const isBridgePort = (port: number): boolean => !OWN_PORTS.has(port);

/** Of several services with one port the oldest keeps it. */
export function keepsPort(service: Service, owners: readonly Service[]): boolean {
  return owners.every((other) => other.metadata.uid === service.metadata.uid || isOlder(service, other));
}

function isOlder({ metadata: a }: Service, { metadata: b }: Service): boolean {
  const [one, other] = [a, b].map(({ creationTimestamp = '', uid = '' }) => [creationTimestamp, uid].join(' '));
  return (one ?? '') < (other ?? '');
}
