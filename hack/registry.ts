import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findTools } from './binaries.ts';
import { freePort } from './ports.ts';
import { startDaemon, stopLeftovers } from './process.ts';
import type { Log } from './progress.ts';
import { waitFor } from './wait.ts';

export interface RegistryOptions {
  /** Keeps images, configuration and log. */
  dir: string;
  /** A free one when absent. */
  port?: number;
  log?: Log;
}

/** An image registry on loopback; engines trust 127.0.0.0/8 without TLS. */
export interface Registry extends AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** `127.0.0.1:<port>`, the first part of image references. */
  readonly host: string;
  stop(): Promise<void>;
}

/** Starts the distribution registry with its storage in `dir`. */
export async function startRegistry({ dir, port, log = () => {} }: RegistryOptions): Promise<Registry> {
  const { registry } = await findTools(['registry'], { log });
  await stopLeftovers(dir);
  const host = `127.0.0.1:${port ?? (await freePort())}`;
  const config = {
    version: 0.1,
    log: { level: 'warn', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(dir, 'images') }, delete: { enabled: true } },
    http: { addr: host },
  };
  const file = join(dir, 'config.yaml');
  mkdirSync(dir, { recursive: true });
  writeFileSync(file, JSON.stringify(config, undefined, 2));
  const daemon = await startDaemon({ name: 'registry', dir, command: registry, args: ['serve', file] });

  const url = `http://${host}`;
  const ready = async () => {
    daemon.assertRunning();
    return (await fetch(`${url}/v2/`)).ok;
  };
  const stop = () => daemon.stop();
  try {
    await waitFor(ready, { what: 'the registry to answer', timeoutMs: 15_000 });
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, host, stop, [Symbol.asyncDispose]: stop };
}
