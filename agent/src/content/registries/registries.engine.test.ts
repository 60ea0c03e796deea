import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { makeCertificate } from '../../../../hack/certificate.ts';
import { REGISTRY_USERS, type Registry } from '../../../../hack/registry.ts';
import { registryViewSchema } from '../../../../src/wire/agent.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { ANYWHERE } from '../../domain/_reach.ts';
import { pullTarget } from '../../domain/target.ts';
import type { CompleteEngine } from '../../engine-port/engine.ts';
import type { EngineFacts } from '../../engine-port/facts.ts';
import { cleanUp, findContainer, INSTANCE, makeSpec, type SpecOptions, until } from '../../engines/_contract.ts';
import { type OwnTestEngine, startOwnDockerApi, startOwnEngine } from '../../engines/_private.ts';
import { openEngine } from '../../engines/open.ts';
import { ownLimits } from '../../machine/machine.ts';
import { memoryDatabase } from '../../state/database.ts';
import { backoff } from '../../supervise/plan/backoff.ts';
import {
  createAgentFixture,
  createTokenService,
  type RegistryProxy,
  SHORT_PAUSES,
  sampleView,
  startRegistryProxy,
  startTestRegistries,
  type TestRegistries,
} from './_registries.ts';
import { isRelayName, pullImage, relayPrefix } from './pull.ts';

/** Real registries with their own authorities and passwords, at an address that is not loopback. */

const own = ownLimits();
const { password } = REGISTRY_USERS.limpet;
const base64 = (text: string) => Buffer.from(text).toString('base64');

let registries: TestRegistries;
let locked: Registry;
let plain: Registry;

beforeAll(async () => {
  registries = await startTestRegistries();
  locked = await registries.registry(5000, { tls: registries.certificate, auth: 'basic' });
  plain = await registries.registry(5001);
});
afterAll(() => registries[Symbol.asyncDispose]());

const { SKERRY_NIGHTLY, SKERRY_ENGINE } = process.env;
const KINDS =
  SKERRY_ENGINE === 'embedded'
    ? (['embedded'] as const)
    : (['docker', 'podman', ...(SKERRY_NIGHTLY ? (['embedded'] as const) : [])] as const);

describe.each(KINDS)('%s', (kind) => {
  // Behaviour that does not depend on the engine is tested with one engine, and nightly with both.
  const nightly = process.env.SKERRY_NIGHTLY !== undefined;
  const all = kind === 'docker' || nightly;
  let real: OwnTestEngine;
  let engine: CompleteEngine;
  let facts: EngineFacts;

  beforeAll(async () => {
    real = await startOwnEngine(kind);
    engine = openEngine({ url: real.url, instance: INSTANCE });
    facts = await engine.connect();
  });
  afterAll(async () => {
    await cleanUp(engine);
    await real[Symbol.asyncDispose]();
  });

  /** Removes the image, so that each test pulls it. */
  afterEach(async () => {
    for (const name of await engine.imageNames()) await engine.removeImage(name);
  });

  interface Options {
    reference?: string;
    registry?: object;
    signal?: AbortSignal;
    onProgress?: (percentage: number) => void;
  }

  const account = () => ({ ca: base64(registries.certificate.ca), username: 'limpet', password });

  /** Pulls an image as for a microservice of that registry. */
  function pull({ reference = 'team/sample:1', registry = {}, signal, onProgress }: Options) {
    const view = registryViewSchema.parse({ id: 7, url: locked.url, ...registry });
    const target = pullTarget(reference, view);
    const options = { target, platform: '', instance: INSTANCE, onProgress, reach: ANYWHERE };
    return pullImage(engine, options, signal ?? new AbortController().signal);
  }

  /** The error of a pull that fails; its message has no secret. */
  async function refusal(options: Options): Promise<{ code: string; message: string }> {
    const error = await pull(options).then(
      () => expect.fail('it was pulled'),
      (thrown) => thrown,
    );
    for (const secret of [password, base64(`limpet:${password}`), 'skerry-', '127.0.0.1'])
      expect(error.message).not.toContain(secret);
    expect((await engine.imageNames()).filter((name) => isRelayName(name, INSTANCE))).toEqual([]);
    return { code: error.code, message: error.message };
  }

  test('an image of a registry with its own authority and a password gets only the reference that was asked for', async () => {
    const percentages: number[] = [];
    const id = await pull({ registry: account(), onProgress: (percentage) => percentages.push(percentage) });
    expect(await engine.image(`${locked.host}/team/sample:1`)).toBe(id);
    expect((await engine.imageNames()).filter((name) => !name.includes('@'))).toEqual([`${locked.host}/team/sample:1`]);
    expect(percentages.at(-1)).toBe(100);
    expect(percentages).toEqual([...percentages].sort((a, b) => a - b));
    expect(percentages.length).toBeGreaterThan(1);
    // Removed by its id, as pruning does: another name would keep the image.
    await engine.removeImage(id);
    expect(await engine.imageNames()).toEqual([]);
  });

  test('an image that is pulled by digest keeps its reference, and a container is made from it', async () => {
    const reference = `team/sample@${registries.digests[1]}`;
    const id = await pull({ reference, registry: account() });
    const full = `${locked.host}/${reference}`;
    expect(await engine.image(full)).toBe(id);
    const spec = makeSpec({ facts, limits: own, view: { imageId: full, revision: 'r1' } } as SpecOptions);
    const container = await engine.create(spec);
    expect(container.imageId).toBe(id);
    await engine.start(container.id);
    expect((await findContainer(engine, container.id)).state).toBe('running');
    await engine.stop(container.id, 0);
    await engine.remove(container.id);
    await engine.removeImage(id);
    expect(await engine.image(full)).toBeUndefined();
  });

  test('an insecure registry is pulled from over plain HTTP, whether its URL has a scheme or not', async () => {
    for (const url of [plain.url, plain.host]) {
      const id = await pull({ registry: { url, insecure: true } });
      expect(await engine.image(`${plain.host}/team/sample:1`)).toBe(id);
      await engine.removeImage(id);
    }
  });

  test('several pulls at once, from several registries and of the same image, succeed', async () => {
    const insecure = { url: plain.url, insecure: true };
    const tag = (which: number) => `team/sample:${which}`;
    const ids = await Promise.all([
      pull({ reference: tag(1), registry: account() }),
      pull({ reference: tag(2), registry: account() }),
      pull({ reference: tag(1), registry: insecure }),
      pull({ reference: tag(2), registry: insecure }),
      pull({ reference: tag(1), registry: insecure }),
    ]);
    expect(new Set(ids).size).toBe(2);
    // podman may lose a name when another pull of the same image ends at that moment: the agent pulls it again.
    if (kind === 'podman')
      for (const registry of [account(), insecure])
        for (const which of [1, 2]) await pull({ reference: tag(which), registry });
    const names = [locked, plain].flatMap(({ host }) => [`${host}/${tag(1)}`, `${host}/${tag(2)}`]);
    // podman may restore a relay's name when two pulls of one image end at once; the supervisor removes it.
    const left = (name: string) => name.includes('@') || (kind === 'podman' && isRelayName(name, INSTANCE));
    expect((await engine.imageNames()).filter((name) => !left(name)).sort()).toEqual(names.sort());
  });

  test('an insecure registry is pulled from whatever its certificate', async () => {
    const id = await pull({ registry: { ...account(), ca: '', insecure: true } });
    expect(await engine.image(`${locked.host}/team/sample:1`)).toBe(id);
    await engine.removeImage(id);
  });

  test.runIf(all)('a registry with token authentication is pulled from', async () => {
    await using service = await createTokenService(
      registries.network.outside[0],
      registries.certificate,
      `limpet:${password}`,
    );
    await using guarded = await registries.registry(5002, { tls: registries.certificate, tokens: service.tokens });
    const registry = { ...account(), url: guarded.url };
    const id = await pull({ registry });
    expect(await engine.image(`${guarded.host}/team/sample:1`)).toBe(id);
    expect(service.given).toBe(1);
    const { code, message } = await refusal({
      registry: { ...registry, password: 'wrong' },
      reference: 'team/sample:2',
    });
    expect(code).toBe('ImageUnauthorized');
    expect(message).toContain('refuses the user "limpet"');
  });

  describe('a pull is refused with the reason:', () => {
    test('without the authority (so the engine alone would fail)', async () => {
      const { code, message } = await refusal({ registry: { username: 'limpet', password } });
      expect(code).toBe('ImagePullFailed');
      expect(message).toMatch(/certificate signed by unknown authority.*`ca` of the registry/);
    });
    test('with another authority', async () => {
      const { ca } = makeCertificate(join(temporaryFolder(), 'other'), ['other.example.com']);
      const { code, message } = await refusal({ registry: { ...account(), ca: base64(ca) } });
      expect(code).toBe('ImagePullFailed');
      expect(message).toMatch(/its certificate is not trusted/);
    });
    test('with an authority that is not PEM', async () => {
      expect((await refusal({ registry: { ...account(), ca: 'c2Fs' } })).message).toMatch(/ca of the registry .* PEM/);
    });
    test('with a wrong password', async () => {
      const { code, message } = await refusal({ registry: { ...account(), password: 'wrong' } });
      expect(code).toBe('ImageUnauthorized');
      expect(message).toContain(`the registry ${locked.host} refuses the user "limpet" or the password`);
    });
    test('without a password', async () => {
      const { code, message } = await refusal({ registry: { ca: account().ca } });
      expect(code).toBe('ImageUnauthorized');
      expect(message).toContain('wants credentials');
    });
    test('over plain HTTP that is not allowed (so the engine alone would fail)', async () => {
      const { code, message } = await refusal({ registry: { url: plain.host } });
      expect(code).toBe('ImagePullFailed');
      expect(message).toMatch(/HTTP response to HTTPS client.*`insecure` of the registry/);
    });
    test('for an image that the registry does not have', async () => {
      const { code, message } = await refusal({ reference: 'team/nothing:1', registry: account() });
      expect(code).toBe('ImageNotFound');
      expect(message).toContain(`${locked.host}/team/nothing:1`);
    });
  });

  test('a pull that is cancelled ends at once and leaves no name', async () => {
    await using proxy = await startRegistryProxy(registries.network.outside[0], plain);
    proxy.fault = (path) => (path.includes('/blobs/') ? async () => new Promise(() => {}) : undefined);
    const stop = new AbortController();
    const pulled = pull({ registry: { url: proxy.host, insecure: true }, signal: stop.signal });
    await until('the blobs to be asked for', () => proxy.requests.some(({ path }) => path.includes('/blobs/')));
    stop.abort(new Error('no longer wanted'));
    await expect(pulled).rejects.toThrow();
    expect((await engine.imageNames()).filter((name) => isRelayName(name, INSTANCE))).toEqual([]);
  });

  test.runIf(all)('a name left by an interrupted pull is removed when the agent starts again', async () => {
    // The database knows the instance.
    const ports = { database: memoryDatabase() };
    const again = async () => {
      await using fixture = await createAgentFixture(real.url, ports);
      await until('the engine', () => fixture.agent.supervisor.engine.state === 'connected');
      const { instance } = fixture.agent.identity;
      const id = await fixture.engine.pull({ reference: `${proxy.host}/team/sample:1`, platform: '' });
      const others = `127.0.0.1:9/${relayPrefix('another-agent')}0123/team/sample:1`;
      const before = await engine.imageNames();
      for (const name of [`127.0.0.1:9/${relayPrefix(instance)}0123/team/sample:1`, others])
        await fixture.engine.tag(id, name);
      return { before, others };
    };
    await using proxy = await startRegistryProxy('127.0.0.1', plain);
    const { others } = await again();
    const { before } = await again();
    expect(before).toContain(others);
    expect(before.filter((name) => name.startsWith('127.0.0.1:9/'))).toEqual([others]);
  });

  describe('while a registry fails, the old container runs, the reason is reported, and pulls are retried at growing intervals', () => {
    const isBlob = (path: string) => path.includes('/blobs/');
    /** the fault, the reported error, whether the engine pulls without a relay, the engines of the normal run, and an engine that the fault does not stop */
    const faults: Record<
      string,
      { fault: RegistryProxy['fault']; reports: RegExp; direct?: boolean; every: string[]; survives?: typeof kind }
    > = {
      'the registry answers 503': {
        fault: (_path, _incoming, outgoing) => {
          outgoing.writeHead(503, { 'content-type': 'application/json' });
          outgoing.end('{"errors":[{"code":"UNAVAILABLE","message":"closed for maintenance"}]}');
          return 'answered';
        },
        // containerd asks with HEAD, whose answer has no text.
        reports: kind === 'embedded' ? /status 503$/ : /status 503 \(closed for maintenance\)/,
        every: ['docker'],
      },
      'the registry answers 503, and there is no relay': {
        fault: (_path, _incoming, outgoing) => {
          outgoing.writeHead(503).end();
          return 'answered';
        },
        reports: /503/,
        every: ['docker'],
        direct: true,
      },
      'the registry cuts the connection in the middle of a layer': {
        fault: (path) => (isBlob(path) ? (piece, index) => (index < 2 ? piece : undefined) : undefined),
        reports: /the connection broke before the response ended/,
        // Docker retries by itself, with pauses.
        every: ['podman'],
        // containerd continues the layer where the connection broke.
        survives: 'embedded',
      },
      'the registry sends a layer with another digest': {
        fault: (path) => (isBlob(path) ? (piece) => Buffer.from(piece.map((byte) => byte ^ 1)) : undefined),
        every: ['docker', 'podman'],
        reports: /digest|verification|checksum|unexpected end|gzip|corrupt|parsing|invalid/i,
      },
      'the registry closes every connection': {
        fault: (_path, incoming) => {
          incoming.socket.destroy();
          return 'answered';
        },
        reports: /registry .*: (socket hang up|read ECONNRESET)/,
        every: ['docker'],
      },
    };
    test.each(Object.entries(faults).filter(([, { every }]) => nightly || every.includes(kind)))(
      '%s',
      async (_name, { fault, reports, direct, survives }) => {
        await using proxy = await startRegistryProxy(direct ? '127.0.0.1' : registries.network.outside[0], plain);
        await using fixture = await createAgentFixture(real.url);
        const { controller } = fixture;
        const first = sampleView('team/sample:1', 7, { revision: 'r1' });
        const status = () => controller.microservice(first.uuid);
        controller.change({ registries: [{ id: 7, url: proxy.host, insecure: !direct }], microservices: [first] });
        const { containerId } = await until('RUNNING', () => status()?.status === 'RUNNING' && status());
        proxy.fault = fault;
        controller.change({ microservices: [{ ...first, imageId: 'team/sample:2', revision: 'r2' }] });
        const isNew = () => status()?.revision === 'r2' && status()?.status === 'RUNNING';
        if (survives === kind) {
          await until('the new revision although the fault lasts', isNew, 100_000);
          return;
        }
        const seen = await until(
          'the reason, and a second attempt',
          () =>
            fixture.agent.supervisor.record(first.uuid)?.failure?.count === 2 && status()?.reason
              ? status()
              : undefined,
          45_000,
        );
        expect(seen).toMatchObject({ status: 'RUNNING', reason: 'ImagePullFailed', containerId });
        expect(seen.errorMessage).toMatch(reports);
        expect(seen.errorMessage).toContain(`${proxy.host}/team/sample:2`);
        expect(seen.errorMessage).not.toMatch(/skerry-|127\.0\.0\.1:\d+\/skerry/);
        const { failure } = fixture.agent.supervisor.record(first.uuid) ?? {};
        expect((failure?.notBefore ?? 0) - (failure?.at ?? 0)).toBe(backoff(2, SHORT_PAUSES));
        proxy.fault = undefined;
        await until('the new revision', isNew);
        expect(status()?.reason).toBeUndefined();
      },
      120_000,
    );

    test('a slow registry: the old container runs, and the progress is reported', async () => {
      await using proxy = await startRegistryProxy(registries.network.outside[0], plain);
      await using fixture = await createAgentFixture(real.url);
      const { controller } = fixture;
      const first = sampleView('team/sample:1', 7, { revision: 'r1' });
      const status = () => controller.microservice(first.uuid);
      controller.change({ registries: [{ id: 7, url: proxy.host, insecure: true }], microservices: [first] });
      const { containerId } = await until('RUNNING', () => status()?.status === 'RUNNING' && status());
      let on = () => {};
      const held = new Promise<void>((resolve) => {
        on = resolve;
      });
      proxy.fault = (path) =>
        isBlob(path) ? async (piece, index) => (index > 20 ? held.then(() => piece) : piece) : undefined;
      controller.change({ microservices: [{ ...first, imageId: 'team/sample:2', revision: 'r2' }] });
      const seen = await until('a part of it', () => (status()?.percentage ?? 0) > 0 && status());
      expect(seen).toMatchObject({ status: 'RUNNING', containerId, errorMessage: '' });
      expect(seen.percentage).toBeLessThan(100);
      on();
      await until('the new revision', () => status()?.revision === 'r2' && status()?.status === 'RUNNING');
    });
  });

  test.runIf(all)(
    'a change of a registry ends the back-off and counts from the next pull on, and no secret is logged',
    async () => {
      // Without a change, the second attempt is made after a minute.
      await using fixture = await createAgentFixture(real.url, { random: () => 29 });
      const { controller } = fixture;
      const view = sampleView('team/sample:1', 7, { revision: 'r1' });
      const status = () => controller.microservice(view.uuid);
      let rebuildCount = 0;
      const pullAgain = () => controller.change({ microservices: [{ ...view, rebuildCount: ++rebuildCount }] });
      const registryIs = (change: object) =>
        controller.change({ registries: [{ id: 7, url: locked.url, ...account(), ...change }] });
      const refused = (reason: string, message: string | RegExp) =>
        until(`${reason}: ${JSON.stringify(status())}`, () => {
          const seen = status();
          return seen?.reason === reason && new RegExp(message).test(seen.errorMessage ?? '') && seen;
        });
      const rebuilt = () =>
        until(
          `rebuild ${rebuildCount}`,
          () => status()?.status === 'RUNNING' && status()?.rebuildCount === rebuildCount,
        );

      registryIs({ password: 'wrong' });
      pullAgain();
      expect(await refused('ImageUnauthorized', 'refuses the user "limpet"')).toMatchObject({ status: 'FAILED' });
      registryIs({});
      await rebuilt();

      locked.login('limpet-later');
      pullAgain();
      expect(await refused('ImageUnauthorized', 'refuses the user "limpet"')).toMatchObject({ status: 'RUNNING' });
      registryIs({ password: REGISTRY_USERS['limpet-later'].password });
      await rebuilt();
      locked.login('limpet');

      registryIs({ ca: '' });
      pullAgain();
      expect(await refused('ImagePullFailed', 'certificate signed by unknown authority')).toMatchObject({
        status: 'RUNNING',
      });
      registryIs({});
      await rebuilt();

      // The registry has moved.
      registryIs({ url: plain.host });
      pullAgain();
      await refused('ImagePullFailed', 'does not speak TLS; only the setting "insecure" allows plain HTTP');
      registryIs({ url: plain.host, insecure: true });
      await rebuilt();
      expect(await fixture.engine.image(`${plain.host}/team/sample:1`)).toBe(status()?.imageId);

      const { containerId } = status() ?? {};
      controller.change({
        registries: [],
        microservices: [{ uuid: view.uuid, hold: true, reason: 'RegistryNotFound', message: 'registry 7 is gone' }],
      });
      await refused('RegistryNotFound', '');
      expect(status()).toMatchObject({ status: 'RUNNING', containerId });

      const said = fixture.logged() + JSON.stringify(controller.reports);
      expect(said).toContain('ImageUnauthorized');
      for (const { password: each } of Object.values(REGISTRY_USERS))
        for (const text of [each, base64(`limpet:${each}`)]) expect(said).not.toContain(text);
    },
  );
});

test('a microservice reports that its engine does not reach the agent on the loopback interface', async () => {
  // The engine is in the network of the registry, which is not that of the agent.
  await using far = await startOwnDockerApi('podman', { within: registries.network.command });
  await using fixture = await createAgentFixture(far.url);
  const view = sampleView('team/sample:1', 7);
  fixture.controller.change({ registries: [{ id: 7, url: plain.host, insecure: true }], microservices: [view] });
  const status = await until('the reason', () => {
    const seen = fixture.controller.microservice(view.uuid);
    return seen?.status === 'FAILED' ? seen : undefined;
  });
  expect(status.reason).toBe('ImagePullFailed');
  expect(status.errorMessage).toContain('need an engine that reaches the agent on the loopback interface');
  expect(status.errorMessage).toContain(far.url);
});
