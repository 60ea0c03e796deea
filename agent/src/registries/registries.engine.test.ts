import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { makeCertificate } from '../../../hack/certificate.ts';
import { REGISTRY_USERS, type Registry } from '../../../hack/registry.ts';
import { registryViewSchema } from '../../../src/wire/agent.ts';
import type { EngineFacts } from '../domain/engine.ts';
import { pullTarget } from '../domain/target.ts';
import { cleanUp, findContainer, INSTANCE, makeSpec, type SpecOptions, until } from '../engines/_contract.ts';
import { DockerEngine } from '../engines/docker/engine.ts';
import { backoff } from '../plan/backoff.ts';
import { memoryDatabase } from '../state/database.ts';
import { ownLimits } from '../system/machine.ts';
import {
  type Breakwater,
  createBreakwater,
  createHarbour,
  createStation,
  createTokenService,
  type Harbour,
  HURRIED,
  sampleView,
  startEngine,
} from './_registries.ts';
import { isRelayName, pullImage, relayMark } from './pull.ts';

/** Registries as they are in the world: with authorities and passwords of their own, at an address that is not loopback. */

const own = ownLimits();
const { password } = REGISTRY_USERS.limpet;
const base64 = (text: string) => Buffer.from(text).toString('base64');

let harbour: Harbour;
let locked: Registry;
let plain: Registry;

beforeAll(async () => {
  harbour = await createHarbour();
  locked = await harbour.registry(5000, { tls: harbour.certificate, auth: 'basic' });
  plain = await harbour.registry(5001);
});
afterAll(() => harbour[Symbol.asyncDispose]());

describe.each(['docker', 'podman'] as const)('%s', (kind) => {
  // What the agent alone decides is tried with one engine; nightly with both.
  const nightly = process.env.SKERRY_NIGHTLY !== undefined;
  const all = kind === 'docker' || nightly;
  let real: Awaited<ReturnType<typeof startEngine>>;
  let engine: DockerEngine;
  let facts: EngineFacts;

  beforeAll(async () => {
    real = await startEngine(kind);
    engine = new DockerEngine({ url: real.url, instance: INSTANCE });
    facts = await engine.connect();
  });
  afterAll(async () => {
    await cleanUp(engine);
    await real[Symbol.asyncDispose]();
  });

  /** What one test has pulled, the next one pulls again. */
  afterEach(async () => {
    for (const name of await engine.imageNames()) await engine.removeImage(name);
  });

  interface Options {
    reference?: string;
    registry?: object;
    signal?: AbortSignal;
    onProgress?: (percentage: number) => void;
  }

  const account = () => ({ ca: base64(harbour.certificate.ca), username: 'limpet', password });

  /** Pulls as a microservice of that registry would. */
  function pull({ reference = 'team/sample:1', registry = {}, signal, onProgress }: Options) {
    const view = registryViewSchema.parse({ id: 7, url: locked.url, ...registry });
    const target = pullTarget(reference, view);
    const options = { target, platform: '', instance: INSTANCE, onProgress };
    return pullImage(engine, options, signal ?? new AbortController().signal);
  }

  /** Why a pull fails; nothing secret is in it. */
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

  test('an authority of its own and a password: the image is there under the name that was asked for, and no other', async () => {
    const percentages: number[] = [];
    const id = await pull({ registry: account(), onProgress: (percentage) => percentages.push(percentage) });
    expect(await engine.image(`${locked.host}/team/sample:1`)).toBe(id);
    expect((await engine.imageNames()).filter((name) => !name.includes('@'))).toEqual([`${locked.host}/team/sample:1`]);
    expect(percentages.at(-1)).toBe(100);
    expect(percentages).toEqual([...percentages].sort((a, b) => a - b));
    expect(percentages.length).toBeGreaterThan(1);
    // By its id, as housekeeping does: a further name would hold it.
    await engine.removeImage(id);
    expect(await engine.imageNames()).toEqual([]);
  });

  test('by digest: the reference survives, and a container is made from it', async () => {
    const reference = `team/sample@${harbour.digests[1]}`;
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

  test('plain HTTP, where that is allowed, with the scheme named or found out', async () => {
    for (const url of [plain.url, plain.host]) {
      const id = await pull({ registry: { url, insecure: true } });
      expect(await engine.image(`${plain.host}/team/sample:1`)).toBe(id);
      await engine.removeImage(id);
    }
  });

  test('several at once, from several registries, the same image among them', async () => {
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
    // podman may lose a name when another pull of the same image ends at that moment: it is found missing, and pulled.
    if (kind === 'podman')
      for (const registry of [account(), insecure])
        for (const which of [1, 2]) await pull({ reference: tag(which), registry });
    const names = [locked, plain].flatMap(({ host }) => [`${host}/${tag(1)}`, `${host}/${tag(2)}`]);
    // podman may bring a relay's name back when two pulls of one image end at once; the supervisor sees to that.
    const left = (name: string) => name.includes('@') || (kind === 'podman' && isRelayName(name, INSTANCE));
    expect((await engine.imageNames()).filter((name) => !left(name)).sort()).toEqual(names.sort());
  });

  test('a certificate that nobody vouches for, where that is allowed', async () => {
    const id = await pull({ registry: { ...account(), ca: '', insecure: true } });
    expect(await engine.image(`${locked.host}/team/sample:1`)).toBe(id);
    await engine.removeImage(id);
  });

  test.runIf(all)('a registry that wants tokens', async () => {
    await using service = await createTokenService(
      harbour.network.outside[0],
      harbour.certificate,
      `limpet:${password}`,
    );
    await using guarded = await harbour.registry(5002, { tls: harbour.certificate, tokens: service.tokens });
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

  describe('is refused, and told why:', () => {
    test('without the authority (so the engine alone would fail)', async () => {
      const { code, message } = await refusal({ registry: { username: 'limpet', password } });
      expect(code).toBe('ImagePullFailed');
      expect(message).toMatch(/certificate signed by unknown authority.*`ca` of the registry/);
    });
    test('with another authority', async () => {
      const { ca } = makeCertificate(`${real.folder}/other`, ['other.example.com']);
      const { code, message } = await refusal({ registry: { ...account(), ca: base64(ca) } });
      expect(code).toBe('ImagePullFailed');
      expect(message).toMatch(/its certificate is not trusted/);
    });
    test('an authority that is none', async () => {
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
    test('plain HTTP that is not allowed (so the engine alone would fail)', async () => {
      const { code, message } = await refusal({ registry: { url: plain.host } });
      expect(code).toBe('ImagePullFailed');
      expect(message).toMatch(/HTTP response to HTTPS client.*`insecure` of the registry/);
    });
    test('an image that the registry does not have', async () => {
      const { code, message } = await refusal({ reference: 'team/nothing:1', registry: account() });
      expect(code).toBe('ImageNotFound');
      expect(message).toContain(`${locked.host}/team/nothing:1`);
    });
  });

  test('a pull that is called off ends at once, and leaves nothing behind', async () => {
    await using water = await createBreakwater(harbour.network.outside[0], plain);
    water.fault = (path) => (path.includes('/blobs/') ? async () => new Promise(() => {}) : undefined);
    const stop = new AbortController();
    const pulled = pull({ registry: { url: water.host, insecure: true }, signal: stop.signal });
    await until('the blobs to be asked for', () => water.requests.some(({ path }) => path.includes('/blobs/')));
    stop.abort(new Error('no longer wanted'));
    await expect(pulled).rejects.toThrow();
    expect((await engine.imageNames()).filter((name) => isRelayName(name, INSTANCE))).toEqual([]);
  });

  test.runIf(all)('a name that a pull left which was cut short goes when the agent is back', async () => {
    // The database knows the instance.
    const ports = { database: memoryDatabase() };
    const again = async () => {
      await using station = await createStation(real.url, ports);
      await until('the engine', () => station.agent.supervisor.engine.state === 'connected');
      const { instance } = station.agent.identity;
      const id = await station.engine.pull({ reference: `${pier.host}/team/sample:1`, platform: '' });
      const others = `127.0.0.1:9/${relayMark('another-agent')}0123/team/sample:1`;
      const before = await engine.imageNames();
      for (const name of [`127.0.0.1:9/${relayMark(instance)}0123/team/sample:1`, others])
        await station.engine.tag(id, name);
      return { before, others };
    };
    await using pier = await createBreakwater('127.0.0.1', plain);
    const { others } = await again();
    const { before } = await again();
    expect(before).toContain(others);
    expect(before.filter((name) => name.startsWith('127.0.0.1:9/'))).toEqual([others]);
  });

  describe('a registry that misbehaves: what runs runs on, the reason is told, and it is tried again ever more slowly', () => {
    const isBlob = (path: string) => path.includes('/blobs/');
    /** what it does, what of that is told, whether the engine pulls by itself, and which engines are asked every time */
    const faults: Record<string, { fault: Breakwater['fault']; told: RegExp; direct?: boolean; every: string[] }> = {
      'it fails': {
        fault: (_path, _incoming, outgoing) => {
          outgoing.writeHead(503, { 'content-type': 'application/json' });
          outgoing.end('{"errors":[{"code":"UNAVAILABLE","message":"the harbour is closed"}]}');
          return 'answered';
        },
        told: /status 503 \(the harbour is closed\)/,
        every: ['docker'],
      },
      'it fails, and no relay is between': {
        fault: (_path, _incoming, outgoing) => {
          outgoing.writeHead(503).end();
          return 'answered';
        },
        told: /503/,
        every: ['docker'],
        direct: true,
      },
      'it breaks off in the middle of a layer': {
        fault: (path) => (isBlob(path) ? (piece, index) => (index < 2 ? piece : undefined) : undefined),
        told: /the connection broke before the answer ended/,
        // Docker waits between attempts of its own.
        every: ['podman'],
      },
      'it sends something else than it said': {
        fault: (path) => (isBlob(path) ? (piece) => Buffer.from(piece.map((byte) => byte ^ 1)) : undefined),
        every: ['docker', 'podman'],
        told: /digest|verification|checksum|unexpected end|gzip|corrupt|parsing|invalid/i,
      },
      'it goes away': {
        fault: (_path, incoming) => {
          incoming.socket.destroy();
          return 'answered';
        },
        told: /registry .*: (socket hang up|read ECONNRESET)/,
        every: ['docker'],
      },
    };
    test.each(Object.entries(faults).filter(([, { every }]) => nightly || every.includes(kind)))(
      '%s',
      async (_name, { fault, told, direct }) => {
        await using water = await createBreakwater(direct ? '127.0.0.1' : harbour.network.outside[0], plain);
        await using station = await createStation(real.url);
        const { controller } = station;
        const first = sampleView('team/sample:1', 7, { revision: 'r1' });
        const status = () => controller.microservice(first.uuid);
        controller.change((c) => {
          c.registries = [{ id: 7, url: water.host, insecure: !direct }];
          c.microservices = [first];
        });
        const { containerId } = await until('RUNNING', () => status()?.status === 'RUNNING' && status());
        water.fault = fault;
        controller.change((c) => {
          c.microservices = [{ ...first, imageId: 'team/sample:2', revision: 'r2' }];
        });
        const seen = await until(
          'the reason, and a second attempt',
          () =>
            station.agent.supervisor.record(first.uuid)?.failure?.count === 2 && status()?.reason
              ? status()
              : undefined,
          45_000,
        );
        expect(seen).toMatchObject({ status: 'RUNNING', reason: 'ImagePullFailed', containerId });
        expect(seen.errorMessage).toMatch(told);
        expect(seen.errorMessage).toContain(`${water.host}/team/sample:2`);
        expect(seen.errorMessage).not.toMatch(/skerry-|127\.0\.0\.1:\d+\/skerry/);
        const { failure } = station.agent.supervisor.record(first.uuid) ?? {};
        expect((failure?.notBefore ?? 0) - (failure?.at ?? 0)).toBe(backoff(2, HURRIED));
        water.fault = undefined;
        await until('the new revision', () => status()?.revision === 'r2' && status()?.status === 'RUNNING');
        expect(status()?.reason).toBeUndefined();
      },
    );

    test('it is slow: what runs runs on, and the progress is told', async () => {
      await using water = await createBreakwater(harbour.network.outside[0], plain);
      await using station = await createStation(real.url);
      const { controller } = station;
      const first = sampleView('team/sample:1', 7, { revision: 'r1' });
      const status = () => controller.microservice(first.uuid);
      controller.change((c) => {
        c.registries = [{ id: 7, url: water.host, insecure: true }];
        c.microservices = [first];
      });
      const { containerId } = await until('RUNNING', () => status()?.status === 'RUNNING' && status());
      let on = () => {};
      const held = new Promise<void>((resolve) => {
        on = resolve;
      });
      water.fault = (path) =>
        isBlob(path) ? async (piece, index) => (index > 20 ? held.then(() => piece) : piece) : undefined;
      controller.change((c) => {
        c.microservices = [{ ...first, imageId: 'team/sample:2', revision: 'r2' }];
      });
      const seen = await until('a part of it', () => (status()?.percentage ?? 0) > 0 && status());
      expect(seen).toMatchObject({ status: 'RUNNING', containerId, errorMessage: '' });
      expect(seen.percentage).toBeLessThan(100);
      on();
      await until('the new revision', () => status()?.revision === 'r2' && status()?.status === 'RUNNING');
    });
  });

  test.runIf(all)(
    'what changes about a registry counts from the next pull on, and ends the wait for it; secrets stay secret',
    async () => {
      // Without a change a second attempt comes after a minute.
      await using station = await createStation(real.url, { random: () => 29 });
      const { controller } = station;
      const view = sampleView('team/sample:1', 7, { revision: 'r1' });
      const status = () => controller.microservice(view.uuid);
      let rebuildOrder = 0;
      const pullAgain = () =>
        controller.change((c) => {
          c.microservices = [{ ...view, rebuildOrder: ++rebuildOrder }];
        });
      const registryIs = (change: object) =>
        controller.change((c) => {
          c.registries = [{ id: 7, url: locked.url, ...account(), ...change }];
        });
      const refused = (reason: string, message: string | RegExp) =>
        until(`${reason}: ${JSON.stringify(status())}`, () => {
          const seen = status();
          return seen?.reason === reason && new RegExp(message).test(seen.errorMessage ?? '') && seen;
        });
      const rebuilt = () =>
        until(
          `rebuild ${rebuildOrder}`,
          () => status()?.status === 'RUNNING' && status()?.rebuildOrder === rebuildOrder,
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

      // It has moved.
      registryIs({ url: plain.host });
      pullAgain();
      await refused('ImagePullFailed', 'does not speak TLS; only the setting "insecure" allows plain HTTP');
      registryIs({ url: plain.host, insecure: true });
      await rebuilt();
      expect(await station.engine.image(`${plain.host}/team/sample:1`)).toBe(status()?.imageId);

      const { containerId } = status() ?? {};
      controller.change((c) => {
        c.registries = [];
        c.microservices = [{ uuid: view.uuid, hold: true, reason: 'RegistryNotFound', message: 'registry 7 is gone' }];
      });
      await refused('RegistryNotFound', '');
      expect(status()).toMatchObject({ status: 'RUNNING', containerId });

      const said = station.logged() + JSON.stringify(controller.reports);
      expect(said).toContain('ImageUnauthorized');
      for (const { password: each } of Object.values(REGISTRY_USERS))
        for (const text of [each, base64(`limpet:${each}`)]) expect(said).not.toContain(text);
    },
  );
});

test('an engine that does not reach the agent on the loopback interface: the microservice says so', async () => {
  // In the network of the registry, which is not that of the agent.
  await using far = await startEngine('podman', { within: harbour.network.command });
  await using station = await createStation(far.url);
  const view = sampleView('team/sample:1', 7);
  station.controller.change((c) => {
    c.registries = [{ id: 7, url: plain.host, insecure: true }];
    c.microservices = [view];
  });
  const status = await until('the reason', () => {
    const seen = station.controller.microservice(view.uuid);
    return seen?.status === 'FAILED' ? seen : undefined;
  });
  expect(status.reason).toBe('ImagePullFailed');
  expect(status.errorMessage).toContain('need an engine that reaches the agent on the loopback interface');
  expect(status.errorMessage).toContain(far.url);
});
