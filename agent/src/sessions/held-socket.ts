import type { FrameListener, FrameSocket } from '../../../src/session-client/socket.ts';
import { FRAME_TYPES, type Frame } from '../../../src/wire/frames.ts';
import { CLOSE_CODES, type Control, readControl, writeControl } from '../../../src/wire/sessions.ts';
import { type ExecText, outputTexts, resizeOf } from './exec-text.ts';
import type { TextSocket, TextSocketListener } from './text-socket.ts';

/** What an exec session takes of its client, and what the client gets. */
export interface HeldOptions {
  stdin: boolean;
  stdout: boolean;
  stderr: boolean;
  /** the size of the terminal, until the client sends another one */
  size?: { cols: number; rows: number };
}

/** Bytes of output that wait for a client; a program that has written more waits, as on a full pipe. */
const HELD_BYTES = 64 * 1024;
const T = FRAME_TYPES;
const NO_TEXT = 'a text message is {"type":"resize","cols":80,"rows":24}; input is sent as binary messages';

/**
 * The socket of an exec session whose client comes later, or never: the program runs meanwhile, and its output waits. There is no
 * controller in between, so what one would send to the agent is made here.
 */
export class HeldSocket implements FrameSocket {
  readonly #options: HeldOptions;
  #listener: FrameListener | undefined;
  readonly #texts = outputTexts();
  readonly #held: ExecText[] = [];
  #bytes = 0;
  #client: TextSocket | undefined;
  #isSending = false;
  #isPaused = false;
  #isClosed = false;
  /** resolved once there is room */
  #room: PromiseWithResolvers<void> | undefined;
  #exitCode: number | null = null;
  /** the program has ended, or could not be started */
  #isOver = false;

  constructor(options: HeldOptions) {
    this.#options = options;
  }

  /** The session begins. */
  open(listener: FrameListener): FrameSocket {
    this.#listener = listener;
    const { stdin, size } = this.#options;
    // The session has its socket only when this function has returned.
    queueMicrotask(() => {
      this.#receive({ type: T.ACTIVATION, data: Buffer.from('{}') });
      if (size) this.#say({ resize: size });
      if (!stdin) this.#say({ stdinClosed: true });
    });
    return this;
  }

  get isOpen(): boolean {
    return !this.#isClosed;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get exitCode(): number | null {
    return this.#exitCode;
  }

  async send({ type, data }: Frame): Promise<void> {
    if (this.#isClosed || this.#isOver) return;
    const control = type === T.CONTROL ? readControl(data) : undefined;
    if (control && 'exitCode' in control) this.#exitCode = control.exitCode;
    if (type === T.STDOUT && this.#options.stdout) this.#hold(this.#texts.of('stdout', data));
    if (type === T.STDERR && this.#options.stderr) this.#hold(this.#texts.of('stderr', data));
    if (type === T.CLOSE) {
      this.#isOver = true;
      this.#hold(this.#texts.rest());
      this.#hold([{ stream: 'control', line: Buffer.from(data).toString('utf8'), exitCode: this.#exitCode }]);
    }
    void this.#sendHeld();
    await this.#room?.promise;
  }

  /** The client of the session comes: it gets the output that waits, and all that follows. False where its handshake was refused. */
  attach(accept: (listener: TextSocketListener) => TextSocket | undefined): boolean {
    this.#client = accept({
      message: (data, isBinary) => this.#fromClient(data, isBinary),
      closed: () => this.#close(),
    });
    if (this.#isPaused) this.#client?.pause();
    void this.#sendHeld();
    return this.#client !== undefined;
  }

  pause(): void {
    this.#isPaused = true;
    this.#client?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#client?.resume();
  }

  close(): void {
    this.#client?.close(CLOSE_CODES.ended);
    this.#close();
  }

  leave(): void {
    this.close();
  }

  drop(): void {
    this.#client?.drop();
    this.#close();
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#held.length = 0;
    this.#makeRoom();
    this.#listener?.closed({ code: CLOSE_CODES.ended, reason: '' });
  }

  #hold(texts: Iterable<ExecText>): void {
    for (const text of texts) {
      this.#held.push(text);
      this.#bytes += text.line.length;
    }
    if (this.#bytes > HELD_BYTES) this.#room ??= Promise.withResolvers();
  }

  /** Sends the texts that wait, one after the other, while there is a client. */
  async #sendHeld(): Promise<void> {
    const client = this.#client;
    if (!client || this.#isSending) return;
    this.#isSending = true;
    for (let text = this.#held.shift(); text && !this.#isClosed; text = this.#held.shift()) {
      await client.send(text);
      this.#bytes -= text.line.length;
      if (this.#bytes <= HELD_BYTES) this.#makeRoom();
      if (text.stream === 'control') this.close();
    }
    this.#isSending = false;
  }

  #makeRoom(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }

  #fromClient(data: Buffer, isBinary: boolean): void {
    if (isBinary && this.#options.stdin) {
      if (data.length > 0) this.#receive({ type: T.STDIN, data });
      else this.#say({ stdinClosed: true });
    }
    if (!isBinary) this.#resize(data.toString('utf8'));
  }

  #resize(text: string): void {
    const control = resizeOf(text);
    if (control) this.#say(control);
    else {
      this.#client?.close(CLOSE_CODES.refused, NO_TEXT);
      this.#close();
    }
  }

  #say(control: Control): void {
    this.#receive({ type: T.CONTROL, data: writeControl(control) });
  }

  #receive(frame: Frame): void {
    if (!this.#isClosed) this.#listener?.frame(frame);
  }
}
