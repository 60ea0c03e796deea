import type { Readable } from 'node:stream';

interface PromptOptions {
  input: Readable & { isTTY?: boolean; setRawMode?(isRaw: boolean): unknown };
  err(text: string): void;
  signal: AbortSignal;
}

const [CTRL_C, CTRL_D, BACKSPACE, DELETE] = ['\u0003', '\u0004', '\b', '\u007f'];

/** A line that a person types and nobody sees, or the next line of the input where there is no terminal. */
export async function askFor(question: string, { input, err, signal }: PromptOptions): Promise<string> {
  const isTyped = input.isTTY === true;
  if (isTyped) {
    err(question);
    input.setRawMode?.(true);
  }
  try {
    let text = '';
    for await (const chunk of readText(input, signal)) {
      for (const character of chunk) {
        if (character === '\n' || character === '\r') return text;
        if (isTyped && (character === CTRL_C || character === CTRL_D)) throw new Error('interrupted');
        if (isTyped && (character === BACKSPACE || character === DELETE)) text = text.slice(0, -1);
        else text += character;
      }
    }
    return text;
  } finally {
    if (isTyped) {
      input.setRawMode?.(false);
      err('\n');
    }
  }
}

/** The input character by character: what follows the line stays for the next question. */
async function* readText(input: Readable, signal: AbortSignal): AsyncGenerator<string> {
  input.setEncoding('utf8');
  for (;;) {
    signal.throwIfAborted();
    const text: string | null = input.read(1) ?? null;
    if (text !== null) yield text;
    else if (input.readableEnded || input.destroyed) return;
    else await moreOf(input, signal);
  }
}

/** Resolves when there is something to read, or nothing more. */
function moreOf(input: Readable, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = () => {
      for (const event of ['readable', 'end', 'close']) input.off(event, done);
      signal.removeEventListener('abort', done);
      if (signal.aborted) reject(signal.reason);
      else resolve();
    };
    for (const event of ['readable', 'end', 'close']) input.on(event, done);
    signal.addEventListener('abort', done);
  });
}
