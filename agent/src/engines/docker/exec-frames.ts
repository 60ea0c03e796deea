import type { LogLine } from '../../engine-port/logs.ts';

/** What a program has written: data of one of its streams. */
export interface Written {
  stream: LogLine['stream'];
  data: Uint8Array;
}

const HEADER = 8;
const NOTHING: Buffer = Buffer.alloc(0);

/**
 * Takes the output of a program without a terminal apart. Each frame is one byte for the stream (1 stdout, 2 stderr), three
 * zeros, the length as four bytes big-endian, and that many bytes, which are passed on as they come. What came of one stream
 * in one piece is moved together over the headers in between: on the way to a user, a message costs as much as many bytes.
 */
export async function* readExecFrames(pieces: AsyncIterable<Buffer>): AsyncGenerator<Written> {
  let header = NOTHING;
  let stream: LogLine['stream'] = 'stdout';
  /** bytes of the current frame that are still to come */
  let left = 0;
  for await (const piece of pieces) {
    const bytes = header.length > 0 ? Buffer.concat([header, piece]) : piece;
    /** where data of the stream begin and end, and what is read next */
    let from = 0;
    let to = 0;
    let at = 0;
    for (;;) {
      if (left > 0 && at < bytes.length) {
        const length = Math.min(left, bytes.length - at);
        if (from === to) from = to = at;
        else bytes.copyWithin(to, at, at + length);
        to += length;
        at += length;
        left -= length;
      } else if (left === 0 && at + HEADER <= bytes.length) {
        const next = bytes[at] === 2 ? 'stderr' : 'stdout';
        if (next !== stream && to > from) yield { stream, data: bytes.subarray(from, to) };
        if (next !== stream) from = to;
        stream = next;
        left = bytes.readUInt32BE(at + 4);
        at += HEADER;
      } else break;
    }
    if (to > from) yield { stream, data: bytes.subarray(from, to) };
    header = Buffer.from(bytes.subarray(at));
  }
}
