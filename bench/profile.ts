import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from '../hack/wait.ts';

/** A profile as the inspector protocol has it. */
export interface Profile {
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string; lineNumber: number };
    children?: number[];
  }[];
  samples: number[];
  timeDeltas: number[];
}

/** A function by where it stands, and the share of busy time that it took. */
export interface HotSpot {
  name: string;
  /** file:line, relative to the repository where it is in it */
  place: string;
  /** share of busy time in the function itself, and with all that it called */
  self: number;
  total: number;
}

/** What --profile adds to NODE_OPTIONS of processes: two of them would want the same port for their inspectors. */
export const INSPECTABLE = '--inspect-port=0';

/** Profiles another process of Node while `work` runs; `log` is the file that it says things to. */
export async function profile<T>(
  { pid, log }: { pid: number; log: string },
  work: () => Promise<T>,
): Promise<{ value: T; profile: Profile }> {
  const url = await openInspector(pid, log);
  const socket = new WebSocket(url);
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true });
    socket.addEventListener('error', () => reject(new Error(`no inspector at ${url}`)), { once: true });
  });
  const call = caller(socket);
  try {
    await call('Profiler.enable');
    await call('Profiler.setSamplingInterval', { interval: 200 });
    await call('Profiler.start');
    const value = await work();
    const { profile } = (await call('Profiler.stop')) as { profile: Profile };
    return { value, profile };
  } finally {
    socket.close();
  }
}

/** The functions that took most, by themselves; what the process did while it waited is left out. */
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
      // A function that calls itself is on the stack twice.
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

async function openInspector(pid: number, log: string): Promise<string> {
  process.kill(pid, 'SIGUSR1');
  await sleep(100);
  return waitFor(() => [...readFileSync(log, 'utf8').matchAll(/Debugger listening on (ws:\S+)/g)].at(-1)?.[1], {
    what: 'the inspector to listen',
    timeoutMs: 5_000,
  });
}

type Call = (method: string, params?: object) => Promise<unknown>;

function caller(socket: WebSocket): Call {
  let last = 0;
  const open = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  socket.addEventListener('message', ({ data }) => {
    const { id, result, error } = JSON.parse(String(data));
    if (error) open.get(id)?.reject(new Error(error.message));
    else open.get(id)?.resolve(result);
    open.delete(id);
  });
  return (method, params = {}) =>
    new Promise((resolve, reject) => {
      const id = ++last;
      open.set(id, { resolve, reject });
      socket.send(JSON.stringify({ id, method, params }));
    });
}
