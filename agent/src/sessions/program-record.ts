import type { StartedProgram } from '../engine-port/exec.ts';
import { errorText } from '../machine/log.ts';
import { withCapability } from './capability.ts';
import type { SessionContext } from './session.ts';

/** The program of one session, noted from before it starts until it is known to have ended. */
export class ProgramRecord {
  readonly #session: string;
  readonly #context: Pick<SessionContext, 'engine' | 'programs' | 'log'>;
  #program: StartedProgram | undefined;
  /** Resolves when what ends the program has done so, or failed. */
  ending: Promise<void> = Promise.resolve();

  constructor(session: string, context: Pick<SessionContext, 'engine' | 'programs' | 'log'>) {
    this.#session = session;
    this.#context = context;
  }

  /** It is about to start. */
  made(program: StartedProgram): void {
    this.#program = program;
    this.#note(() => this.#context.programs.add(program));
  }

  /** It has ended. */
  over(): void {
    const program = this.#program;
    if (program) this.#note(() => this.#context.programs.remove(program));
  }

  /** Its start failed, but it may have started nevertheless. */
  failed(): void {
    if (this.#program) this.end(withCapability(this.#context.engine, 'exec').endProgram(this.#program));
  }

  /** It is being ended. */
  end(ended: Promise<void>): void {
    this.ending = ended.then(
      () => this.over(),
      (error: unknown) => this.#warn('A program could not be ended', error),
    );
  }

  /** A full disk forbids no session. */
  #note(write: () => void): void {
    try {
      write();
    } catch (error) {
      this.#warn('A program could not be noted', error);
    }
  }

  #warn(message: string, error: unknown): void {
    this.#context.log.warn({ session: this.#session, error: errorText(error) }, message);
  }
}
