import type { Server } from 'node:http';
import type { RequestHandler } from 'express';
import type { Log } from '../kube/ports.ts';
import type { Ports } from './ports.ts';

export interface RestServerOptions {
  ports: Ports;
  log?: Log;
  metrics?: RestMetrics;
  /** Check replies against their schemas; on unless NODE_ENV is `production`. */
  validateReplies?: boolean;
  /** PEM; plain HTTP when absent. */
  tls?: { key: string; cert: string };
  limits?: Partial<Limits>;
}

/** Every hook is optional and must not throw. `route` is the pattern, never the path. */
export interface RestMetrics {
  request?(labels: { method: string; route: string; status: number }, seconds: number): void;
  access?(labels: { review: 'token' | 'access'; outcome: 'allowed' | 'denied' | 'failed'; cached: boolean }): void;
}

export interface Limits {
  bodyBytes: number;
  jsonDepth: number;
  /** until a request is answered */
  requestMs: number;
  connections: number;
}

export interface RestServer extends AsyncDisposable {
  /** For other listeners of the same port, such as WebSocket upgrades. */
  readonly http: Server;
  /** Handlers asked before the routes of the facade, after request id and X-Timestamp: the agent routes. */
  mountFirst(path: string, handler: RequestHandler): void;
  listen(address: { port: number; host?: string }): Promise<{ port: number }>;
  /** Stops accepting, ends idle connections, and waits for requests under way, no longer than `graceMs`. */
  drain(graceMs: number): Promise<void>;
}

export function createRestServer(_options: RestServerOptions): RestServer {
  throw new Error('not written yet');
}
