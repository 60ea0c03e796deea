import type { Server } from 'node:https';
import { sleep } from '../../../../src/lib/clock.ts';
import { errorText } from '../../machine/log.ts';
import { listenOnBridge, type ServerDependencies } from './server.ts';

/** How often the address is looked at, ms: an engine may remove its bridge with the last container. */
const LOOK_EVERY = 5_000;

export interface BridgeOptions {
  port: number;
  certificate: { cert: string; key: string };
  /** the machine as its containers see it; undefined while there is no network */
  address(): string | undefined;
}

/** Serves the local API to containers for as long as the signal does not fire. Not being able to is a warning. */
export async function serveBridge(
  { port, certificate, address }: BridgeOptions,
  deps: ServerDependencies,
  signal: AbortSignal,
): Promise<void> {
  let open: { address: string; server: Server } | undefined;
  let told = '';
  for (; !signal.aborted; await sleep(LOOK_EVERY, signal, deps.clock)) {
    const wanted = address();
    if (wanted === undefined || wanted === open?.address) continue;
    try {
      const server = await listenOnBridge(wanted, port, certificate, deps);
      close(open?.server);
      open = { address: wanted, server };
      told = '';
    } catch (error) {
      const text = errorText(error);
      if (text !== told)
        deps.log.warn({ address: wanted, port, error: text }, 'Cannot serve the local API to containers');
      told = text;
    }
  }
  close(open?.server);
}

function close(server: Server | undefined): void {
  server?.close();
  server?.closeAllConnections();
}
