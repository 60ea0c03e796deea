import { request } from 'node:http';

/** The start times of containers, from the engine's events. */
export interface ContainerStarts extends Disposable {
  /** performance.now() when the next container with this label starts. To be called before the container can start. */
  next(label: string, value: string, timeoutMs: number): Promise<number>;
}

interface Event {
  Action?: string;
  Actor?: { Attributes?: Record<string, string> };
}

/** Listens to an engine's events until disposed of. */
export async function watchStarts(engineUrl: string): Promise<ContainerStarts> {
  const waiting = new Set<(event: Event, at: number) => void>();
  const filters = encodeURIComponent(JSON.stringify({ type: ['container'], event: ['start'] }));
  const target = engineUrl.startsWith('unix://')
    ? { socketPath: engineUrl.slice('unix://'.length) }
    : { host: new URL(engineUrl).hostname, port: new URL(engineUrl).port };
  const outgoing = request({ ...target, path: `/v1.41/events?filters=${filters}` });
  await new Promise<void>((resolve, reject) => {
    outgoing.once('error', reject);
    outgoing.once('response', (incoming) => {
      let rest = '';
      incoming.setEncoding('utf8').on('data', (piece: string) => {
        const at = performance.now();
        const lines = (rest + piece).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines.filter(Boolean)) for (const tell of [...waiting]) tell(JSON.parse(line), at);
      });
      incoming.on('error', () => {});
      resolve();
    });
    outgoing.end();
  });
  outgoing.on('error', () => {});

  return {
    next(label, value, timeoutMs) {
      return new Promise((resolve, reject) => {
        const tell = ({ Action, Actor }: Event, at: number) => {
          if (Action !== 'start' || Actor?.Attributes?.[label] !== value) return;
          end();
          resolve(at);
        };
        const timer = setTimeout(() => {
          end();
          reject(new Error(`no container with ${label}=${value} started within ${timeoutMs / 1000} s`));
        }, timeoutMs);
        const end = () => {
          clearTimeout(timer);
          waiting.delete(tell);
        };
        waiting.add(tell);
      });
    },
    [Symbol.dispose]: () => void outgoing.destroy(),
  };
}
