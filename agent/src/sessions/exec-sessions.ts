import { AgentError } from '../domain/agent-error.ts';
import { runExec } from './exec-session.ts';
import { type HeldOptions, HeldSocket } from './held-socket.ts';
import type { ExecRun, LocalRun, SessionContext } from './session.ts';
import type { TextSocket, TextSocketListener } from './text-socket.ts';

/** An exec session that a client of the local API asks for. */
export interface AskedExec extends HeldOptions {
  id: string;
  /** uuid */
  microservice: string;
  command: readonly string[];
  tty: boolean;
}

export interface ExecSessionsDependencies extends Omit<SessionContext, 'dial'> {
  /** Why no further session begins; undefined where one may. */
  refusal(): string | undefined;
  /** A session has begun: it counts until it is over. */
  began(run: LocalRun, about: { session: string }): void;
}

/** Times of these sessions, in ms (docs/spec/agent-local-api.md#exec-sessions). */
export const EXEC_TIMES = {
  /** until the program of a terminal runs */
  start: 15_000,
  /** until a client attaches, and how long the exit code is known after the end */
  attach: 10 * 60_000,
  /** with a client */
  attached: 24 * 3_600_000,
} as const;

/** Sessions at once to which no client has attached. */
export const WAITING_EXECS = 10;
/** Sessions that are over and whose exit code is still known. */
const KNOWN = 100;

interface Entry {
  id: string;
  microservice: string;
  socket: HeldSocket;
  run: ExecRun;
  isAttached: boolean;
  /** stops the timer of its present state */
  cancel: () => void;
}

/** The exec sessions of the local API: made by one request, attached to by another one, and known by their ids. */
export class ExecSessions {
  readonly #deps: ExecSessionsDependencies;
  readonly #entries = new Map<string, Entry>();

  constructor(deps: ExecSessionsDependencies) {
    this.#deps = deps;
  }

  /** Begins a session. With a terminal it resolves once the program runs. Throws AgentError. */
  async create(asked: AskedExec, signal: AbortSignal): Promise<{ expiresAt: number; status: 'ACTIVE' | 'PENDING' }> {
    const { clock, containerOf } = this.#deps;
    const { id, microservice, command, tty } = asked;
    const refusal = this.#deps.refusal() ?? this.#waitingRefusal();
    if (refusal) throw new AgentError('CONFLICT', refusal);
    if (containerOf(microservice)?.state !== 'running')
      throw new AgentError('CONFLICT', 'the microservice does not run');
    const session = { kind: 'exec', agentConnected: false, path: '', id, microservice, command, tty } as const;
    const socket = new HeldSocket(asked);
    const run = runExec(session, undefined, { ...this.#deps, dial: (_path, listener) => socket.open(listener) });
    const expiresAt = clock.wall() + EXEC_TIMES.attach;
    const entry: Entry = { id, microservice, socket, run, isAttached: false, cancel: () => {} };
    this.#entries.set(id, entry);
    // Nobody takes the last words of a session without a client.
    const refuse = (reason: string) => (entry.isAttached ? run.refuse(reason) : this.#end(entry));
    this.#deps.began({ ...run, refuse }, { session: id });
    this.#endAfter(entry, EXEC_TIMES.attach);
    // Whoever asked has left, and nobody else knows the id.
    if (signal.aborted) this.#end(entry);
    else if (tty) await this.#untilStarted(entry, signal);
    return { expiresAt, status: tty ? 'ACTIVE' : 'PENDING' };
  }

  status(id: string, microservice: string): { running: boolean; exitCode: number | null } {
    const { socket } = this.#find(id, microservice);
    return { running: !socket.isOver && socket.isOpen, exitCode: socket.exitCode };
  }

  /** Ends a session; resolves when its program has ended. */
  async stop(id: string, microservice: string): Promise<void> {
    const entry = this.#find(id, microservice);
    this.#end(entry);
    await entry.run.done;
  }

  /** Gives a session its client, whose connection `accept` takes. Throws AgentError before it is taken. */
  attach(id: string, microservice: string, accept: (listener: TextSocketListener) => TextSocket | undefined): void {
    const entry = this.#find(id, microservice);
    const { socket, run } = entry;
    if (entry.isAttached)
      throw new AgentError('CONFLICT', `session ${id} has ${socket.isOpen ? 'a client already' : 'ended'}`);
    entry.isAttached = true;
    entry.cancel();
    if (!socket.attach(accept)) {
      this.#end(entry);
      return;
    }
    const { clock } = this.#deps;
    entry.cancel = clock.after(EXEC_TIMES.attached, () => run.refuse('the session has lasted for 24 hours'));
    const over = () => this.#isDone(entry);
    run.done.then(over, over);
  }

  /** The exit code of a program that has ended by itself stays known for a while. */
  #isDone(entry: Entry): void {
    entry.cancel();
    if (!entry.socket.isOver) return void this.#entries.delete(entry.id);
    this.#endAfter(entry, EXEC_TIMES.attach);
    const over = [...this.#entries.values()].filter(({ isAttached, socket }) => isAttached && !socket.isOpen);
    for (const each of over.slice(0, -KNOWN)) this.#end(each);
  }

  #endAfter(entry: Entry, ms: number): void {
    entry.cancel = this.#deps.clock.after(ms, () => this.#end(entry));
  }

  #end({ id, run, cancel }: Entry): void {
    cancel();
    this.#entries.delete(id);
    run.connection.end();
  }

  /** The session of a microservice; sessions of others, and of the controller, are not found. */
  #find(id: string, microservice: string): Entry {
    const entry = this.#entries.get(id);
    if (entry?.microservice === microservice) return entry;
    throw new AgentError('NOT_FOUND', `this microservice has no exec session "${id.slice(0, 64)}"`);
  }

  #waitingRefusal(): string | undefined {
    const waiting = [...this.#entries.values()].filter(({ isAttached }) => !isAttached).length;
    if (waiting < WAITING_EXECS) return undefined;
    return `${waiting} exec sessions wait for a client, which is the limit: attach to them, or end them`;
  }

  async #untilStarted(entry: Entry, signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    const waited = Promise.withResolvers<'late'>();
    const cancel = clock.after(EXEC_TIMES.start, () => waited.resolve('late'));
    const gone = () => this.#end(entry);
    signal.addEventListener('abort', gone, { once: true });
    const problem = await Promise.race([entry.run.hasStarted(), waited.promise]);
    signal.removeEventListener('abort', gone);
    cancel();
    if (problem === undefined) return;
    this.#end(entry);
    if (problem !== 'late') throw new AgentError('CONFLICT', problem);
    throw new AgentError('EXEC_START_TIMEOUT', 'the program does not run after 15 s; try again');
  }
}
