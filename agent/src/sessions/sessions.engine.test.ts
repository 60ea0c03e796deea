import { beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../../hack/image.ts';
import { shellImage } from '../../../hack/shell-image.ts';
import type {} from '../../../hack/testing/provided.ts';
import { startStack } from '../../../src/sessions/_stack.ts';
import { FRAME_TYPES as T } from '../../../src/wire/frames.ts';
import type { Container } from '../domain/container.ts';
import { cleanUp, findContainer, INSTANCE, makeSpec } from '../engines/_contract.ts';
import { DockerEngine } from '../engines/docker/engine.ts';
import { ownLimits } from '../system/machine.ts';
import { startSessions } from './_agent.ts';

/** A terminal from a user's socket through the controller's sockets to a program in a real container. */

const image = `${new URL(inject('registryUrl')).host}/sessions/shell:1`;

beforeAll(() => pushImage(inject('registryUrl'), 'sessions/shell', '1', shellImage()));

for (const { kind, url } of inject('engines'))
  describe(kind, () => {
    test('a shell takes what is typed, and its exit code comes back; a log has what the container wrote', async () => {
      await using stack = await startStack();
      const engine = new DockerEngine({ url, instance: INSTANCE });
      const facts = await engine.connect();
      await engine.ensureNetwork();
      await engine.pull({ reference: image, platform: '' });
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
