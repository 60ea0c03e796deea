import { type Benchmark, by } from '../benchmark.ts';
import { timeLocalEchoes, timePrograms, timeText } from '../sessions/local.ts';
import { startShell } from '../sessions/terminal.ts';

/** Exec sessions of the local API of the agent, as other programs on the machine use them. */
export const localExec: Benchmark = {
  name: 'local-exec',
  about: 'exec sessions of the local API of an agent, beside `docker exec`',
  rows: {
    programP50: { what: 'an exec session of the local API, from its request to the exit code, p50', unit: 'ms' },
    programDocker: { what: 'the same with `docker exec`, p50', unit: 'ms' },
    programRatio: { what: 'of it, what the exec session takes', unit: '%', budget: { atMost: 100 } },
    echoP50: { what: 'a byte to `cat` over the local API and back, p50', unit: 'ms' },
    echoP99: { what: 'a byte to `cat` over the local API and back, p99', unit: 'ms' },
    text: { what: 'text of a container over the local API', unit: 'MiB/s' },
    textDocker: { what: 'the same text with `docker exec`', unit: 'MiB/s' },
    textRatio: { what: 'of it, what the local API carries', unit: '%' },
  },
  async run(context) {
    const stack = await context.stack();
    const edge = await stack.edge();
    await using shell = await startShell(stack);
    await edge.restartAs('bundle');
    const count = by(context, { short: 20, usual: 100, long: 500 });
    context.log('Programs, echo and text over the local API');
    const programs = await timePrograms(stack, shell, count);
    const echo = await timeLocalEchoes(edge.localApi(), shell.uuid, count * 10);
    const text = await timeText(stack, shell, by(context, { short: 32, usual: 256, long: 1_024 }) * 2 ** 20);
    return {
      figures: {
        programP50: programs.ours.p50,
        programDocker: programs.docker.p50,
        programRatio: (programs.ours.p50 / programs.docker.p50) * 100,
        echoP50: echo.p50,
        echoP99: echo.p99,
        text: text.ours,
        textDocker: text.docker,
        textRatio: (text.ours / text.docker) * 100,
      },
      notes: [
        `real agent as it is installed; ${count} programs one after the other, without a terminal; \`docker exec\` is its client, a process for each program; ${echo.n} bytes one after the other`,
      ],
    };
  },
};
