import { callEngine } from '../../hack/engine-api.ts';
import { CONTAINER_LABELS } from '../../src/api/names.ts';
import { until } from './engines/_contract.ts';
import type { TestEngine } from './engines/_outside.ts';
import { Containerd } from './engines/embedded/client.ts';
import { seenEvents } from './engines/embedded/events.ts';
import { ContainerRecords } from './engines/embedded/record.ts';
import { CONTAINER_STATES, CRI } from './engines/embedded/wire/cri.ts';
import { lines, open } from './machine/http.ts';

/** A start or an end of a container, as the engine itself reports it. */
interface RunEvent {
  isStart: boolean;
  container: string;
  uuid: string;
}

/** How an engine is asked for starts and ends. */
interface RunEvents {
  follow(take: (event: RunEvent) => void, signal: AbortSignal): Promise<void>;
  /** Waits until all that has happened was taken. */
  catchUp(take: (event: RunEvent) => void, running: () => string[]): Promise<void>;
}

/**
 * What the engine itself reports of these microservices: how often each was started, and whether two containers of one ran
 * at once. Other tests use the same engine, and some of them make doubles on purpose.
 */
export class EngineObserver {
  /** starts by microservice since the last `forget` */
  readonly starts = new Map<string, number>();
  /** containers of one microservice that ran at once: `<uuid>: <container> and <container>` */
  readonly doubles: string[] = [];
  readonly #uuids: ReadonlySet<string>;
  readonly #running = new Map<string, Set<string>>();
  readonly #closed = new AbortController();
  readonly #events: RunEvents;

  constructor({ kind, url }: TestEngine, uuids: readonly string[]) {
    this.#uuids = new Set(uuids);
    this.#events = kind === 'embedded' ? containerdEvents(url, this.#uuids) : dockerEvents(url);
    this.#events.follow(this.#take, this.#closed.signal).catch((error: unknown) => {
      if (!this.#closed.signal.aborted) this.doubles.push(`no events: ${error}`);
    });
  }

  /** Waits until everything that has happened is known. */
  async read(): Promise<this> {
    await this.#events.catchUp(this.#take, () => [...this.#running.values()].flatMap((each) => [...each]));
    return this;
  }

  close(): void {
    this.#closed.abort();
  }

  readonly #take = ({ isStart, container, uuid }: RunEvent): void => {
    if (!this.#uuids.has(uuid)) return;
    const running = this.#running.get(uuid) ?? new Set();
    this.#running.set(uuid, running);
    if (!isStart) running.delete(container);
    else {
      for (const other of running) this.doubles.push(`${uuid}: ${container.slice(0, 12)} and ${other.slice(0, 12)}`);
      running.add(container);
      this.starts.set(uuid, (this.starts.get(uuid) ?? 0) + 1);
    }
  };

  forget(): void {
    this.starts.clear();
  }
}

const FILTERS = JSON.stringify({ type: ['container'], event: ['start', 'die'] });

/** docker and podman: events that the stream has not brought yet are asked for. */
function dockerEvents(url: string): RunEvents {
  const seen = new Set<string>();
  const takeLine = (line: string, take: (event: RunEvent) => void) => {
    const { Action, Actor, timeNano } = JSON.parse(line) as {
      Action: string;
      timeNano: number;
      Actor: { ID: string; Attributes: Record<string, string> };
    };
    const key = `${Actor.ID} ${Action} ${timeNano}`;
    if (seen.has(key)) return;
    seen.add(key);
    const uuid = Actor.Attributes[CONTAINER_LABELS.uuid] ?? '';
    take({ isStart: Action !== 'die', container: Actor.ID, uuid });
  };
  return {
    async follow(take, signal) {
      const target = { socketPath: url.replace('unix://', '') };
      const path = `/events?${new URLSearchParams({ filters: FILTERS })}`;
      const incoming = await open({ target, method: 'GET', path, deadline: 30_000, signal });
      for await (const line of lines(incoming, 1024 * 1024)) takeLine(line, take);
    },
    async catchUp(take) {
      const now = Date.now() / 1000;
      const query = new URLSearchParams({ since: String(now - 5), until: String(now), filters: FILTERS });
      const answer = await callEngine(url, 'GET', `/events?${query}`);
      const events = typeof answer === 'string' ? answer.split('\n').filter(Boolean) : [JSON.stringify(answer)];
      for (const line of events) takeLine(line, take);
    },
  };
}

/**
 * The agent's own engine keeps no events: the stream is complete once it has brought what runs now. CRI gives each run of a container an id.
 */
function containerdEvents(url: string, uuids: ReadonlySet<string>): RunEvents {
  const containerd = new Containerd(url);
  const records = new ContainerRecords(containerd);
  const uuidOf = new Map<string, string>();
  const learn = async () => {
    for (const { run, spec } of await records.list())
      if (run.containerId) uuidOf.set(run.containerId, spec.labels[CONTAINER_LABELS.uuid] ?? '');
  };
  const runningNow = async () => {
    await learn();
    const { containers } = await containerd.call(CRI.listContainers, {});
    return containers
      .filter(({ id, state }) => state === CONTAINER_STATES.running && uuids.has(uuidOf.get(id) ?? ''))
      .map(({ id }) => id);
  };
  const ready = Promise.withResolvers<void>();
  return {
    async follow(take, signal) {
      for await (const { id, action } of seenEvents(containerd, signal)) {
        if (action === 'connected') {
          for (const container of await runningNow())
            take({ isStart: true, container, uuid: uuidOf.get(container) ?? '' });
          ready.resolve();
        }
        if (action !== 'start' && action !== 'die') continue;
        if (!uuidOf.has(id)) await learn();
        take({ isStart: action === 'start', container: id, uuid: uuidOf.get(id) ?? '' });
      }
    },
    async catchUp(_take, running) {
      await ready.promise;
      await until('the events of what runs', async () => {
        const [seen, now] = [running().sort(), (await runningNow()).sort()];
        return JSON.stringify(seen) === JSON.stringify(now);
      });
    },
  };
}
