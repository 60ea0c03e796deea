import { sleep } from '../../../../src/lib/clock.ts';
import { errorText } from '../../machine/log.ts';
import { type BridgeServer, listenOnBridge, type ServerCertificates, type ServerDependencies } from './server.ts';

/** How often the address is looked at, ms: an engine may remove its bridge with the last container. */
const LOOK_EVERY = 5_000;

export interface BridgeOptions {
  port: number;
  certificates: ServerCertificates;
  /** the machine as its containers see it; undefined while there is no network */
  address(): string | undefined;
}

/** Serves the local API to containers for as long as the signal does not fire. Not being able to is a warning. */
export async function serveBridge(
  { port, certificates, address }: BridgeOptions,
  deps: ServerDependencies,
  signal: AbortSignal,
): Promise<void> {
  let open: { address: string; server: BridgeServer } | undefined;
  let told = '';
  for (; !signal.aborted; await sleep(LOOK_EVERY, signal, deps.clock)) {
    const wanted = address();
    if (wanted === open?.address) open?.server.renew();
    if (wanted === undefined || wanted === open?.address) continue;
    try {
      const server = await listenOnBridge(wanted, port, certificates, deps);
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

function close(open: BridgeServer | undefined): void {
  open?.server.close();
  open?.server.closeAllConnections();
}
