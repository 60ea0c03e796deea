import type { Container } from '../../agent/src/domain/container.ts';
import { type ContainerSpec, type Engine, EngineError } from '../../agent/src/domain/engine.ts';
import { LABEL_REBUILD_COUNT } from '../../agent/src/domain/names.ts';
import { cleanUp } from '../../agent/src/engines/_contract.ts';
import { DockerEngine } from '../../agent/src/engines/docker/engine.ts';
import { MemoryEngine } from '../../agent/src/engines/memory/engine.ts';
import { callEngine } from '../../hack/engine-api.ts';
import { CONTAINER_LABELS } from '../../src/api/names.ts';
import type { EngineRecord } from './history.ts';

/**
 * The container engine of one machine. It lives with the runner, so that it outlives the agent; the agent's process
 * speaks to it by messages. Whatever has an effect is recorded here, by whomever it was done.
 */
export interface EngineHost {
  /** Carries out what an agent's process asks; resolves with the answer, or never when that process dies of it. */
  call(method: EngineMethod, args: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  events(signal: AbortSignal): AsyncIterable<unknown>;
  /** What the agent said that it would do next, and why. */
  announce(step: string, subject: string, reason: string): void;
  /** The next so-many-th operation with an effect is the agent's last. */
  killAtStep(steps: number, when: 'before' | 'after'): void;
  /** The next operations with an effect fail, or only seem to. */
  fail(count: number, when: 'before' | 'after'): void;
  /** Ends as a crash of the engine does: nothing answers, and once it is back all its containers have ended. */
  down(): void;
  up(): void;
  /** Ends a container, or removes it, behind the agent's back; undefined when none runs. */
  disturb(what: 'exit' | 'vanish', which: number): Promise<string | undefined>;
  /** No more faults. */
  heal(): void;
  containers(): Promise<Container[]>;
  /** Leaves nothing behind on an engine that others use; it has only so many networks to give. */
  leave(): Promise<void>;
  /** How often something has had an effect. */
  readonly effects: number;
}

/** A real engine may take so long to end a container, and to tell of it in its list. */
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
  /** URL of a real docker; in memory when absent */
  dockerUrl?: string;
  record(entry: Omit<EngineRecord, 'at' | 'node'>): void;
  /** ends the agent's process at once */
  killAgent(): void;
  /** the colour of an image reference */
  colourOf(reference: string): string;
}

/** A look repeats what the last one showed many times a second; so often it is recorded. */
const LOOK_EVERY = 500;

export function createEngineHost(options: EngineHostOptions): EngineHost {
  const { record, killAgent } = options;
  let engine: Engine | undefined;
  let dies: { steps: number; when: 'before' | 'after' } | undefined;
  let fails: { count: number; when: 'before' | 'after' } | undefined;
  let isDown = false;
  let outage = new AbortController();
  let effects = 0;
  /** containers as the record has them */
  const boxes = new Map<string, { uuid: string; running: boolean; lastSeen: number; dying?: boolean }>();
  const reasons = new Map<string, string>();

  const memory = () => engine as MemoryEngine;
  const tell = (id: string, entry: { what: EngineRecord['what'] } & Record<string, unknown>) =>
    record({ ...entry, id, uuid: boxes.get(id)?.uuid ?? '' } as never);

  function open(instance: string): void {
    engine ??= options.dockerUrl
      ? new DockerEngine({ url: options.dockerUrl, instance })
      : new MemoryEngine({ anyImage: true });
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
      if (options.dockerUrl) {
        // Written down before it is done, since the agent is quick; whoever looks meanwhile still sees it run.
        box.dying = true;
        setTimeout(forget, DYING).unref();
        const path = `/containers/${id}`;
        if (what === 'vanish') await callEngine(options.dockerUrl, 'DELETE', `${path}?force=true`);
        else await callEngine(options.dockerUrl, 'POST', `${path}/kill`);
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
