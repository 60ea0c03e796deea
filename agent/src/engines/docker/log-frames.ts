import type { LogLine } from '../../engine-port/logs.ts';

const HEADER = 8;
const LINE_LIMIT = 64 * 1024;
const LONGEST_TIME = 40;

/**
 * Takes a container's log stream apart. Each frame is one byte for the stream (1 stdout, 2 stderr), three zeros, the
 * length as four bytes big-endian, and that many bytes; each line in it begins with an RFC 3339 time and a space. A line
 * may be spread over several frames, each of which begins with a time, too. Lines longer than 64 KiB are cut.
 */
export async function* readLogFrames(stream: AsyncIterable<Buffer>): AsyncGenerator<LogLine> {
  let rest: Buffer = Buffer.alloc(0);
  const open = { stdout: '', stderr: '' };
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for await (const piece of stream) {
    rest = rest.length > 0 ? Buffer.concat([rest, piece]) : piece;
    while (rest.length >= HEADER) {
      const end = HEADER + rest.readUInt32BE(4);
      if (rest.length < end) break;
      const name = rest[0] === 2 ? 'stderr' : 'stdout';
      const start = open[name] ? HEADER + timeLength(rest.subarray(HEADER, end)) : HEADER;
      let text = open[name] + decoders[name].decode(rest.subarray(start, end), { stream: true });
      rest = rest.subarray(end);
      for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n')) {
        yield toLine(name, text.slice(0, at));
        text = text.slice(at + 1);
      }
      open[name] = text.slice(0, LINE_LIMIT);
    }
  }
  for (const name of ['stdout', 'stderr'] as const) if (open[name]) yield toLine(name, open[name]);
}

/** Bytes of the time at the start of a frame and the space after it. */
const timeLength = (frame: Buffer) =>
  /^\d{4}-\d\d-\d\dT\S+ /.exec(frame.subarray(0, LONGEST_TIME).toString('latin1'))?.[0].length ?? 0;

function toLine(stream: LogLine['stream'], text: string): LogLine {
  const space = text.indexOf(' ');
  const ts = text.slice(0, space);
  const timed = space > 0 && /^\d{4}-\d\d-\d\dT/.test(ts);
  return { ts: timed ? ts : '', stream, line: (timed ? text.slice(space + 1) : text).replace(/\r$/, '') };
}
