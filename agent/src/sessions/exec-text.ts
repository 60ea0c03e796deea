import { type Control, readControl } from '../../../src/wire/sessions.ts';

/** What the client of an exec session gets, one in each text message (docs/spec/agent-local-api.md#exec-sessions). */
export type ExecText =
  | { stream: 'stdout' | 'stderr'; line: string }
  /** the last one: why it ended, and the exit code of the program where it is known */
  | { stream: 'control'; line: string; exitCode: number | null };

/** Bytes of output in one message. */
const PIECE = 4096;

/** Makes texts of what a program writes. A character whose bytes come apart is in the later text; bytes that are no text become U+FFFD. */
export function outputTexts() {
  const decoders = { stdout: newDecoder(), stderr: newDecoder() };
  return {
    *of(stream: 'stdout' | 'stderr', data: Uint8Array): Generator<ExecText> {
      for (let at = 0; at < data.length; at += PIECE) {
        const line = decoders[stream].decode(data.subarray(at, at + PIECE), { stream: true });
        if (line) yield { stream, line };
      }
    },
    /** the end of both streams when the program has ended */
    *rest(): Generator<ExecText> {
      for (const stream of ['stdout', 'stderr'] as const) {
        const line = decoders[stream].decode();
        if (line) yield { stream, line };
      }
    },
  };
}

/** A byte order mark is output as well. */
const newDecoder = () => new TextDecoder('utf-8', { ignoreBOM: true });

/** Characters of a text message of a client that can be a resize. */
const RESIZE_LENGTH = 200;

/** The size that a text message of a client asks for; undefined for any other text. */
export function resizeOf(text: string): Control | undefined {
  if (text.length > RESIZE_LENGTH) return undefined;
  try {
    const { type, cols, rows } = JSON.parse(text) as Record<string, unknown>;
    return type === 'resize' ? readControl(Buffer.from(JSON.stringify({ resize: { cols, rows } }))) : undefined;
  } catch {
    return undefined;
  }
}
