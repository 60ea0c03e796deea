import { EventEmitter, once } from 'node:events';
import type { ExecOptions, ExecProcess } from '../../engine-port/exec.ts';
import type { LogLine } from '../../engine-port/logs.ts';

/** A program in a container of a memory engine: the test decides what it writes and when it ends. */
export class MemoryProgram implements ExecProcess {
  readonly options: ExecOptions;
  readonly container: string;
  /** what it was given as standard input */
  readonly written: Buffer[] = [];
  readonly sizes: string[] = [];
  stdinClosed = false;
  hasEnded = false;
  /** whether it reads its standard input; while it does not, `write` waits */
  readsStdin = true;
  /** whether the engine shows its process */
  hasStarted = true;
  /** pieces of output that were read */
  pieces = 0;
  #waiting: { stream: LogLine['stream']; data: Buffer }[] = [];
  #code: number | undefined;
  #isOver = false;
  #isLost = false;
  #events = new EventEmitter();

  constructor(container: string, options: ExecOptions) {
    this.container = container;
    this.options = options;
  }

  /** It writes something. */
  print(data: string | Buffer, stream: LogLine['stream'] = 'stdout'): void {
    this.#waiting.push({ stream, data: Buffer.from(data) });
    this.#events.emit('change');
  }

  /** It ends by itself. */
  exit(code: number | undefined): void {
    this.#isOver = true;
    this.#code = code;
    this.#events.emit('change');
  }

  /** Nothing more is heard of it, since the engine is gone. */
  lose(): void {
    this.#isLost = true;
    this.#events.emit('change');
  }

  /** It begins to read its standard input. */
  read(): void {
    this.readsStdin = true;
    this.#events.emit('change');
  }

  async *output(): AsyncGenerator<{ stream: LogLine['stream']; data: Uint8Array }> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next) {
        this.pieces += 1;
        yield next;
      } else if (this.#isLost) throw new Error('the engine does not answer');
      else if (this.#isOver) return;
      else await once(this.#events, 'change');
    }
  }

  async write(data: Uint8Array): Promise<void> {
    if (this.#isOver) return;
    this.written.push(Buffer.from(data));
    this.#events.emit('input');
    while (!this.readsStdin && !this.#isOver) await once(this.#events, 'change');
  }

  closeStdin(): void {
    this.stdinClosed = true;
    this.#events.emit('input');
  }

  async isRunning(): Promise<boolean> {
    return this.hasStarted && !this.#isOver;
  }

  async resize(columns: number, rows: number): Promise<void> {
    this.sizes.push(`${columns}x${rows}`);
  }

  async exitCode(): Promise<number | undefined> {
    return this.#code;
  }

  async end(): Promise<void> {
    this.hasEnded = true;
    this.exit(undefined);
  }
}
