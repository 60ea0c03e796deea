import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { callEngine } from '../../../hack/engine-api.ts';
import { pushImage } from '../../../hack/image.ts';
import { freePort } from '../../../hack/ports.ts';
import { sampleImage } from '../../../hack/sample.ts';
import type {} from '../../../hack/testing/provided.ts';
import { CONTAINER_LABELS } from '../../../src/api/names.ts';
import { type Engine, EngineError, type EngineFacts, type LogLine } from '../domain/engine.ts';
import { ownLimits } from '../system/machine.ts';
import { UsageReader } from '../system/usage.ts';
import { cleanUp, findContainer, INSTANCE, makeSpec, type SpecOptions, until } from './_contract.ts';
import { DockerEngine } from './docker/engine.ts';

/** The contract of the engine interface, tested on real engines. Every adapter has to pass. */

const registry = new URL(inject('registryUrl')).host;
const own = ownLimits();

const v1 = `${registry}/contract/sample:1`;
const labelled = `${registry}/contract/labelled:1`;

beforeAll(async () => {
  const push = async (repository: string, tag: string, image: Awaited<ReturnType<typeof sampleImage>>) =>
    pushImage(inject('registryUrl'), repository, tag, image);
  await push('contract/sample', '1', await sampleImage());
  await push('contract/sample', '2', await sampleImage({ env: { GREETING: 'two' } }));
  await push(
    'contract/labelled',
    '1',
    await sampleImage({ labels: { [CONTAINER_LABELS.revision]: 'forged', x: 'y' } }),
  );
});

/** The registry behind a proxy that requires a user name and a password. */
async function guard(username: string, password: string) {
  const expected = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  const server = createServer((incoming, outgoing) => {
    if (incoming.headers.authorization !== expected) {
      outgoing.writeHead(401, { 'www-authenticate': 'Basic realm="guard"', 'content-type': 'application/json' });
      return outgoing.end('{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}');
    }
    const { host: _host, authorization: _authorization, ...headers } = incoming.headers;
    const inner = request(`${inject('registryUrl')}${incoming.url}`, { method: incoming.method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    inner.on('error', () => outgoing.destroy());
    incoming.pipe(inner);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

for (const { kind, url } of inject('engines'))
  describe(kind, () => {
    let engine: Engine;
    let facts: EngineFacts;
    beforeAll(async () => {
      engine = new DockerEngine({ url, instance: INSTANCE });
      facts = await engine.connect();
      await engine.ensureNetwork();
      await engine.pull({ reference: v1, platform: '' });
    });

    afterAll(async () => {
      await cleanUp(engine);
    });

    /** Creates a container, and removes it at the end of the test. */
    async function make(options: Omit<SpecOptions, 'facts'> = {}) {
      const spec = makeSpec({
        facts,
        limits: own,
        ...options,
        view: { imageId: v1, ...options.view },
      });
      const { id, imageId } = await engine.create(spec);
      return {
        id,
        imageId,
        spec,
        look: () => findContainer(engine, id),
        [Symbol.asyncDispose]: async () => {
          await engine.stop(id, 0);
          await engine.remove(id);
        },
      };
    }

    async function logsOf(id: string): Promise<LogLine[]> {
      const lines: LogLine[] = [];
      for await (const line of engine.logs(id, { tail: 100 })) lines.push(line);
      return lines;
    }

    describe('connecting', () => {
      test('connecting returns the facts of the engine', () => {
        expect(facts.kind).toMatch(/docker|podman/);
        expect(facts.apiVersion).toMatch(/^1\.\d+$/);
        expect(facts.runtimes).toEqual(
          facts.kind === 'podman' ? [expect.stringMatching(/^(crun|runc)$/)] : expect.arrayContaining(['runc']),
        );
      });

      test('an engine without a socket is Unavailable', async () => {
        const absent = new DockerEngine({ url: 'unix:///nowhere/docker.sock', instance: INSTANCE });
        await expect(absent.connect()).rejects.toMatchObject({ code: 'Unavailable' });
      });
    });

    describe('images', () => {
      test('a pull returns the id of the image and reports its progress', async () => {
        const percentages: number[] = [];
        const reference = `${registry}/contract/sample:2`;
        expect(await engine.image(reference)).toBeUndefined();
        const id = await engine.pull({
          reference,
          platform: '',
          onProgress: (percentage) => percentages.push(percentage),
        });
        expect(id).toMatch(/^sha256:[0-9a-f]{64}$/);
        expect(await engine.image(reference)).toBe(id);
        expect(percentages.at(-1)).toBe(100);
        expect(percentages).toEqual([...percentages].sort((a, b) => a - b));
        await engine.removeImage(reference);
        expect(await engine.image(reference)).toBeUndefined();
      });

      test('an image that the registry does not have is ImageNotFound', async () => {
        const pull = engine.pull({ reference: `${registry}/contract/sample:none`, platform: '' });
        await expect(pull).rejects.toMatchObject({ code: 'ImageNotFound' });
      });

      test('a pull from a registry that does not answer is ImagePullFailed', async () => {
        const pull = engine.pull({ reference: `127.0.0.1:${await freePort()}/a/b:1`, platform: '' });
        await expect(pull).rejects.toMatchObject({ code: 'ImagePullFailed' });
      });

      test('a pull without the right credentials is ImageUnauthorized', async () => {
        await using guarded = await guard('shore', 'secret');
        const reference = `${guarded.host}/contract/sample:1`;
        await expect(engine.pull({ reference, platform: '' })).rejects.toMatchObject({ code: 'ImageUnauthorized' });
        const wrong = { username: 'shore', password: 'wrong', host: guarded.host };
        await expect(engine.pull({ reference, platform: '', credentials: wrong })).rejects.toMatchObject({
          code: 'ImageUnauthorized',
        });
        const right = { username: 'shore', password: 'secret', host: guarded.host };
        expect(await engine.pull({ reference, platform: '', credentials: right })).toMatch(/^sha256:/);
        await engine.removeImage(reference);
      });

      test('removing an image that does not exist is no error', async () => {
        await engine.removeImage('sha256:'.padEnd(71, '0'));
      });
    });

    describe('the life of a container', () => {
      test('a container that is created, started, stopped and removed is listed as such', async () => {
        const { id, spec, imageId } = await make();
        expect(await findContainer(engine, id)).toMatchObject({
          name: spec.name,
          state: 'created',
          startedAt: 0,
          digest: spec.labels[CONTAINER_LABELS.digest],
          revision: `r-${v1}`,
          generation: 1,
          imageId,
          pid: 0,
        });
        expect(imageId).toBe(await engine.image(v1));
        const before = Date.now();
        await engine.start(id);
        const running = await findContainer(engine, id);
        expect(running).toMatchObject({ state: 'running', networkId: (await engine.network())?.id });
        expect(running.startedAt).toBeGreaterThan(before - 2000);
        expect(running.pid).toBeGreaterThan(1);
        expect(running.ip).toMatch(/^\d+\.\d+\.\d+\.\d+$/);
        await engine.stop(id, 10);
        expect(await findContainer(engine, id)).toMatchObject({ state: 'exited', oomKilled: false });
        await engine.remove(id);
        expect((await engine.containers()).map((container) => container.id)).not.toContain(id);
      });

      test('starting, stopping and removing twice is no error', async () => {
        const { id } = await make();
        await engine.start(id);
        await engine.start(id);
        await engine.stop(id, 0);
        await engine.stop(id, 0);
        await engine.remove(id);
        await expect(engine.remove(id)).rejects.toMatchObject({ code: 'NotFound' });
        await expect(engine.start(id)).rejects.toMatchObject({ code: 'NotFound' });
      });

      test('a running container is not removed', async () => {
        await using container = await make();
        await engine.start(container.id);
        await expect(engine.remove(container.id)).rejects.toMatchObject({ code: 'Conflict' });
      });

      test('a container has the exit code and the time of its end', async () => {
        await using container = await make({
          view: {
            env: [
              { key: 'EXIT_AFTER', value: '10ms' },
              { key: 'EXIT_CODE', value: '7' },
            ],
          },
        });
        await engine.start(container.id);
        const ended = await until('the end', async () => {
          const seen = await container.look();
          return seen.state === 'exited' && seen;
        });
        expect(ended.exitCode).toBe(7);
        expect(ended.finishedAt).toBeGreaterThanOrEqual(ended.startedAt);
      });

      test('a second run has another start time', async () => {
        await using container = await make();
        await engine.start(container.id);
        const first = (await container.look()).startedAt;
        await engine.stop(container.id, 0);
        await engine.start(container.id);
        expect((await container.look()).startedAt).toBeGreaterThan(first);
      });

      test('a container that was paused outside the agent shows as paused and can be resumed', async () => {
        await using container = await make();
        await engine.start(container.id);
        await callEngine(url, 'POST', `/v1.41/containers/${container.id}/pause`);
        expect(await container.look()).toMatchObject({ state: 'running', paused: true });
        await engine.resume(container.id);
        await engine.resume(container.id);
        expect((await container.look()).paused).toBeUndefined();
        await expect(engine.resume('f'.repeat(64))).rejects.toMatchObject({ code: 'NotFound' });
      });

      test('a container can be renamed', async () => {
        await using container = await make();
        await engine.rename(container.id, `${container.spec.name}-old`);
        expect((await container.look()).name).toBe(`${container.spec.name}-old`);
      });

      test('a second container of one name is NameTaken', async () => {
        await using container = await make();
        await expect(make({ name: container.spec.name })).rejects.toMatchObject({ code: 'NameTaken' });
      });

      test('creating a container from an image that does not exist fails', async () => {
        await expect(make({ view: { imageId: 'nowhere/nothing:1' } })).rejects.toMatchObject({ code: 'ImageMissing' });
      });

      test('a container whose program is not in the image fails to start and has never run', async () => {
        await using container = await make({ view: { entrypoint: ['/no/such/program'] } });
        await expect(engine.start(container.id)).rejects.toBeInstanceOf(EngineError);
        expect(await container.look()).toMatchObject({ startedAt: 0 });
        expect((await container.look()).state).not.toBe('running');
      });

      test('a container whose port is taken fails to start, and starts once the port is free', async () => {
        const external = await freePort();
        const portMappings = [{ internal: 8080, external, protocol: 'tcp' as const }];
        await using first = await make({ view: { portMappings } });
        await using second = await make({ view: { portMappings } });
        await engine.start(first.id);
        await expect(engine.start(second.id)).rejects.toMatchObject({ code: 'PortTaken' });
        await engine.stop(first.id, 0);
        await engine.start(second.id);
        expect((await second.look()).ports).toEqual(portMappings);
      });

      test('containers of another agent are not listed', async () => {
        const other = new DockerEngine({ url, instance: 'f'.repeat(32) });
        await other.connect();
        await using container = await make();
        expect(await other.containers()).toEqual([]);
        expect((await engine.containers()).map(({ id }) => id)).toContain(container.id);
        const network = await other.ensureNetwork();
        expect(network.id).not.toBe((await engine.network())?.id);
        await other.removeNetwork();
      });
    });

    describe('events', () => {
      test('arrive for each change after `connected`', async () => {
        const stop = new AbortController();
        const seen: string[] = [];
        const listening = (async () => {
          for await (const { action } of engine.events(stop.signal)) seen.push(action);
        })().catch(() => {});
        await until('the stream', () => seen.includes('connected'));
        const container = await make();
        await engine.start(container.id);
        await until('start', () => seen.includes('start'));
        await container[Symbol.asyncDispose]();
        await until('die and destroy', () => seen.includes('die') && seen.includes('destroy'));
        stop.abort();
        await listening;
      });
    });

    describe('a container', () => {
      test('has its env, and labels that its image cannot forge', async () => {
        await engine.pull({ reference: labelled, platform: '' });
        await using container = await make({
          view: { imageId: labelled, revision: '', annotations: '{"team":"shore","skerry.dev/agent":"me"}' },
        });
        expect((await container.look()).revision).toBe('');
        expect(container.spec.labels).toMatchObject({ team: 'shore', [CONTAINER_LABELS.agent]: INSTANCE });
        expect(container.spec.env).toContain('TZ=UTC');
      });

      test('gets its arguments, and its log lines have their times', async () => {
        await using container = await make({ view: { commands: ['print', 'one', 'zwei äöü'] } });
        await engine.start(container.id);
        await until('the end', async () => (await container.look()).state === 'exited');
        const lines = await logsOf(container.id);
        expect(lines.map(({ line }) => line)).toEqual(['one', 'zwei äöü']);
        expect(Date.parse(lines[0]?.ts ?? '')).toBeGreaterThan(Date.now() - 60_000);
      });

      test('has logs that can be followed', async () => {
        await using container = await make({ view: { env: [{ key: 'EXIT_AFTER', value: '300ms' }] } });
        await engine.start(container.id);
        const lines: string[] = [];
        for await (const { line } of engine.logs(container.id, { tail: 10, follow: true })) lines.push(line);
        expect(lines.join('\n')).toContain('sample started');
      });

      test('starts with a limit above that of the machine, which is lowered', async () => {
        await using container = await make({ view: { ulimits: { nofile: { soft: 1_048_576, hard: 1_048_576 } } } });
        await engine.start(container.id);
        expect(await container.look()).toMatchObject({ state: 'running' });
      });
    });

    test('the usage of a container is read from the kernel', async () => {
      let now = 0;
      const reader = new UsageReader(() => now);
      await using container = await make();
      await engine.start(container.id);
      const look = async () => (await reader.read([await container.look()])).get(container.id);
      const first = await look();
      if (first === undefined)
        return expect(own.mayRaise, 'only a machine without cgroup files may show nothing').toBe(false);
      now += 1000;
      expect((await look())?.memory).toBeGreaterThan(100_000);
      expect((await look())?.memory).toBeLessThan(100_000_000);
    });
  });
