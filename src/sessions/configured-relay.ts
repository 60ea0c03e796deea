import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { ClientCertificate } from '../router-client/client-tls.ts';
import { createAmqpBroker } from './amqp-broker.ts';
import type { Broker } from './broker.ts';
import { createBrokerRelay } from './broker-relay.ts';
import { createBusBroker } from './bus-broker.ts';
import type { SessionRelay } from './relay.ts';
import type { ReplicaSessions } from './sessions.ts';

/** What is between the replicas, as it was configured; it does not change while the process runs. */
export type RelaySettings = (
  | { by: 'internal' }
  | { by: 'default-router' }
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
  /** the default router of the installation, for replicas that are to use it */
  defaultRouter?: RelayRouter;
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

/** The default router, as far as it is known now. */
export interface RelayRouter {
  /** none: there is no default router, or its certificates are not made yet */
  hosts(): readonly { host: string; port: number }[];
  tls(): ClientCertificate;
}

/**
 * The configured relay; else the message bus where it is on and has a hub; else the internal channel, which needs no set-up, and serves
 * while there is no hub, or no default router where that is configured. Connects when it is first needed.
 */
export function createConfiguredRelay(options: ConfiguredRelayOptions): SessionRelay {
  const { settings, identity, internal, hub, defaultRouter, clock, log } = options;
  const given = { name: identity, clock, log };
  switch (settings.by) {
    case 'internal': {
      if (!hub) return internal;
      // Nobody asked for the bus: the internal channel serves while it cannot be reached, too.
      const free = { ...options, settings: { requiresBroker: false, failsFast: false } };
      return whileKnown(
        internal,
        () => hub.servers().length > 0,
        relayOver(createBusBroker({ ...given, ...hub }), free),
      );
    }
    case 'default-router': {
      if (!defaultRouter) return internal;
      const relay = relayOver(createAmqpBroker({ ...given, ...defaultRouter }), options);
      return whileKnown(internal, () => defaultRouter.hosts().length > 0, relay);
    }
    case 'router': {
      const { hosts, certificates } = settings;
      return relayOver(createAmqpBroker({ ...given, hosts: () => hosts, tls: certificatesIn(certificates) }), options);
    }
    case 'bus': {
      const { servers, credentials } = settings;
      const read = credentials === undefined ? undefined : () => readFileSync(credentials);
      return relayOver(createBusBroker({ ...given, servers: () => servers, credentials: read }), options);
    }
  }
}

/** The files of a folder as they are at the moment. */
function certificatesIn(folder: string | undefined): (() => ClientCertificate) | undefined {
  if (folder === undefined) return undefined;
  const text = (file: string) => readFileSync(join(folder, file), 'utf8');
  return () => ({ ca: text('ca.crt'), cert: text('tls.crt'), key: text('tls.key') });
}

function relayOver(
  broker: Broker,
  {
    settings: { requiresBroker, failsFast },
    internal,
    ...given
  }: Pick<ConfiguredRelayOptions, 'internal' | 'sessions' | 'isAlone' | 'clock' | 'log'> & {
    settings: Pick<RelaySettings, 'requiresBroker' | 'failsFast'>;
  },
): SessionRelay {
  const { sessions, isAlone, clock, log } = given;
  return createBrokerRelay({
    ...{ broker, sessions, isAlone, failsFast, clock, log },
    otherwise: requiresBroker ? undefined : internal,
  });
}

/** The internal channel serves while what the relay passes over does not exist. */
function whileKnown(internal: SessionRelay, isKnown: () => boolean, relay: SessionRelay): SessionRelay {
  const way = () => (isKnown() ? relay : internal);
  return {
    expect: (id, kind) => way().expect(id, kind),
    connect: (agent, address, asked) => way().connect(agent, address, asked),
    drain: () => relay.drain(),
    [Symbol.dispose]: () => relay[Symbol.dispose](),
  };
}
