import type { BridgedService } from '../../../rules/bridges.ts';
import { onceEach } from '../../../rules/once-each.ts';
import { bridgesOfHub } from './bridges.ts';

/** Bytes that services may have in the configuration of the default router: a ConfigMap has at most a mebibyte. */
export const HUB_ROOM = 900 * 1024;

/** Bytes of the ends of a service in the text, each with its line. */
export const roomOf = onceEach((service: BridgedService): number => {
  const { listeners, connectors } = bridgesOfHub([service]);
  return JSON.stringify([...listeners, ...connectors]).length + 40;
});

/** The services that the default router has room for: the youngest have to wait. */
export function withinRoom(
  services: readonly BridgedService[],
  room = HUB_ROOM,
): { services: readonly BridgedService[]; leftOut: ReadonlySet<string> } {
  let left = room;
  if (services.reduce((sum, one) => sum + roomOf(one), 0) <= room) return { services, leftOut: new Set() };
  const oldest = services.toSorted((a, b) => (a.since < b.since ? -1 : 1));
  const index = oldest.findIndex((one) => {
    left -= roomOf(one);
    return left < 0;
  });
  return { services: oldest.slice(0, index), leftOut: new Set(oldest.slice(index).map(({ name }) => name)) };
}
