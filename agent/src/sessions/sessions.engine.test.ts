import { beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../../hack/image.ts';
import { shellImage } from '../../../hack/shell-image.ts';
import type {} from '../../../hack/testing/provided.ts';
import { startStack } from '../../../src/sessions/_stack.ts';
import { FRAME_TYPES as T } from '../../../src/wire/frames.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { ofFormerRun, seenRun } from '../domain/runs.ts';
import type { Container } from '../engine-port/container.ts';
import type { LogOptions } from '../engine-port/logs.ts';
import { cleanUp, findContainer, INSTANCE, makeSpec, prepare, until } from '../engines/_contract.ts';
import { isRepresented } from '../engines/_outside.ts';
import { openEngine } from '../engines/open.ts';
import { systemClock } from '../machine/clock.ts';
import { ownLimits } from '../machine/machine.ts';
import { startSessions } from './_agent.ts';
import { containerLog } from './container-log.ts';

/** A terminal from a user's socket through the controller's sockets to a program in a real container. */

const image = `${new URL(inject('registryUrl')).host}/sessions/shell:1`;

beforeAll(() => pushImage(inject('registryUrl'), 'sessions/shell', '1', shellImage()));

/** A container that prints the number of its run, and ends after a second. */
const CRASHING = 'n=0; test -e /count/n && read n < /count/n; n=$((n+1)); echo $n > /count/n; echo $n; sleep 1; exit 1';
const RUNS = 3;

for (const { kind, url } of inject('everyEngine'))
  describe(kind, () => {
    test.skipIf(isRepresented({ kind }))(
      'a followed log has each line of a container that ends every second, and each former run its own',
      async () => {
        const engine = openEngine({ url, instance: INSTANCE });
        const facts = await prepare(engine, image);
        const count = { type: 'bind', hostDestination: temporaryFolder(), containerDestination: '/count' } as const;
        const volumeMappings = [{ ...count, accessMode: 'rw', scope: 'private' } as const];
        const view = { imageId: image, commands: ['/bin/sh', '-c', CRASHING], volumeMappings };
        const { id } = await engine.create(makeSpec({ facts, limits: ownLimits(), view }));
        const stop = new AbortController();
        const linesOf = async (options: LogOptions) => {
          const found: string[] = [];
          for await (const { line } of engine.logs(id, options)) found.push(line);
          return found;
        };
        try {
          let seen: Container | undefined;
          const lines: string[] = [];
          const deps = { engine, clock: systemClock(), container: () => seen };
          const done = (async () => {
            const log = containerLog(deps, { tail: 100, follow: true }, stop.signal);
            for await (const { line } of log) lines.push(line);
          })();
          let runs = seenRun(undefined, await findContainer(engine, id));
          const former: string[][] = [];
          for (let run = 1; run <= RUNS; run++) {
            await engine.start(id);
            const look = await findContainer(engine, id);
            if (run % 2 === 0) seen = look;
            runs = seenRun(runs, look);
            if (run > 1) former.push(await linesOf(ofFormerRun({ tail: 100 }, look, runs)));
            const isOver = async () => {
              const now = await findContainer(engine, id);
              runs = seenRun(runs, now);
              return now.state === 'exited';
            };
            await until('the end of the run', isOver);
          }
          seen = await findContainer(engine, id);
          former.push(await linesOf(ofFormerRun({ tail: 100 }, seen, runs)));
          // podman says only in which second a line was written, and here the next run begins within that second.
          if (kind === 'docker') expect(former).toEqual(Array.from({ length: RUNS }, (_, at) => [String(at + 1)]));
          await until('the line of the last run', () => lines.includes(String(RUNS)));
          expect(lines).toEqual(Array.from({ length: RUNS }, (_, at) => String(at + 1)));
          stop.abort();
          await done;
        } finally {
          stop.abort();
          await cleanUp(engine);
        }
      },
      120_000,
    );

    test('a shell takes the keys of its user, and its exit code comes back; a log has what the container wrote', async () => {
      await using stack = await startStack();
      const engine = openEngine({ url, instance: INSTANCE });
      const facts = await prepare(engine, image);
      const commands = ['/bin/sh', '-c', 'echo begun; exec sleep 3600'];
      const view = { uuid: stack.web, imageId: image, commands };
      const { id } = await engine.create(makeSpec({ facts, limits: ownLimits(), view }));
      try {
        await engine.start(id);
        const container: Container = await findContainer(engine, id);
        await using _agent = await startSessions(stack, { engine, container: () => container });
        const user = await stack.user(`/microservices/exec/${stack.web}`);
        user.send(T.CONTROL, '{"resize":{"cols":99,"rows":33}}');
        // Keys do not wait for the size.
        const typing = setInterval(() => user.send(T.STDIN, 'stty size\n'), 500);
        const written = () =>
          user.frames.flatMap(({ type, data }) => (type === T.STDOUT ? [String(Buffer.from(data))] : [])).join('');
        await expect
          .poll(written, { timeout: 30_000 })
          .toContain('33 99')
          .finally(() => clearInterval(typing));
        user.send(T.STDIN, 'exit 3\n');
        await user.until('CONTROL {"exitCode":3}');
        expect((await user.closed).code).toBe(1000);
        const log = await stack.user(`/microservices/${stack.web}/logs?follow=false`);
        await log.until('LOG_STOP');
        expect(log.seen).toContain('LOG_LINE begun');
      } finally {
        await cleanUp(engine);
      }
    }, 120_000);
  });
