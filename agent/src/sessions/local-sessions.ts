import type { UpgradeRequest } from '../../../src/lib/web-socket/handshake.ts';
import { SESSIONS_PER_TARGET } from '../../../src/wire/sessions.ts';
import { AgentError } from '../domain/agent-error.ts';
import { ofFormerRun } from '../domain/runs.ts';
import type { LogLine, LogOptions } from '../engine-port/logs.ts';
import { attend } from './attend.ts';
import { withCapability } from './capability.ts';
import { containerLog } from './container-log.ts';
import { limitRefusal } from './decide.ts';
import type { ExecSessions } from './exec-sessions.ts';
import { followedUntil } from './followed-until.ts';
import type { LocalExec } from './local-socket.ts';
import { noLog } from './no-log.ts';
import { type LocalRun, type SessionContext, STOPPING } from './session.ts';

type Context = Omit<SessionContext, 'dial'>;

/**
 * The sessions of users on this machine, which need no controller. The policy is about users of the controller: whoever may do this may
 * change the policy.
 */
export class LocalSessions {
  readonly #context: Context;
  /** sessions of both kinds, the sessions of the controller included */
  readonly #count: () => number;
  readonly #runs = new Set<LocalRun>();
  /** log streams, by the microservice that reads them; empty for the admin */
  readonly #readers = new Map<LocalRun, string>();
  #execs: Promise<ExecSessions> | undefined;
  #hasStopped = false;

  constructor(context: Context, count: () => number) {
    this.#context = context;
    this.#count = count;
  }

  /** Sessions that are not over. */
  get size(): number {
    return this.#runs.size;
  }

  /** No session begins from now on; returns those that are left. */
  stop(): LocalRun[] {
    this.#hasStopped = true;
    return [...this.#runs];
  }

  /** Begins an exec session over the connection that `take` gives, in the frames of the controller. */
  async exec(asked: LocalExec, take: () => UpgradeRequest): Promise<void> {
    const [{ acceptSocket }, { runExec }, { localSocket }] = await Promise.all([
      import('../../../src/session-client/socket.ts'),
      import('./exec-session.ts'),
      import('./local-socket.ts'),
    ]);
    const accepted = acceptSocket(take());
    if (!accepted) return;
    const session = { kind: 'exec', agentConnected: false, path: '', ...asked } as const;
    const refusal = this.#refusal('');
    const run = runExec(session, refusal, {
      ...this.#context,
      dial: (_path, listener) => localSocket(accepted, asked, listener),
    });
    this.#began(run, { session: asked.id, kind: 'exec', refusal });
  }

  /** The exec sessions that have ids of their own. */
  execs(): Promise<ExecSessions> {
    this.#execs ??= import('./exec-sessions.ts').then(
      ({ ExecSessions }) =>
        new ExecSessions({
          ...this.#context,
          refusal: () => this.#refusal(''),
          began: (run, about) => this.#began(run, { ...about, kind: 'exec' }),
        }),
    );
    return this.#execs;
  }

  /** Gives an exec session its client, over the connection that `take` gives. Throws AgentError before it is taken. */
  async attach(id: string, microservice: string, take: () => UpgradeRequest): Promise<void> {
    const [execs, { acceptTextSocket }] = await Promise.all([this.execs(), import('./text-socket.ts')]);
    execs.attach(id, microservice, (listener) => acceptTextSocket(take(), this.#context.clock, listener));
  }

  /** The log of a microservice. Throws AgentError when there is none that could be shown at once. */
  logs(
    uuid: string,
    { previous, ...options }: LogOptions & { previous?: boolean },
    signal: AbortSignal,
  ): AsyncIterable<LogLine> {
    const { containerOf, stateOf, runsOf } = this.#context;
    const engine = withCapability(this.#context.engine, 'logs');
    const present = containerOf(uuid);
    if (!options.follow && !present) throw new AgentError('CONFLICT', noLog(stateOf(uuid)));
    const asked = previous ? ofFormerRun(options, present, runsOf(uuid)) : options;
    const log = { ...this.#context, engine, container: () => containerOf(uuid) };
    return followedUntil(asked, { ...this.#context, signal }, (some, stop) => containerLog(log, some, stop));
  }

  /** What the agent itself has logged. */
  ownLogs(options: LogOptions, signal: AbortSignal): AsyncIterable<LogLine> {
    return followedUntil(options, { ...this.#context, signal }, (some, stop) => this.#ownLog(some, stop));
  }

  async *#ownLog(options: LogOptions, signal: AbortSignal): AsyncGenerator<LogLine> {
    for await (const entry of this.#context.ownLog(options, signal)) yield { stream: 'stdout', ...entry };
  }

  /**
   * Sends a log over the connection that `take` gives. `reader`: the microservice that reads it, empty for the admin. Throws AgentError
   * before the connection is taken.
   */
  async streamLog(
    { reader, lines }: { reader: string; lines: (signal: AbortSignal) => AsyncIterable<LogLine> },
    take: () => UpgradeRequest,
  ): Promise<void> {
    const { runLogStream } = await import('./log-stream.ts');
    const refusal = this.#refusal(reader);
    if (refusal) throw new AgentError('CONFLICT', refusal);
    const run = runLogStream(take(), this.#context.clock, lines);
    if (!run) return;
    this.#readers.set(run, reader);
    this.#began(run, { kind: 'log', reader: reader || undefined });
  }

  #began(run: LocalRun, about: { refusal?: string | undefined; [key: string]: unknown }): void {
    this.#runs.add(run);
    attend(run, this.#context.log, { ...about, isLocal: true }, () => {
      this.#runs.delete(run);
      this.#readers.delete(run);
    });
  }

  /** Why no session begins. A microservice that reads logs does not keep others from theirs. */
  #refusal(reader: string): string | undefined {
    if (this.#hasStopped) return STOPPING;
    const own = [...this.#readers.values()].filter((one) => one === reader).length;
    if (reader && own >= SESSIONS_PER_TARGET)
      return `this microservice reads ${own} logs, which is the limit: end others first`;
    return limitRefusal(this.#count(), reader === '');
  }
}
