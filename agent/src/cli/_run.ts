import { testStreams } from './_streams.ts';
import { type CliDependencies, runCli } from './cli.ts';

/** What a command line has printed, and its exit code. */
interface CliResult {
  code: number;
  out: string;
  err: string;
}

/** Runs a command line in this process, without an environment. */
export async function runInProcess(args: readonly string[], ports: Partial<CliDependencies> = {}): Promise<CliResult> {
  const printed = { out: '', err: '' };
  const code = await runCli(args, {
    out: (text) => {
      printed.out += text;
    },
    err: (text) => {
      printed.err += text;
    },
    streams: testStreams(),
    env: {},
    signal: new AbortController().signal,
    runAgent: async () => {},
    ...ports,
  });
  return { code, ...printed };
}
