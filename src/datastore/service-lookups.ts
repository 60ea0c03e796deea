import type { Service } from '../api/v3/service.ts';
import { equal, type Store } from '../kube/mod.ts';
import type { BridgedService, BridgedServices } from '../rules/bridges.ts';
import { onceEach } from '../rules/once-each.ts';
import { HUB_ROOM, roomOf, withinRoom } from '../subjects/routers/rules/hub-room.ts';
import { keepsPort } from '../subjects/services/rules/bridge-ports.ts';
import { bridgedServiceOf } from '../subjects/services/rules/bridged.ts';

const NONE: ReadonlySet<string> = new Set();

/**
 * Services as routers see them, from the store. Of several with one port the oldest alone has it, so that no router gets a port twice.
 */
export function createServiceLookups(store: Store<Service>, tagPrefix: string): BridgedServices {
  const asBridged = onceEach(bridgedServiceOf);
  const withPort = (port: number) => store.byIndex('bridgePort', String(port));
  function bridged(services: readonly Service[]): readonly BridgedService[] {
    return services.flatMap((service) => {
      const value = asBridged(service);
      return value && keepsPort(service, withPort(value.bridgePort)) ? [value] : [];
    });
  }
  const bytesOf = (service: Service | undefined): number => {
    const value = service && asBridged(service);
    return value ? roomOf(value) : 0;
  };
  /** what all services need at the default router */
  let bytes = store.list().reduce((sum, service) => sum + bytesOf(service), 0);
  store.subscribe(({ type, object, previous }) => {
    bytes += bytesOf(type === 'delete' ? undefined : object) - bytesOf(previous);
  });
  let room: { version: number; of: ReturnType<typeof withinRoom> } | undefined;
  function ofHub() {
    if (room?.version !== store.version) room = { version: store.version, of: withinRoom(bridged(store.list())) };
    return room.of;
  }
  return {
    tagPrefix,
    backedBy: (resource) => bridged(store.byIndex('resource', resource)),
    tagged: (token) => bridged(store.byIndex('tag', token)),
    all: () => bridged(store.list()),
    ofHub: () => ofHub().services,
    // Every reconcile of a service asks: it walks through all services only where they are too many.
    leftOut: () => (bytes <= HUB_ROOM ? NONE : ofHub().leftOut),
    bridgedAt: (nodeUuid) => bridged(store.byIndex('bridge', nodeUuid)),
    whenSynced: (signal) => store.whenSynced(signal),
    subscribe: (listener) =>
      store.subscribe(({ type, object, previous, initial }) => {
        const before = previous && asBridged(previous);
        const now = type === 'delete' ? undefined : asBridged(object);
        if (equal(before, now)) return;
        const changed = [before, now].flatMap((one) => one ?? []);
        // Another service with the port may have it now, or no more.
        const rivals = changed.flatMap(({ bridgePort }) => withPort(bridgePort)).flatMap((one) => asBridged(one) ?? []);
        listener([...new Set([...changed, ...rivals])], initial);
      }),
  };
}
