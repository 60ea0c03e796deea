import { freePort } from './ports.ts';
import { startDaemon } from './process.ts';
import type { Log } from './progress.ts';
import { buildTool } from './tool.ts';
import { waitFor } from './wait.ts';

/** What a proxy does to the bytes that pass. Times in milliseconds; `rate` in kB/s; `bytes` per connection. */
type Toxic =
  | { type: 'latency'; attributes: { latency: number; jitter?: number } }
  | { type: 'bandwidth'; attributes: { rate: number } }
  | { type: 'slicer'; attributes: { average_size: number; size_variation?: number; delay?: number } }
  | { type: 'limit_data'; attributes: { bytes: number } }
  /** with 0 no data passes and no connection is closed */
  | { type: 'timeout'; attributes: { timeout: number } }
  | { type: 'reset_peer'; attributes: { timeout: number } };

/** A proxy of one server that can inject faults. */
export interface FaultyProxy {
  /** `host:port` on which it listens */
  readonly address: string;
  /** Upstream is towards the server, downstream towards the client; both by default. */
  add(toxic: Toxic, streams?: readonly ('upstream' | 'downstream')[]): Promise<void>;
  /** Removes all toxics. */
  heal(): Promise<void>;
  /** When false, connections are closed and new ones refused. */
  enable(on: boolean): Promise<void>;
}

export interface Toxiproxy extends AsyncDisposable {
  /** `upstream`: host:port; `host` and `port`: where to listen, by default loopback and a free port. */
  proxy(name: string, upstream: string, host?: string, port?: number): Promise<FaultyProxy>;
}

export interface ToxiproxyOptions {
  /** Folder of its log. */
  dir: string;
  log?: Log;
}

/** Starts a toxiproxy (https://github.com/Shopify/toxiproxy), built from its pinned Go module. */
export async function startToxiproxy({ dir, log }: ToxiproxyOptions): Promise<Toxiproxy> {
  const command = await buildTool('toxiproxy', 'github.com/Shopify/toxiproxy/v2/cmd/server', { log });
  const port = await freePort();
  const daemon = await startDaemon({
    name: `toxiproxy-${port}`,
    dir,
    command,
    args: ['-host', '127.0.0.1', '-port', String(port)],
    env: { ...process.env, LOG_LEVEL: 'warn' },
  });

  async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(10_000),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`toxiproxy: ${method} ${path}: ${response.status} ${text.trim()}`);
    return (text ? JSON.parse(text) : undefined) as T;
  }
  const answers = async () => {
    daemon.assertRunning();
    await call('GET', '/version').catch(() => call('GET', '/proxies'));
    return true;
  };
  try {
    await waitFor(answers, { what: 'toxiproxy to answer', timeoutMs: 15_000 });
  } catch (error) {
    await daemon.stop();
    throw error;
  }

  return {
    async proxy(name, upstream, host = '127.0.0.1', port = 0) {
      const { listen } = await call<{ listen: string }>('POST', '/proxies', {
        name,
        listen: `${host}:${port}`,
        upstream,
        enabled: true,
      });
      return {
        address: listen,
        async add(toxic, streams = ['upstream', 'downstream']) {
          for (const stream of streams)
            await call('POST', `/proxies/${name}/toxics`, { ...toxic, name: `${toxic.type}-${stream}`, stream });
        },
        async heal() {
          const toxics = await call<{ name: string }[]>('GET', `/proxies/${name}/toxics`);
          for (const toxic of toxics) await call('DELETE', `/proxies/${name}/toxics/${toxic.name}`);
        },
        enable: (enabled) => call('POST', `/proxies/${name}`, { listen, upstream, enabled }),
      };
    },
    [Symbol.asyncDispose]: () => daemon.stop(),
  };
}
