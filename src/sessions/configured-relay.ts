import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { createAmqpBroker } from './amqp-broker.ts';
import { createBrokerRelay } from './broker-relay.ts';
import { createBusBroker } from './bus-broker.ts';
import type { SessionRelay } from './relay.ts';
import type { ReplicaSessions } from './sessions.ts';

/** What is between the replicas, as it was configured; it does not change while the process runs. */
export type RelaySettings = (
  | { by: 'internal' }
  | { by: 'router'; hosts: readonly { host: string; port: number }[]; certificates?: string }
  | { by: 'bus'; servers: readonly string[]; credentials?: string }
) & {
  /** whether sessions may pass between replicas without the router or bus */
  requiresBroker: boolean;
  /** whether a terminal ends when it cannot be reached */
  failsFast: boolean;
};

export interface ConfiguredRelayOptions {
  settings: RelaySettings;
  /** name of this replica */
  identity: string;
  internal: SessionRelay;
  sessions: Pick<ReplicaSessions, 'join' | 'end' | 'hasAgent'>;
  isAlone(): boolean;
  clock: Clock;
  log: Log;
}

/** The internal channel, which needs no set-up, unless a router or the bus is configured. Connects when it is first needed. */
export function createConfiguredRelay(options: ConfiguredRelayOptions): SessionRelay {
  const { settings, identity, internal, sessions, isAlone, clock, log } = options;
  if (settings.by === 'internal') return internal;
  const broker =
    settings.by === 'router'
      ? createAmqpBroker({ ...settings, certificates: settings.certificates, name: identity, clock, log })
      : createBusBroker({ ...settings, credentials: settings.credentials, clock, log });
  return createBrokerRelay({
    ...{ broker, sessions, isAlone, failsFast: settings.failsFast, clock, log },
    otherwise: settings.requiresBroker ? undefined : internal,
  });
}
