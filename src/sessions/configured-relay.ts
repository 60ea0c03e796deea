import { readFileSync } from 'node:fs';
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
  /** the message bus of the installation, which replicas use where nothing is configured; absent while the bus is off */
  hub?: RelayHub;
  sessions: Pick<ReplicaSessions, 'join' | 'end' | 'hasAgent'>;
  isAlone(): boolean;
  clock: Clock;
  log: Log;
}

/** The hub of the message bus, as far as it is known now. */
export interface RelayHub {
  /** URLs; none: there is no hub, or nobody can connect to it yet */
  servers(): readonly string[];
  /** certificates by which its servers are known, where their URLs ask for TLS */
  ca?(): string | undefined;
  /** text of the credentials of the account and user `controller` */
  credentials(): Uint8Array;
}

/**
 * The configured relay; else the message bus where it is on and has a hub; else the internal channel, which needs no set-up. Connects
 * when it is first needed.
 */
export function createConfiguredRelay(options: ConfiguredRelayOptions): SessionRelay {
  const { settings, identity, internal, sessions, hub, isAlone, clock, log } = options;
  if (settings.by === 'internal') return hub ? relayOverHub(options, hub) : internal;
  const broker =
    settings.by === 'router'
      ? createAmqpBroker({ ...settings, certificates: settings.certificates, name: identity, clock, log })
      : createBusBroker({ servers: () => settings.servers, credentials: fileOf(settings.credentials), clock, log });
  return createBrokerRelay({
    ...{ broker, sessions, isAlone, failsFast: settings.failsFast, clock, log },
    otherwise: settings.requiresBroker ? undefined : internal,
  });
}

const fileOf = (path: string | undefined) => (path === undefined ? undefined : () => readFileSync(path));

/** Nobody asked for the bus: the internal channel serves while there is no hub, and while it cannot be reached. */
function relayOverHub(
  { internal, sessions, isAlone, clock, log }: ConfiguredRelayOptions,
  hub: RelayHub,
): SessionRelay {
  const broker = createBusBroker({ ...hub, clock, log });
  const relay = createBrokerRelay({
    ...{ broker, sessions, isAlone, failsFast: false, clock, log },
    otherwise: internal,
  });
  const way = () => (hub.servers().length > 0 ? relay : internal);
  return {
    expect: (id, kind) => way().expect(id, kind),
    connect: (agent, address, asked) => way().connect(agent, address, asked),
    drain: () => relay.drain(),
    [Symbol.dispose]: () => relay[Symbol.dispose](),
  };
}
