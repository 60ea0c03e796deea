import { execFile } from 'node:child_process';
import { readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { pushImage } from '../../../hack/image.ts';
import { ROOT } from '../../../hack/paths.ts';
import { shellImage } from '../../../hack/shell-image.ts';
import type {} from '../../../hack/testing/provided.ts';
import { cleanUp, findContainer, INSTANCE, makeSpec, prepare, until } from '../engines/_contract.ts';
import { openTestEngine, processesIn } from '../engines/_outside.ts';
import { ownLimits } from '../machine/machine.ts';

/** The end of a program in a container with the rights that the unit leaves the agent: other tests have all of root's. */

const unit = readFileSync(join(ROOT, 'packaging/skerry-agent.service'), 'utf8');
const capabilities = (/^CapabilityBoundingSet=(.*)$/m.exec(unit)?.[1] ?? '').split(' ');
const bounds = ['-all', ...capabilities.map((name) => name.toLowerCase().replace('cap_', '+'))].join(',');
const FILE = join(import.meta.dirname, '../machine/process-session.ts');
const END =
  'const { endProgram } = await import(process.argv[1]); await endProgram(+process.argv[2], +process.argv[3]);';

/** Ends a program as the agent of an installed package does. */
const endBounded = (pid: number, neighbour: number) =>
  promisify(execFile)('setpriv', [
    ...['--bounding-set', bounds, process.execPath, '--input-type=module', '-e', END],
    ...[FILE, String(pid), String(neighbour)],
  ]);

/** By day the user whose processes root's agent may not signal by itself. */
const USERS = process.env.SKERRY_NIGHTLY ? ['0', '1000'] : ['1000'];

let image: string;
beforeAll(async () => {
  ({ reference: image } = await pushImage(inject('registryUrl'), 'sessions/shell', '1', shellImage()));
});

for (const tested of inject('everyEngine'))
  describe(tested.kind, () => {
    test.each(USERS)(
      'a program of user %s is ended together with what it has started, and the container runs on',
      async (runAsUser) => {
        const engine = openTestEngine(tested, INSTANCE);
        onTestFinished(() => cleanUp(engine));
        const facts = await prepare(engine, image);
        const commands = ['/bin/sh', '-c', 'exec sleep 3000'];
        const view = { imageId: image, commands, runAsUser };
        const { id } = await engine.create(makeSpec({ facts, limits: ownLimits(), view }));
        await engine.start(id);
        const { pid } = await findContainer(engine, id);
        const namespace = readlinkSync(`/proc/${pid}/ns/pid`);
        const others = () => processesIn(namespace).filter((each) => each !== pid);
        await engine.exec(id, { command: ['/bin/sh', '-c', 'sleep 3000 & sleep 3000; true'], tty: false });
        await until('the program and what it starts', () => others().length === 3);
        await endBounded(Math.min(...others()), pid);
        await until('the end of all', () => others().length === 0, 10_000);
        expect((await findContainer(engine, id)).state).toBe('running');
      },
    );
  });
