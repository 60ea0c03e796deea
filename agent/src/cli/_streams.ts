import { Readable } from 'node:stream';
import { Sink } from '../../../src/session-client/_sink.ts';
import type { StandardStreams } from './commands/command.ts';

/** The standard streams of a command line in this process. */
export function testStreams(input: StandardStreams['input'] = Readable.from([])) {
  return { input, output: new Sink(), errors: new Sink() } satisfies StandardStreams;
}
