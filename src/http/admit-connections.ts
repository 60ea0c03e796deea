import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../lib/clock.ts';
import { clientAddress } from './client-address.ts';
import {
  type ConnectionLimits,
  type ConnectionMetrics,
  type ConnectionPlace,
  createConnections,
} from './connections.ts';

export interface AdmittedConnections {
  /** A request on this connection was authenticated. Does nothing for a connection that is closed. */
  authenticated(socket: Socket, caller: string): void;
}

/** Ends connections of a server as its limits ask. Call it before the server listens. */
export function admitConnections(
  server: Server,
  { limits, ...options }: { limits: ConnectionLimits; clock: Pick<Clock, 'now'>; metrics?: ConnectionMetrics },
): AdmittedConnections {
  const connections = createConnections(limits, options);
  /** by the other end: the socket of a TLS request is another object than that of its connection */
  const places = new Map<string, ConnectionPlace>();

  server.on('connection', (socket: Socket) => {
    const place = connections.take(clientAddress(socket.remoteAddress), () => socket.destroy());
    if (!place) {
      socket.destroy();
      return;
    }
    const key = otherEnd(socket);
    places.set(key, place);
    socket.once('close', () => {
      place.leave();
      if (places.get(key) === place) places.delete(key);
    });
  });
  return { authenticated: (socket, caller) => places.get(otherEnd(socket))?.authenticated(caller) };
}

const otherEnd = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;
