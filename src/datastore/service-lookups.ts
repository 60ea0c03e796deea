import type { Service } from '../api/v3/service.ts';
import { equal, type Store } from '../kube/mod.ts';
import type { BridgedService, BridgedServices } from '../rules/bridges.ts';
import { onceEach } from '../rules/once-each.ts';
import { withinRoom } from '../subjects/routers/rules/hub-room.ts';
import { keepsPort } from '../subjects/services/rules/bridge-ports.ts';
import { bridgedServiceOf } from '../subjects/services/rules/bridged.ts';

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
  let room: { version: number; of: ReturnType<BridgedServices['ofHub']> } | undefined;
  function ofHub() {
    if (room?.version !== store.version) room = { version: store.version, of: withinRoom(bridged(store.list())) };
    return room.of;
  }
  return {
    tagPrefix,
    backedBy: (resource) => bridged(store.byIndex('resource', resource)),
    tagged: (token) => bridged(store.byIndex('tag', token)),
    all: () => bridged(store.list()),
    ofHub,
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
