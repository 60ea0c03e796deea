import type { Brokers } from './_relay-contract.ts';
import type { Address, Broker, ChannelListener } from './broker.ts';

interface Bound {
  name: string;
  listener: ChannelListener;
  isUp: boolean;
}

/** A router in memory, which delivers each message in a turn of its own. */
export function createMemoryBrokers(): Brokers {
  const all = new Set<Bound>();
  let isOn = true;
  const nameOf = (address: Address) => `${address.end} ${address.id} ${address.end === 'agent' ? address.link : ''}`;

  function turn(bound: Bound, isUp: boolean) {
    if (bound.isUp === isUp || !all.has(bound)) return;
    bound.isUp = isUp;
    if (isUp) bound.listener.up();
    else bound.listener.down('switched off');
  }

  return {
    makeBroker(): Broker {
      const own = new Set<Bound>();
      return {
        maxBytes: 256 * 1024,
        open(address, listener) {
          const bound: Bound = { name: nameOf(address), listener, isUp: false };
          all.add(bound);
          own.add(bound);
          setImmediate(() => isOn && turn(bound, true));
          return {
            send(to, message) {
              if (!isOn || !bound.isUp) return;
              const name = nameOf(to);
              setImmediate(() => {
                if (!isOn) return;
                for (const one of [...all]) if (one.name === name && one.isUp) one.listener.message(message);
              });
            },
            forget() {},
            close: () => void (all.delete(bound) && own.delete(bound)),
          };
        },
        [Symbol.dispose]() {
          for (const bound of own) {
            all.delete(bound);
            bound.isUp = false;
          }
        },
      };
    },
    async stop() {
      isOn = false;
      for (const bound of [...all]) turn(bound, false);
    },
    async start() {
      isOn = true;
      for (const bound of [...all]) turn(bound, true);
    },
  };
}
