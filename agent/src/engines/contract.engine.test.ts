import { statSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { buildImage, type Image, pushImage, saveImage } from '../../../hack/image.ts';
import { freePort } from '../../../hack/ports.ts';
import { sampleImage } from '../../../hack/sample.ts';
import { shellImage } from '../../../hack/shell-image.ts';
import type {} from '../../../hack/testing/provided.ts';
import { CONTAINER_LABELS } from '../../../src/api/names.ts';
import { listenForTest } from '../../../testing/local-server.ts';
import type { CompleteEngine } from '../engine-port/engine.ts';
import { EngineError } from '../engine-port/error.ts';
import type { ExecProcess, StartedProgram } from '../engine-port/exec.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import type { LogLine, LogOptions } from '../engine-port/logs.ts';
import { ownLimits } from '../machine/machine.ts';
import { UsageReader } from '../machine/usage.ts';
import { cleanUp, findContainer, INSTANCE, makeSpec, prepare, type SpecOptions, until } from './_contract.ts';
import { openTestEngine, outsideOf } from './_outside.ts';

/** The contract of the engine interface, tested on real engines. Every adapter has to pass. */

const registry = new URL(inject('registryUrl')).host;
const own = ownLimits();

const v1 = `${registry}/contract/sample:1`;
const shell = `${registry}/contract/shell:1`;
const labelled = `${registry}/contract/labelled:1`;

beforeAll(async () => {
  const push = (name: string, tag: string, image: Awaited<ReturnType<typeof sampleImage>>) =>
    pushImage(inject('registryUrl'), `contract/${name}`, tag, image);
  await push('sample', '1', await sampleImage());
  await push('shell', '1', shellImage());
  await push('sample', '2', await sampleImage({ env: { GREETING: 'two' } }));
  await push('labelled', '1', await sampleImage({ labels: { [CONTAINER_LABELS.revision]: 'forged', x: 'y' } }));
});

async function* inPieces(bytes: Buffer) {
  for (let at = 0; at < bytes.length; at += 10_000) yield bytes.subarray(at, at + 10_000);
}

/** The digest of the configuration of an image, by which engines name it. */
function configOf(image: Image): string {
  const manifest = image.manifests.get(image.top.digest)?.bytes.toString() ?? '';
  return (JSON.parse(manifest) as { config: { digest: string } }).config.digest;
}

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
  return `127.0.0.1:${await listenForTest(server)}`;
}

for (const tested of inject('everyEngine'))
  describe(tested.kind, () => {
    const { kind } = tested;
    let engine: CompleteEngine;
    let facts: EngineFacts;
    beforeAll(async () => {
      engine = openTestEngine(tested, INSTANCE);
      facts = await prepare(engine, v1);
      await engine.pull({ reference: shell, platform: '' });
    });

    afterAll(async () => {
      await cleanUp(engine);
    });

    /** Creates a container, and removes it at the end of the test. */
    async function make(options: Omit<SpecOptions, 'facts'> = {}) {
      const spec = makeSpec({ facts, limits: own, ...options, view: { imageId: v1, ...options.view } });
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

    async function makeStarted(options?: Parameters<typeof make>[0]) {
      const container = await make(options);
      await engine.start(container.id);
      return container;
    }

    const endOf = ({ look }: Awaited<ReturnType<typeof make>>) =>
      until('the end', async () => {
        const seen = await look();
        return seen.state === 'exited' && seen;
      });

    async function logsOf(id: string, options: Partial<LogOptions> = {}): Promise<LogLine[]> {
      const lines: LogLine[] = [];
      for await (const line of engine.logs(id, { tail: 100, ...options })) lines.push(line);
      return lines;
    }
    const linesOf = async (id: string, options: Partial<LogOptions>) =>
      (await logsOf(id, options)).map(({ line }) => line);

    describe('connecting', () => {
      test('connecting returns the facts of the engine', () => {
        expect(facts.kind).toBe(kind);
        expect(facts.apiVersion).toMatch(kind === 'embedded' ? /^v1$/ : /^1\.\d+$/);
        expect(statSync(facts.dataDirectory ?? '').isDirectory()).toBe(true);
        expect(facts.runtimes).toEqual(
          facts.kind === 'podman' ? [expect.stringMatching(/^(crun|runc)$/)] : expect.arrayContaining(['runc']),
        );
      });

      test('an engine without a socket is Unavailable', async () => {
        const absent = openTestEngine({ kind, url: 'unix:///nowhere/docker.sock' }, INSTANCE);
        await expect(absent.connect()).rejects.toMatchObject({ code: 'Unavailable' });
      });
    });

    describe('images', () => {
      test('a pull returns the id of the image and reports its progress', async () => {
        const percentages: number[] = [];
        const reference = `${registry}/contract/sample:2`;
        expect(await engine.image(reference)).toBeUndefined();
        const onProgress = (percentage: number) => percentages.push(percentage);
        const id = await engine.pull({ reference, platform: '', onProgress });
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
        const host = await guard('shore', 'secret');
        const reference = `${host}/contract/sample:1`;
        const right = { username: 'shore', password: 'secret', host };
        for (const credentials of [undefined, { ...right, password: 'wrong' }])
          await expect(engine.pull({ reference, platform: '', credentials })).rejects.toMatchObject({
            code: 'ImageUnauthorized',
          });
        expect(await engine.pull({ reference, platform: '', credentials: right })).toMatch(/^sha256:/);
        await engine.removeImage(reference);
      });

      test('the bytes of an image are those of its layers that no other image has', async () => {
        const small = await engine.pull({ reference: shell, platform: '' });
        const sample = await engine.pull({ reference: v1, platform: '' });
        expect(await engine.imageBytes(small)).toBeGreaterThan(1000);
        const other = await engine.pull({ reference: `${registry}/contract/sample:2`, platform: '' });
        // They have one layer, and differ in their settings.
        for (const id of [sample, other]) expect(await engine.imageBytes(id)).toBeLessThan(100_000);
        await engine.removeImage(other);
        expect(await engine.imageBytes(other)).toBe(0);
      });

      test('the list has an image with its names, its time and its size', async () => {
        const id = await engine.pull({ reference: shell, platform: '' });
        const listed = (await engine.listImages()).find((image) => image.id === id);
        expect(listed?.tags).toContain(shell);
        expect(listed?.digests.some((name) => name.startsWith(`${registry}/contract/shell@sha256:`))).toBe(true);
        expect(listed?.createdAt === undefined || listed.createdAt >= 0).toBe(true);
        expect(listed?.diskBytes).toBeGreaterThan(1000);
      });

      test('a container that only exists uses its image', async () => {
        await using container = await make();
        const uses = await engine.imageUses();
        expect(uses).toContainEqual({ imageId: container.imageId, container: container.spec.name });
        expect((await engine.listImages()).map(({ id }) => id)).toContain(container.imageId);
        const removal = engine.removeImage(container.imageId);
        await expect(removal).rejects.toMatchObject({ code: 'Conflict' });
        expect(await engine.image(v1)).toBe(container.imageId);
      });

      test('an archive gives the engine its images, by their names', async () => {
        const image = buildImage({ files: [{ path: '/a', content: `${kind}${INSTANCE}` }] });
        const name = `${registry}/contract/loaded:1`;
        await engine.loadImages(inPieces(saveImage(image, name)));
        const id = await engine.image(name);
        expect(id).toBe(configOf(image));
        await engine.removeImage(name);
        expect((await engine.listImages()).map((each) => each.id)).not.toContain(id);
      });

      test('an archive that ends with an error leaves no image, and its error is thrown', async () => {
        const name = `${registry}/contract/broken:1`;
        const bytes = saveImage(buildImage({ files: [{ path: '/b', content: `${kind}${INSTANCE}` }] }), name);
        const broken = async function* () {
          // All of the archive: only the end of the request is missing.
          yield* inPieces(bytes);
          throw new RangeError('it was changed');
        };
        await expect(engine.loadImages(broken())).rejects.toThrow(new RangeError('it was changed'));
        await expect(engine.loadImages(inPieces(Buffer.from('no archive'.repeat(1000))))).rejects.toThrow(EngineError);
        expect(await engine.image(name)).toBeUndefined();
        expect((await engine.listImages()).flatMap(({ tags }) => tags)).not.toContain(name);
      });

      test('an image loses one of two names, and stays', async () => {
        const id = await engine.pull({ reference: shell, platform: '' });
        const further = `${registry}/contract/further:1`;
        await engine.tag(id, further);
        await engine.removeImage(further);
        expect(await engine.image(further)).toBeUndefined();
        expect(await engine.image(shell)).toBe(id);
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
        await using container = await makeStarted();
        await expect(engine.remove(container.id)).rejects.toMatchObject({ code: 'Conflict' });
      });

      test('a container has the exit code and the time of its end', async () => {
        const env = [
          { key: 'EXIT_AFTER', value: '10ms' },
          { key: 'EXIT_CODE', value: '7' },
        ];
        await using container = await makeStarted({ view: { env } });
        const ended = await endOf(container);
        expect(ended.exitCode).toBe(7);
        expect(ended.finishedAt).toBeGreaterThanOrEqual(ended.startedAt);
      });

      test('a second run has another start time', async () => {
        await using container = await makeStarted();
        const first = (await container.look()).startedAt;
        await engine.stop(container.id, 0);
        await engine.start(container.id);
        expect((await container.look()).startedAt).toBeGreaterThan(first);
      });

      test('a container that was paused outside the agent shows as paused and can be resumed', async () => {
        await using container = await makeStarted();
        await outsideOf(tested).pause(container.id);
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

      test('a limit that the engine does not accept is LimitRefused', async () => {
        await expect(make({ view: { cpuSetCpus: '4000' } })).rejects.toMatchObject({ code: 'LimitRefused' });
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
        const other = openTestEngine(tested, 'f'.repeat(32));
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
        await using container = await makeStarted({ view: { commands: ['print', 'one', 'zwei äöü'] } });
        await endOf(container);
        const lines = await logsOf(container.id);
        expect(lines.map(({ line }) => line)).toEqual(['one', 'zwei äöü']);
        expect(Date.parse(lines[0]?.ts ?? '')).toBeGreaterThan(Date.now() - 60_000);
      });

      test('has logs that can be followed', async () => {
        await using container = await makeStarted({ view: { env: [{ key: 'EXIT_AFTER', value: '300ms' }] } });
        const lines = await linesOf(container.id, { tail: 10, follow: true });
        expect(lines.join('\n')).toContain('sample started');
      });

      test('starts with a limit above that of the machine, which is lowered', async () => {
        await using container = await makeStarted({
          view: { ulimits: { nofile: { soft: 1_048_576, hard: 1_048_576 } } },
        });
        expect(await container.look()).toMatchObject({ state: 'running' });
      });
    });

    describe('a program in a container', () => {
      const shellContainer = () => makeStarted({ view: { imageId: shell } });
      /** What a program writes until it ends. */
      async function outputOf(program: ExecProcess) {
        const seen = { stdout: '', stderr: '' };
        for await (const { stream, data } of program.output()) seen[stream] += Buffer.from(data);
        return { ...seen, code: await program.exitCode() };
      }
      /** The first piece that it writes. */
      async function firstOf(program: ExecProcess) {
        for await (const { data } of program.output()) return String(Buffer.from(data)).trim();
        return '';
      }
      const sh = (script: string) => ({ command: ['/bin/sh', '-c', script], tty: false });
      const printed = async ({ id }: { id: string }, script: string) =>
        (await outputOf(await engine.exec(id, sh(script)))).stdout;
      /** Prints which of some processes run; a zombie has ended, and no process waits for it. */
      const aliveOf = (pids: string) =>
        `for p in ${pids}; do read _ _ s _ < /proc/$p/stat && test $s != Z && echo $p; done; true`;

      test('gets its standard input to the end, and both outputs and the exit code come back', async () => {
        await using container = await shellContainer();
        const program = await engine.exec(container.id, sh('cat; echo wrong >&2; exit 3'));
        const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
        await program.write(bytes);
        program.closeStdin();
        const pieces: Buffer[] = [];
        let errors = '';
        for await (const { stream, data } of program.output())
          if (stream === 'stdout') pieces.push(Buffer.from(data));
          else errors += Buffer.from(data);
        expect(Buffer.concat(pieces)).toEqual(bytes);
        expect(errors).toBe('wrong\n');
        expect(await program.exitCode()).toBe(3);
      });

      test('has a terminal with the size that it was given', async () => {
        await using container = await shellContainer();
        const program = await engine.exec(container.id, {
          ...sh('read _; stty size; test -t 0 && echo "$TERM"'),
          tty: true,
          env: ['TERM=xterm-256color'],
        });
        const output = outputOf(program);
        await program.resize(132, 43);
        await program.write(Buffer.from('\n'));
        expect(await output).toMatchObject({ stdout: expect.stringMatching(/43 132\r\nxterm-256color/), code: 0 });
      });

      test('shows what it writes to its terminal also after the end of its input', async () => {
        await using container = await shellContainer();
        const program = await engine.exec(container.id, { ...sh('cat; echo over'), tty: true });
        program.closeStdin();
        expect(await outputOf(program)).toMatchObject({ stdout: expect.stringContaining('over'), code: 0 });
      });

      test('waits while its output is not read', async () => {
        await using container = await shellContainer();
        const endless =
          's=x; while test ${#s} -lt 8192; do s=$s$s; done; i=0; while :; do echo $s; i=$((i+1)); echo $i > /tmp/n; done';
        const program = await engine.exec(container.id, sh(endless));
        let last = -1;
        await until('that it writes no more', async () => {
          const before = last;
          last = Number(await printed(container, 'cat /tmp/n'));
          return last > 0 && last === before;
        });
        await program.end();
      });

      test('is ended together with what it has started, though it ignores a hangup', async () => {
        await using container = await shellContainer();
        const script = 'trap "" HUP; (trap "" HUP; sleep 3000) & echo $$ $!; sleep 3000';
        const program = await engine.exec(container.id, sh(script));
        const pids = await firstOf(program);
        await program.end();
        await until('its end', async () => (await printed(container, aliveOf(pids))) === '');
        expect(await program.exitCode()).toBeGreaterThan(0);
        expect((await container.look()).state).toBe('running');
      });

      test('does not run on when it is ended while it starts', async () => {
        await using container = await shellContainer();
        // With many at once an engine passes output on before it knows the process.
        const starts = Array.from({ length: 16 }, async () => {
          const program = await engine.exec(container.id, sh('echo $$; sleep 3000'));
          const pid = await firstOf(program);
          await program.end();
          return pid;
        });
        const pids = (await Promise.all(starts)).join(' ');
        await until('the end of all', async () => (await printed(container, aliveOf(pids))) === '');
      });

      test('that an earlier process of the agent started is ended by what the engine calls it, and one that is over is no error', async () => {
        await using container = await shellContainer();
        const made: StartedProgram[] = [];
        const options = {
          ...sh('trap "" HUP; echo begun; sleep 3000'),
          made: (each: StartedProgram) => made.push(each),
        };
        const program = await engine.exec(container.id, options);
        const [first] = made;
        if (!first) throw new Error('the program has no name');
        await firstOf(program);
        for (let time = 0; time < 2; time++) await engine.endProgram(first);
        expect(await program.exitCode()).toBeGreaterThan(0);
        expect((await container.look()).state).toBe('running');
        await engine.endProgram({ container: '0'.repeat(64), id: '0'.repeat(64) });
      });

      test('that does not exist is an error or an exit code that says so', async () => {
        await using container = await shellContainer();
        const seen = await engine
          .exec(container.id, { command: ['/bin/nothing'], tty: false })
          .then(outputOf, (error: Error) => ({ code: 127, stdout: error.message, stderr: '' }));
        expect([126, 127]).toContain(seen.code);
        expect(seen.stdout + seen.stderr).toMatch(/nothing/);
      });

      test('cannot be started where nothing runs', async () => {
        await using container = await make({ view: { imageId: shell } });
        await expect(engine.exec(container.id, sh('true'))).rejects.toMatchObject({ code: 'Conflict' });
        await expect(engine.exec('0'.repeat(64), sh('true'))).rejects.toMatchObject({ code: 'NotFound' });
      });
    });

    test('a log has the lines of both streams, of each run and of the times that are asked for', async () => {
      // Some engines say only in which second a line was written.
      const script = 'i=0; while test $i -lt 5; do i=$((i+1)); echo $i; done; echo wrong >&2; sleep 1.1';
      await using container = await make({ view: { imageId: shell, commands: ['/bin/sh', '-c', script] } });
      for (const _run of [1, 2]) {
        await engine.start(container.id);
        await endOf(container);
      }
      const all = await logsOf(container.id);
      const numbers = ['1', '2', '3', '4', '5'];
      const written = (stream: string) => all.filter((line) => line.stream === stream).map(({ line }) => line);
      expect(written('stdout')).toEqual([...numbers, ...numbers]);
      expect(written('stderr')).toEqual(['wrong', 'wrong']);
      const second = Math.min(...all.slice(-6).map(({ ts }) => Date.parse(ts)));
      const read = (options: Partial<LogOptions>) => linesOf(container.id, options);
      expect((await read({ since: second })).sort()).toEqual([...numbers, 'wrong']);
      expect((await read({ until: second - 1 })).sort()).toEqual([...numbers, 'wrong']);
      expect(await read({ until: second - 1, tail: 2, follow: true })).toHaveLength(2);
      expect(await read({ tail: 3 })).toHaveLength(3);
      expect(await read({ tail: Infinity })).toHaveLength(12);
    });

    test('a line of a log that is longer than what an engine writes at once is one line', async () => {
      const script = 's=äö; while test ${#s} -lt 20000; do s=$s$s; done; echo $s';
      await using container = await makeStarted({ view: { imageId: shell, commands: ['/bin/sh', '-c', script] } });
      await endOf(container);
      for (const tail of [100, Infinity]) {
        const lines = await linesOf(container.id, { tail });
        expect([tail, lines.length, lines[0]?.length, lines[0]?.slice(0, 4)]).toEqual([tail, 1, 16_384, 'äöäö']);
      }
    });

    test('a log that is followed from its last lines has each line once, however quickly the container writes', async () => {
      const script = 'i=0; while test $i -lt 5000; do i=$((i+1)); echo $i; done';
      for (let time = 0; time < 2; time++) {
        await using container = await makeStarted({ view: { imageId: shell, commands: ['/bin/sh', '-c', script] } });
        const lines = (await linesOf(container.id, { tail: 5, follow: true })).map(Number);
        const first = lines[0] ?? 0;
        expect(lines).toEqual(Array.from({ length: 5000 - first + 1 }, (_, at) => first + at));
      }
    });

    test.runIf(process.env.SKERRY_NIGHTLY)(
      'a log that is followed has each line once, though its files are rotated twice meanwhile',
      async () => {
        const lines = 2_600;
        const script = `s=x; while test \${#s} -lt 1000; do s=$s$s; done; i=0; while test $i -lt ${lines}; do i=$((i+1)); echo $i $s; test $((i % 50)) = 0 && sleep 0.2; done`;
        const view = { imageId: shell, logSize: 1, commands: ['/bin/sh', '-c', script] };
        await using container = await makeStarted({ view });
        const followed = await linesOf(container.id, { tail: Infinity, follow: true });
        const numbers = followed.map((line) => Number(line.split(' ')[0]));
        const all = Array.from({ length: lines }, (_, at) => at + 1);
        // podman empties the file of a log that is full, and with it what was not read yet.
        expect(numbers).toEqual(kind === 'podman' ? all.filter((each) => numbers.includes(each)) : all);
        expect((await logsOf(container.id)).at(-1)?.line).toMatch(new RegExp(`^${lines} x`));
      },
      120_000,
    );

    test('the usage of a container is read from the kernel', async () => {
      let now = 0;
      const reader = new UsageReader(() => now);
      await using container = await makeStarted();
      const look = async () => (await reader.read([await container.look()])).get(container.id);
      const first = await look();
      if (first === undefined)
        return expect(own.mayRaise, 'only a machine without cgroup files may show nothing').toBe(false);
      now += 1000;
      expect((await look())?.memory).toBeGreaterThan(100_000);
      expect((await look())?.memory).toBeLessThan(100_000_000);
    });
  });
