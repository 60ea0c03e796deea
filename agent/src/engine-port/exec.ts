import type { LogLine } from './logs.ts';

/** Starts programs in containers, and ends them. */
export interface ExecPort {
  /** Starts a program in a container that runs. The signal counts until it has started. */
  exec(id: string, options: ExecOptions, signal?: AbortSignal): Promise<ExecProcess>;
  /** Ends a program that an earlier process of the agent has left, and what it has started. An absent program is no error. */
  endProgram(program: StartedProgram): Promise<void>;
}

/** A program in a container, as the engine names it. */
export interface StartedProgram {
  container: string;
  id: string;
}

export interface ExecOptions {
  command: readonly string[];
  /** with a terminal, whose output is all stdout */
  tty: boolean;
  env?: readonly string[];
  /** Called before it starts. */
  made?(program: StartedProgram): void;
}

/** A program that was started in a container. */
export interface ExecProcess {
  /** What it writes, until it has ended; to be read once. Reading slowly stops the program, as a full pipe does. */
  output(): AsyncIterable<{ stream: LogLine['stream']; data: Uint8Array }>;
  /** Resolves once there is room for more. Input of a program that has ended is dropped. */
  write(data: Uint8Array): Promise<void>;
  closeStdin(): void;
  /** Whether the engine shows its process now. */
  isRunning(): Promise<boolean>;
  /** Sets the size of its terminal. */
  resize(columns: number, rows: number): Promise<void>;
  /** After its output has ended; undefined when the engine does not know it. */
  exitCode(): Promise<number | undefined>;
  /** Ends the program and what it has started: with a hangup, and soon after by force. */
  end(): Promise<void>;
}
