import { TransportError } from './api-error.ts';

const NEWLINE = 0x0a;

/**
 * Splits a byte stream into JSON documents, one per line.
 *
 * A line beyond `maxBytes` throws before more than that is in memory. A line that is not JSON throws, since the reader of
 * an event stream must not continue after an event that it could not read. Bytes are joined only at the end of a line, so
 * that a large line in many chunks costs linear time.
 */
export function createJsonLines(maxBytes: number) {
  let held: Uint8Array[] = [];
  let heldBytes = 0;

  function hold(part: Uint8Array) {
    if (heldBytes + part.length > maxBytes) {
      throw new TransportError('too-large', `a line exceeds ${maxBytes} bytes`);
    }
    if (part.length === 0) return;
    held.push(part);
    heldBytes += part.length;
  }

  function takeLine(): string {
    const line =
      held.length === 1 && held[0]
        ? Buffer.from(held[0].buffer, held[0].byteOffset, held[0].length)
        : Buffer.concat(held, heldBytes);
    held = [];
    heldBytes = 0;
    return line.toString('utf8');
  }

  return {
    /** The documents that this chunk completes. */
    *push(chunk: Uint8Array): Generator<unknown> {
      let start = 0;
      for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
        hold(chunk.subarray(start, end));
        start = end + 1;
        const line = takeLine();
        if (line.trim() !== '') yield parseLine(line);
      }
      hold(chunk.subarray(start));
    },
    /** Called at the end of the stream: an incomplete line means a broken connection, even if it was closed properly. */
    end() {
      if (heldBytes > 0) throw new TransportError('lost', 'the stream ended within a line');
    },
  };
}

function parseLine(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new TransportError('malformed', 'a line is not JSON', cause);
  }
}
