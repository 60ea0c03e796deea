import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../../hack/image.ts';
import { shellImage } from '../../../hack/shell-image.ts';
import type {} from '../../../hack/testing/provided.ts';
import { startStack } from '../../../src/sessions/_stack.ts';
import { FRAME_TYPES as T } from '../../../src/wire/frames.ts';
import type { Container } from '../engine-port/container.ts';
import type { CompleteEngine } from '../engine-port/engine.ts';
import { cleanUp, findContainer, INSTANCE, makeSpec, prepare, until } from '../engines/_contract.ts';
import { outsideOf, suiteEngines, type TestEngine } from '../engines/_outside.ts';
import { type OwnTestEngine, startOwnEngine } from '../engines/_private.ts';
import { openEngine } from '../engines/open.ts';
import { ownLimits } from '../machine/machine.ts';
import { startSessions } from './_agent.ts';

/** What a terminal and a log see when their container is started again, or the engine is killed. With SKERRY_NIGHTLY. */

const image = `${new URL(inject('registryUrl')).host}/sessions/shell:1`;
const SLOW = 60_000;

const NIGHTLY = process.env.SKERRY_NIGHTLY !== undefined;

for (const { kind } of suiteEngines()) describe.runIf(NIGHTLY)(kind, () => faults(kind));

function faults(kind: TestEngine['kind']): void {
  const started = new AsyncDisposableStack();
  let own: OwnTestEngine;
  let engine: CompleteEngine;
  let id: string;
  let container: Container | undefined;
  let stack: Awaited<ReturnType<typeof startStack>>;
  const look = async () => {
    container = await findContainer(engine, id).catch(() => undefined);
    return container;
  };

  beforeAll(async () => {
    await pushImage(inject('registryUrl'), 'sessions/shell', '1', shellImage());
    own = started.use(await startOwnEngine(kind));
    engine = openEngine({ url: own.url, instance: INSTANCE });
    const facts = await prepare(engine, image);
    stack = started.use(await startStack());
    const commands = ['/bin/sh', '-c', 'echo begun; exec sleep 3600'];
    const view = { uuid: stack.web, imageId: image, commands };
    ({ id } = await engine.create(makeSpec({ facts, limits: ownLimits(), view })));
    started.defer(() => cleanUp(engine));
    await engine.start(id);
    await look();
    started.use(await startSessions(stack, { engine, container: () => container }));
    const looking = setInterval(() => void look(), 500);
    started.defer(() => clearInterval(looking));
  }, 120_000);
  afterAll(() => started.disposeAsync(), 60_000);

  async function terminal() {
    const user = await stack.user(`/microservices/exec/${stack.web}?command=cat&tty=false`);
    await user.until('STDERR Connected', SLOW);
    user.send(T.STDIN, 'typed\n');
    await user.until('STDOUT typed', SLOW);
    return user;
  }

  test('a terminal ends with the run of its container, in words; a followed log continues with the next run', async () => {
    const [user, log] = [await terminal(), await stack.user(`/microservices/${stack.web}/logs`)];
    await log.until('LOG_LINE begun', SLOW);
    await outsideOf(own).stop(id);
    await engine.start(id);
    expect((await user.closed).code).toBe(1000);
    expect(user.seen.at(-1)).toMatch(/^CLOSE /);
    await until('the line of the next run', () => log.seen.filter((one) => one === 'LOG_LINE begun').length === 2);
    (await terminal()).ws.close();
    log.ws.close();
  }, 180_000);

  // On the agent's own engine the pipes of a program do not go through containerd.
  test.runIf(kind === 'embedded')(
    'a terminal continues while containerd is away, and ends with its program and the exit code once it is back',
    async () => {
      const script = 'echo begun; while read line; do [ "$line" = end ] && exit 7; echo got $line; done';
      const command = ['/bin/sh', '-c', script].map((each) => `command=${encodeURIComponent(each)}`).join('&');
      const user = await stack.user(`/microservices/exec/${stack.web}?${command}&tty=false`);
      await user.until('STDOUT begun', SLOW);
      await own.kill();
      await expect(engine.containers()).rejects.toThrow();
      user.send(T.STDIN, 'away\n');
      await user.until('STDOUT got away', SLOW);
      await own.start();
      await until('the engine', () => engine.connect());
      user.send(T.STDIN, 'end\n');
      expect((await user.closed).code).toBe(1000);
      expect(user.seen.slice(-2)).toEqual(['CONTROL {"exitCode":7}', 'CLOSE the program ended with exit code 7']);
      await look();
      (await terminal()).ws.close();
    },
    180_000,
  );

  test.skipIf(kind === 'embedded')(
    'a terminal ends with its engine, in words and without an exit code of its own; a followed log continues',
    async () => {
      const [user, log] = [await terminal(), await stack.user(`/microservices/${stack.web}/logs?tail=1`)];
      await log.until('LOG_LINE begun', SLOW);
      await own.kill();
      expect((await user.closed).code).toBe(1000);
      expect(user.seen.at(-1)).toMatch(/^CLOSE /);
      expect(user.seen.join()).not.toContain('"exitCode":0');
      await own.start();
      await engine.connect();
      if ((await look())?.state !== 'running') await engine.start(id);
      await look();
      (await terminal()).ws.close();
      // A container that ran on writes no further line.
      const begun = log.seen.filter((one) => one === 'LOG_LINE begun').length;
      expect(begun).toBeLessThanOrEqual(2);
      expect(log.ws.readyState).toBe(log.ws.OPEN);
      log.ws.close();
    },
    180_000,
  );
}
