import { LABEL_REBUILD_COUNT } from '../../agent/src/domain/names.ts';
import type { Container } from '../../agent/src/engine-port/container.ts';
import type { ContainerSpec } from '../../agent/src/engine-port/container-spec.ts';
import type { Engine } from '../../agent/src/engine-port/engine.ts';
import { EngineError } from '../../agent/src/engine-port/error.ts';
import { cleanUp } from '../../agent/src/engines/_contract.ts';
import { openTestEngine, outsideOf, type TestEngine } from '../../agent/src/engines/_outside.ts';
import { MemoryEngine } from '../../agent/src/engines/memory/_engine.ts';
import { CONTAINER_LABELS } from '../../src/api/names.ts';
import type { EngineRecord } from './history.ts';

/**
 * The container engine of one machine. It is part of the runner's process, so that it outlives the agent, whose process
 * exchanges messages with it. Every operation with an effect is recorded here, whoever requested it.
 */
export interface EngineHost {
  /** Carries out a call of an agent's process; resolves with the result, or never when the call kills that process. */
  call(method: EngineMethod, args: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  events(signal: AbortSignal): AsyncIterable<unknown>;
  /** Notes which step the agent announced, and its reason. */
  announce(step: string, subject: string, reason: string): void;
  /** Kills the agent before or after the n-th next operation with an effect. */
  killAtStep(steps: number, when: 'before' | 'after'): void;
  /** Makes the next operations with an effect fail, or only appear to fail. */
  fail(count: number, when: 'before' | 'after'): void;
  /** Simulates a crash of the engine: it does not answer, and once it is back all its containers have ended. */
  down(): void;
  up(): void;
  /** Ends or removes a container without the agent; undefined when none runs. */
  disturb(what: 'exit' | 'vanish', which: number): Promise<string | undefined>;
  /** Ends all faults. */
  heal(): void;
  containers(): Promise<Container[]>;
  /** Removes everything from an engine that others share; the number of its networks is limited. */
  leave(): Promise<void>;
  /** Number of operations with an effect. */
  readonly effects: number;
}

/** The time that a real engine may take to end a container and to show that in its list. */
const DYING = 10_000;

const MUTATING = ['pull', 'ensureNetwork', 'create', 'start', 'stop', 'kill', 'rename', 'remove'] as const;
const LOOKING = [
  'connect',
  'containers',
  'network',
  'image',
  'removeImage',
  'removeNetwork',
  'checkHealth',
  'tag',
  'imageNames',
  'resume',
] as const;
export type EngineMethod = (typeof MUTATING)[number] | (typeof LOOKING)[number];
const isMutating = (method: EngineMethod) => (MUTATING as readonly string[]).includes(method);

export interface EngineHostOptions {
  node: string;
  /** in memory when absent */
  real?: TestEngine;
  record(entry: Omit<EngineRecord, 'at' | 'node'>): void;
  /** ends the agent's process at once */
  killAgent(): void;
  /** the colour that stands for an image reference */
  colourOf(reference: string): string;
}

/** The agent lists containers many times a second; the same observation is recorded once in this time. */
const LOOK_EVERY = 500;

export function createEngineHost(options: EngineHostOptions): EngineHost {
  const { record, killAgent, real } = options;
  const outside = real && outsideOf(real);
  let engine: Engine | undefined;
  let dies: { steps: number; when: 'before' | 'after' } | undefined;
  let fails: { count: number; when: 'before' | 'after' } | undefined;
  let isDown = false;
  let outage = new AbortController();
  let effects = 0;
  /** containers that are recorded */
  const boxes = new Map<string, { uuid: string; running: boolean; lastSeen: number; dying?: boolean }>();
  const reasons = new Map<string, string>();

  const memory = () => engine as MemoryEngine;
  const tell = (id: string, entry: { what: EngineRecord['what'] } & Record<string, unknown>) =>
    record({ ...entry, id, uuid: boxes.get(id)?.uuid ?? '' } as never);

  function open(instance: string): void {
    engine ??= real ? openTestEngine(real, instance) : new MemoryEngine({ anyImage: true });
  }

  async function act(method: EngineMethod, args: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const target = engine as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>;
    const answer = await target[method]?.(...args, signal);
    noteEffect(method, args, answer);
    if (method === 'containers') noteLook(answer as Container[]);
    return answer;
  }

  function noteEffect(method: EngineMethod, args: readonly unknown[], answer: unknown): void {
    const id = String(args[0]);
    const box = boxes.get(id);
    if (method === 'create') {
      const { labels, env, image, name } = args[0] as ContainerSpec;
      const made = (answer as { id: string }).id;
      boxes.set(made, { uuid: labels[CONTAINER_LABELS.uuid] ?? '', running: false, lastSeen: 0 });
      tell(made, {
        what: 'create',
        value: env.find((each) => each.startsWith('VALUE='))?.slice('VALUE='.length) ?? '',
        image: options.colourOf(image),
        rebuild: Number(labels[LABEL_REBUILD_COUNT] ?? 0),
        reason: reasons.get(`create ${name}`),
      });
    }
    const reason = reasons.get(`${method} ${id.slice(0, 12)}`);
    if (method === 'start' && box && !box.running) {
      box.running = true;
      box.lastSeen = 0;
      tell(id, { what: 'start', reason });
    }
    if ((method === 'stop' || method === 'kill') && box?.running) {
      box.running = false;
      tell(id, { what: 'stop', reason });
    }
    if (method === 'remove' && box) {
      tell(id, { what: 'remove', reason });
      boxes.delete(id);
    }
    if (method === 'create' || method === 'start' || method === 'stop' || method === 'remove') effects++;
  }

  function noteLook(seen: readonly Container[]): void {
    const now = performance.now();
    for (const { id, state } of seen) {
      const box = boxes.get(id);
      if (!box || state !== 'running' || !(box.running || box.dying) || now - box.lastSeen < LOOK_EVERY) continue;
      box.lastSeen = now;
      tell(id, { what: 'seen' });
    }
  }

  const hang = () => new Promise<never>(() => {});

  return {
    async call(method, args, signal) {
      if (method === 'connect') open(String(args[0]));
      if (isDown || !engine) throw new EngineError('Unavailable', 'the engine does not answer');
      const given = method === 'connect' ? [] : args;
      if (!isMutating(method)) return act(method, given, signal);
      if (dies && --dies.steps > 0) return act(method, given, signal);
      if (dies?.when === 'before') {
        dies = undefined;
        killAgent();
        return hang();
      }
      const failing = fails && fails.count-- > 0 ? fails.when : undefined;
      if (failing === 'before') throw new EngineError('Failed', 'made to fail');
      const answer = await act(method, given, signal);
      if (dies) {
        dies = undefined;
        killAgent();
        return hang();
      }
      if (failing === 'after') throw new EngineError('Failed', 'made to seem to fail');
      return answer;
    },
    async *events(signal) {
      if (isDown || !engine) throw new EngineError('Unavailable', 'the engine does not answer');
      yield* engine.events(AbortSignal.any([signal, outage.signal]));
      throw new EngineError('Unavailable', 'the engine ended the event stream');
    },
    announce: (step, subject, reason) => void reasons.set(`${step} ${subject}`, reason),
    killAtStep(steps, when) {
      dies = { steps, when };
    },
    fail(count, when) {
      fails = { count, when };
    },
    down() {
      isDown = true;
      outage.abort();
    },
    up() {
      if (!isDown) return;
      for (const [id, box] of boxes) {
        if (!box.running) continue;
        memory().exit(id, 137);
        box.running = false;
        tell(id, { what: 'exit', because: 'engine' });
      }
      outage = new AbortController();
      isDown = false;
    },
    async disturb(what, which) {
      const running = [...boxes].filter(([, box]) => box.running).map(([id]) => id);
      const id = running[which % Math.max(1, running.length)];
      const box = id === undefined ? undefined : boxes.get(id);
      if (id === undefined || !box || isDown) return undefined;
      box.running = false;
      tell(id, what === 'vanish' ? { what } : { what, because: 'fault' });
      const forget = () => {
        box.dying = false;
        if (what === 'vanish') boxes.delete(id);
      };
      if (outside) {
        // Recorded before it is done, since the agent reacts quickly; a list meanwhile still shows the container running.
        box.dying = true;
        setTimeout(forget, DYING).unref();
        if (what === 'vanish') await outside.remove(id);
        else await outside.kill(id);
      } else {
        forget();
        memory().exit(id, 1);
        if (what === 'vanish') await memory().remove(id);
      }
      return id;
    },
    heal() {
      dies = undefined;
      fails = undefined;
    },
    containers: async () => (engine ? await engine.containers() : []),
    leave: async () => {
      if (engine) await cleanUp(engine);
    },
    get effects() {
      return effects;
    },
  };
}
