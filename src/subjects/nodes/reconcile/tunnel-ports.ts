import type { EdgeNode } from '../../../api/v3/index.ts';
import { type Change, keyOf } from '../../../kube/mod.ts';
import { NO_TUNNEL_SERVER, type TunnelSettings, type Tunnels } from '../../../rules/tunnel.ts';
import { chooseTunnelPort, type TunnelGrant, tunnelPortOf, wantsTunnel } from '../rules/tunnel.ts';

/** Nodes that are reconciled because a port is free again; the first of them gets it. */
const NEXT = 4;

/** The indexes of the store of nodes that it reads. */
interface NodesByTunnel {
  byIndex(index: 'tunnel' | 'tunnelPort', key: string): readonly EdgeNode[];
}

/**
 * Gives the tunnels of nodes their ports of the ssh server. The statuses of nodes say who has which port; until a status is written,
 * its port is reserved here, since nodes are reconciled at the same time.
 */
export class TunnelPorts {
  readonly #tunnels: Tunnels | undefined;
  readonly #nodes: NodesByTunnel;
  readonly #reserved = new Map<number, string>();
  /** the reserved port of a node, by its key */
  readonly #portOf = new Map<string, number>();

  constructor(tunnels: Tunnels | undefined, nodes: NodesByTunnel) {
    this.#tunnels = tunnels;
    this.#nodes = nodes;
  }

  /** The port of a node that is to have a tunnel, or why it gets none. */
  grant(node: EdgeNode): TunnelGrant {
    const key = keyOf(node);
    if (!wantsTunnel(node)) {
      this.forget(key);
      return {};
    }
    if (!this.#tunnels) return { problem: { reason: 'TunnelNotConfigured', message: NO_TUNNEL_SERVER } };
    const { settings, server } = this.#tunnels;
    const port = this.#reserve(key, node, settings.ports);
    if (port === undefined) {
      const { first, last } = settings.ports;
      const message = `all ports from ${first} to ${last} belong to tunnels of other nodes; close one, or widen TUNNEL_PORT_RANGE`;
      return { problem: { reason: 'TunnelPortsUsedUp', message } };
    }
    const found = server();
    return { port, ...('problem' in found && { problem: { reason: 'TunnelNotConfigured', message: found.problem } }) };
  }

  /** A node was deleted, or no longer needs its port. */
  forget(key: string): void {
    const port = this.#portOf.get(key);
    this.#portOf.delete(key);
    if (port !== undefined) this.#reserved.delete(port);
  }

  /** The keys of further nodes that a change concerns: those with the same port, and those that wait for a port that is free now. */
  affected({ type, object, previous }: Change<EdgeNode>): string[] {
    const had = tunnelPortOf(type === 'delete' ? object : (previous ?? object));
    const has = type === 'delete' ? undefined : tunnelPortOf(object);
    const owners = has === undefined || has === had ? [] : this.#nodes.byIndex('tunnelPort', String(has));
    // A former leader gave it away with its last write.
    const same = owners.length > 1 ? owners : [];
    const waiting = had !== undefined && had !== has ? this.#nodes.byIndex('tunnel', 'waiting').slice(0, NEXT) : [];
    return [...same, ...waiting].map(keyOf);
  }

  #reserve(key: string, node: EdgeNode, ports: TunnelSettings['ports']): number | undefined {
    const port = chooseTunnelPort(node, ports, {
      owners: (one) => this.#nodes.byIndex('tunnelPort', String(one)),
      isReserved: (one) => (this.#reserved.get(one) ?? key) !== key,
    });
    this.forget(key);
    if (port !== undefined && tunnelPortOf(node) !== port) {
      this.#reserved.set(port, key);
      this.#portOf.set(key, port);
    }
    return port;
  }
}
