import { readFileSync } from 'node:fs';
import { waitFor } from '../hack/wait.ts';

/** A profile in the form of the inspector protocol. */
export interface Profile {
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string; lineNumber: number };
    children?: number[];
  }[];
  samples: number[];
  timeDeltas: number[];
}

/** A function with its place in the source, and its share of the busy time. */
export interface HotSpot {
  name: string;
  /** file:line, relative to the repository if it is part of it */
  place: string;
  /** share of busy time in the function itself, and with all that it called */
  self: number;
  total: number;
}

/** NODE_OPTIONS of processes that may be inspected: any free port, since the default port can have only one inspector. */
export const INSPECTABLE = '--inspect-port=0';

/** A Node process that can be inspected; `log` is the file of its output. */
export interface Inspected {
  pid: number;
  log: string;
}

/** Profiles another Node process while `work` runs. */
export async function profile<T>(target: Inspected, work: () => Promise<T>): Promise<{ value: T; profile: Profile }> {
  using inspector = await connect(target);
  await inspector.call('Profiler.enable');
  await inspector.call('Profiler.setSamplingInterval', { interval: 200 });
  await inspector.call('Profiler.start');
  const value = await work();
  const { profile } = (await inspector.call('Profiler.stop')) as { profile: Profile };
  return { value, profile };
}

/** Bytes of live JavaScript objects of another Node process, after a full garbage collection. */
export async function liveHeap(target: Inspected): Promise<number> {
  using inspector = await connect(target);
  await inspector.call('HeapProfiler.enable');
  await inspector.call('HeapProfiler.collectGarbage');
  const { usedSize } = (await inspector.call('Runtime.getHeapUsage')) as { usedSize: number };
  return usedSize;
}

/** The longest time for which the event loop of another Node process did not turn while `work` ran; ms. */
export async function longestBlock(target: Inspected, work: () => Promise<unknown>): Promise<number> {
  using inspector = await connect(target);
  const evaluate = async (expression: string) => {
    const { result } = (await inspector.call('Runtime.evaluate', { expression })) as { result: { value?: unknown } };
    return result.value;
  };
  const perfHooks = `process.getBuiltinModule('node:perf_hooks')`;
  await evaluate(`(globalThis.loopDelay = ${perfHooks}.monitorEventLoopDelay({ resolution: 1 })).enable()`);
  await work();
  return Number(await evaluate('loopDelay.disable(), loopDelay.max')) / 1e6;
}

/** The functions with the most self time; idle time is left out. */
export function hotSpots({ nodes, samples, timeDeltas }: Profile, root: string): HotSpot[] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const spots = new Map<string, HotSpot>();
  let busy = 0;
  for (const [i, sample] of samples.entries()) {
    const node = byId.get(sample);
    const time = Math.max(0, timeDeltas[i] ?? 0);
    if (!node || IDLE.has(node.callFrame.functionName)) continue;
    busy += time;
    const seen = new Set<string>();
    for (let id: number | undefined = sample; id !== undefined; id = parents.get(id)) {
      const { callFrame } = byId.get(id) as Profile['nodes'][number];
      const name = callFrame.functionName || '(anonymous)';
      if (name === '(root)') break;
      const place = callFrame.url ? `${placeOf(callFrame.url, root)}:${callFrame.lineNumber + 1}` : 'native';
      const key = `${name} ${place}`;
      const spot = spots.get(key) ?? { name, place, self: 0, total: 0 };
      spots.set(key, spot);
      if (id === sample) spot.self += time;
      // A recursive function is on the stack twice.
      if (!seen.has(key)) spot.total += time;
      seen.add(key);
    }
  }
  return [...spots.values()]
    .map((spot) => ({ ...spot, self: spot.self / busy, total: spot.total / busy }))
    .sort((a, b) => b.self - a.self);
}

const IDLE: ReadonlySet<string> = new Set(['(idle)', '(program)', '(root)']);

function placeOf(url: string, root: string): string {
  const path = url.replace(/^file:\/\//, '');
  return path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
}

interface Inspector extends Disposable {
  call(method: string, params?: object): Promise<unknown>;
}

/** Node opens its inspector on a signal; it then stays open. */
async function connect({ pid, log }: Inspected): Promise<Inspector> {
  const listening = () => [...readFileSync(log, 'utf8').matchAll(/Debugger listening on (ws:\S+)/g)].at(-1)?.[1];
  const earlier = listening();
  const opened = earlier && (await openSocket(earlier));
  if (opened) return inspectorOn(opened);
  process.kill(pid, 'SIGUSR1');
  const url = await waitFor(() => (listening() === earlier ? undefined : listening()), {
    what: 'the inspector to listen',
    timeoutMs: 5_000,
  });
  const socket = await openSocket(url);
  if (!socket) throw new Error(`no inspector answers at ${url}`);
  return inspectorOn(socket);
}

/** Undefined when no inspector answers: the URL in the log may belong to a process that has ended. */
function openSocket(url: string): Promise<WebSocket | undefined> {
  const socket = new WebSocket(url);
  return new Promise((resolve) => {
    socket.addEventListener('open', () => resolve(socket), { once: true });
    socket.addEventListener('error', () => resolve(undefined), { once: true });
  });
}

function inspectorOn(socket: WebSocket): Inspector {
  let last = 0;
  const open = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  socket.addEventListener('message', ({ data }) => {
    const { id, result, error } = JSON.parse(String(data));
    if (error) open.get(id)?.reject(new Error(error.message));
    else open.get(id)?.resolve(result);
    open.delete(id);
  });
  socket.addEventListener('close', () => {
    for (const { reject } of open.values()) reject(new Error('the inspected process has gone'));
  });
  return {
    call(method, params = {}) {
      return new Promise((resolve, reject) => {
        const id = ++last;
        open.set(id, { resolve, reject });
        socket.send(JSON.stringify({ id, method, params }));
      });
    },
    [Symbol.dispose]: () => socket.close(),
  };
}
