import { whenAborted } from '../../../src/lib/aborted.ts';
import { type Clock, sleep } from '../../../src/lib/clock.ts';
import { RESPONSES } from '../../../src/wire/sections.ts';
import type { Policy } from '../domain/policy.ts';
import { can } from '../engine-port/engine.ts';
import type { StartedProgram } from '../engine-port/exec.ts';
import { delayAfterLoss } from '../link/backoff.ts';
import { type ControllerClient, ControllerError } from '../link/client.ts';
import { errorText } from '../machine/log.ts';
import { attend } from './attend.ts';
import { decide, type Listed, listedExec, listedLog } from './decide.ts';
import { LocalSessions } from './local-sessions.ts';
import { type LocalRun, type SessionContext, type SessionRun, STOPPING } from './session.ts';

const SECOND = 1000;
/** A controller without sessions is asked again after this time, at the earliest. */
const UNSERVED = 600 * SECOND;
/** While there are sessions, the list is read now and then, in case that a change was missed. */
const LOOK_EVERY = 60 * SECOND;
/** How long sessions may take to say why they end when the agent stops, and then until what they have sent is taken. */
const FAREWELL = 2 * SECOND;

export interface SessionsDependencies extends Omit<SessionContext, 'dial'> {
  /** undefined while the agent is not provisioned */
  client(): Client | undefined;
  policy(): Policy;
  /** whether a microservice belongs to the system */
  isSystem(uuid: string): boolean;
  /** whether a microservice belongs to the machine itself */
  isOwn(uuid: string): boolean;
}

type Client = Pick<ControllerClient, 'document' | 'socket'>;

interface List {
  kind: Listed['kind'];
  path: string;
  parse(list: unknown): Listed[];
}

const { 'exec/sessions': EXEC, 'logs/sessions': LOGS } = RESPONSES;

const LISTS: readonly List[] = [
  {
    kind: 'exec',
    path: EXEC.path,
    parse: (list) => EXEC.schema.parse(list).execSessions.map(listedExec),
  },
  {
    kind: 'log',
    path: LOGS.path,
    parse: (list) => LOGS.schema.parse(list).logSessions.map(listedLog),
  },
];

interface Entry {
  id: string;
  kind: Listed['kind'];
  run: SessionRun;
  isOver: boolean;
}

/**
 * The exec and log sessions of this node. Which there are is asked for when the controller says that they have changed,
 * apart from the polls; each session then has a socket of its own. Those of users on this machine need no controller.
 */
export class Sessions {
  readonly #deps: SessionsDependencies;
  readonly #entries = new Map<string, Entry>();
  /** of users on this machine */
  readonly local: LocalSessions;
  #isDue = false;
  #wake = () => {};

  constructor(deps: SessionsDependencies) {
    this.#deps = deps;
    this.local = new LocalSessions(deps, () => this.#count());
  }

  /** Sessions have begun or ended, or the controller or the policy is another. */
  changed(): void {
    this.#isDue = true;
    this.#wake();
  }

  /** Serves sessions until the signal fires, and ends them all then. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, log } = this.#deps;
    const former = this.#endFormer(signal);
    let failures = 0;
    while (!signal.aborted) {
      await this.#due(signal);
      if (signal.aborted) break;
      this.#isDue = false;
      try {
        const isServed = await this.#look(signal);
        failures = 0;
        if (!isServed) await sleep(UNSERVED, signal, clock);
      } catch (error) {
        if (signal.aborted) break;
        failures += 1;
        this.#isDue = true;
        if (failures === 1) log.warn({ error: errorText(error) }, 'The sessions of this node cannot be read');
        await sleep(delayAfterLoss(failures, random), signal, clock);
      }
    }
    const left: LocalRun[] = [...Array.from(this.#entries.values(), ({ run }) => run), ...this.local.stop()];
    const done = Promise.all([former, ...left.map((run) => run.done)]);
    for (const run of left) run.refuse(STOPPING);
    await atMost(clock, FAREWELL, done);
    for (const run of left) run.connection.end();
    await atMost(clock, FAREWELL, done);
    for (const run of left) run.connection.drop();
    // A program that an engine does not end by then is ended by the next process of the agent.
    await atMost(clock, 2 * FAREWELL, done);
  }

  /** Ends the programs whose sessions ended with an earlier process of the agent, once the engine answers. */
  async #endFormer(signal: AbortSignal): Promise<void> {
    const { engine, programs, clock, random, log } = this.#deps;
    let left: StartedProgram[];
    try {
      left = programs.left();
    } catch (error) {
      // Read later, they would be among those that run now: the next process of the agent looks again.
      return log.warn({ error: errorText(error) }, 'The programs of former sessions cannot be read');
    }
    for (let failures = 0; !signal.aborted; ) {
      try {
        const [program] = left;
        if (!program) return;
        if (can(engine, 'exec')) await engine.endProgram(program);
        programs.remove(program);
        left.shift();
        failures = 0;
        log.info({ ...program }, 'A program of a former session is over');
      } catch (error) {
        failures += 1;
        if (failures === 1) log.warn({ error: errorText(error) }, 'A program of a former session cannot be ended');
        left.push(...left.splice(0, 1));
        await sleep(delayAfterLoss(failures, random), signal, clock);
      }
    }
  }

  /** Resolves when the list is to be read. */
  async #due(signal: AbortSignal): Promise<void> {
    if (this.#isDue) return;
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    const stop = AbortSignal.any([signal, woken.signal]);
    if (this.#entries.size > 0) return sleep(LOOK_EVERY, stop, this.#deps.clock);
    await whenAborted(stop);
  }

  /** Whether the controller has such lists at all. */
  async #look(signal: AbortSignal): Promise<boolean> {
    const client = this.#deps.client();
    // Each to its end, so that no list is older than what the next look finds.
    const looks = await Promise.allSettled(LISTS.map((list) => this.#lookAt(list, client, signal)));
    for (const look of looks) if (look.status === 'rejected') throw look.reason;
    return !client || looks.some((look) => look.status === 'fulfilled' && look.value);
  }

  /** Does what one list asks for as soon as it is there: a terminal waits for no list of logs, nor for a connection for it. */
  async #lookAt(list: List, client: Client | undefined, signal: AbortSignal): Promise<boolean> {
    const askedAt = this.#deps.clock.now();
    const listed = client && (await readList(client, list, signal));
    const parts = listed?.length ? await loadParts() : undefined;
    // From here on nothing waits, since both lists count against one limit.
    const present = this.#present().filter(({ kind }) => kind === list.kind);
    const others = this.#count() - present.filter(({ isOver }) => !isOver).length;
    const decision = decide(listed ?? [], present, {
      ...{ askedAt, others, policy: this.#deps.policy() },
      isSystem: this.#deps.isSystem,
      isOwn: this.#deps.isOwn,
    });
    for (const { id, refusal } of decision.end) {
      const run = this.#entries.get(id)?.run;
      if (refusal) run?.refuse(refusal);
      else run?.connection.end();
    }
    for (const id of decision.reconnect) this.#entries.get(id)?.run.connection.reconnect();
    const ids = new Set(listed?.map(({ id }) => id));
    for (const { id, isOver } of present) if (isOver && !ids.has(id)) this.#entries.delete(id);
    for (const { session, refusal } of decision.begin) if (parts) this.#begin(session, refusal, parts);
    return listed !== undefined;
  }

  /** Sessions that are not over, those of users on this machine included. */
  #count(): number {
    return this.#present().filter(({ isOver }) => !isOver).length + this.local.size;
  }

  #present() {
    return Array.from(this.#entries.values(), ({ id, kind, isOver, run }) => ({
      ...{ id, kind, isOver },
      connectedAt: run.connection.connectedAt,
    }));
  }

  #begin(session: Listed, refusal: string | undefined, { openSocket, runExec, runLog }: Parts): void {
    const { client } = this.#deps;
    const context: SessionContext = {
      ...this.#deps,
      dial(path, listener, { isFirst }) {
        const request = client()?.socket(path, { kept: isFirst });
        if (!request) throw new Error('the agent is not provisioned');
        return openSocket(request, listener);
      },
    };
    const { id, kind } = session;
    const run = session.kind === 'exec' ? runExec(session, refusal, context) : runLog(session, refusal, context);
    const entry: Entry = { id, kind, run, isOver: false };
    this.#entries.set(id, entry);
    attend(run, this.#deps.log, { session: id, kind, refusal }, () => {
      entry.isOver = true;
      // The entry stays until the list no longer names it, so that it does not begin once more.
      this.changed();
    });
  }
}

async function atMost(clock: Clock, milliseconds: number, what: Promise<unknown>): Promise<void> {
  const waited = new AbortController();
  await Promise.race([what, sleep(milliseconds, waited.signal, clock)]);
  waited.abort();
}

/** Only an agent that has sessions loads what they need. */
async function loadParts() {
  const [{ openSocket }, { runExec }, { runLog }] = await Promise.all([
    import('../../../src/session-client/socket.ts'),
    import('./exec-session.ts'),
    import('./log-session.ts'),
  ]);
  return { openSocket, runExec, runLog };
}

type Parts = Awaited<ReturnType<typeof loadParts>>;

/** Undefined for a controller that has no such sessions. */
async function readList(client: Client, { path, parse }: List, signal: AbortSignal): Promise<Listed[] | undefined> {
  const list = await read(client, path, signal);
  return list === undefined ? undefined : parse(list);
}

async function read(client: Client, path: string, signal: AbortSignal): Promise<unknown> {
  try {
    const document = await client.document(path, signal);
    return document && JSON.parse(document.body);
  } catch (error) {
    if (error instanceof ControllerError && error.status === 501) return undefined;
    throw error;
  }
}
