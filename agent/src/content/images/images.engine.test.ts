import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { saveImage } from '../../../../hack/image.ts';
import { REGISTRY_USERS, type Registry } from '../../../../hack/registry.ts';
import { sampleImage } from '../../../../hack/sample.ts';
import { readTar } from '../../../../src/lib/tar/read.ts';
import { makeTar } from '../../../../src/lib/tar/write.ts';
import { until } from '../../engines/_contract.ts';
import { outsideOf, suiteEngines } from '../../engines/_outside.ts';
import { type OwnTestEngine, startOwnEngine } from '../../engines/_private.ts';
import type { PlainFile } from '../../machine/plain-file.ts';
import {
  type AgentFixture,
  createAgentFixture,
  type RegistryProxy,
  sampleView,
  startRegistryProxy,
  startTestRegistries,
  type TestRegistries,
} from '../registries/_registries.ts';

/** Images of engines by hand: a registry with an authority of its own and a password, and archives. */

const { password } = REGISTRY_USERS.limpet;
const base64 = (text: string) => Buffer.from(text).toString('base64');

let registries: TestRegistries;
let locked: Registry;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'skerry-images-'));
  registries = await startTestRegistries();
  locked = await registries.registry(5000, { tls: registries.certificate, auth: 'basic' });
});
afterAll(async () => {
  await registries[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/** A saved image without the list in docker's form. */
async function ociOnly(bytes: Buffer): Promise<Buffer> {
  const files: { path: string; type: 'file'; content: Buffer }[] = [];
  const source = async function* () {
    yield bytes;
  };
  for await (const { path, content } of readTar(source())) {
    const read: Buffer[] = [];
    for await (const piece of content) read.push(Buffer.from(piece));
    if (path !== 'manifest.json') files.push({ path, type: 'file', content: Buffer.concat(read) });
  }
  return makeTar(files);
}

const never = () => new AbortController().signal;

for (const tested of suiteEngines())
  describe(tested.kind, () => {
    const { kind, url } = tested;
    let fixture: AgentFixture;
    beforeAll(async () => {
      fixture = await createAgentFixture(url);
      await until('the engine', () => fixture.agent.supervisor.hasLooked);
      const account = {
        ...{ id: 7, type: 'oci' as const, url: locked.url, isPublic: false, userEmail: '', insecure: false },
        ...{ ca: base64(registries.certificate.ca), username: 'limpet', password },
      };
      fixture.agent.registries.apply(account);
      fixture.agent.registries.apply({ ...account, id: 8, password: 'canary-wrong' });
    });
    afterAll(() => fixture[Symbol.asyncDispose]());

    const pull = (image: string, registryId: number) => {
      const { images } = fixture.agent;
      return images.pull(images.pullRequest({ image, registryId, platform: '', by: '' }), () => {}, never());
    };
    let serial = 0;
    const load = async (bytes: Buffer) => {
      const path = join(folder, `${kind}-${++serial}.tar`);
      writeFileSync(path, bytes);
      const { images } = fixture.agent;
      return images.load(await images.open(path), () => {}, never());
    };
    const image = (greeting: string) => sampleImage({ env: { GREETING: `${kind} ${greeting} ${folder}` } });

    test('an image is pulled with the password and the authority of its registry, and is the agent’s own until it is removed', async () => {
      const { agent, engine } = fixture;
      const id = await pull('team/sample:1', 7);
      expect(await engine.image(`${locked.host}/team/sample:1`)).toBe(id);
      expect(agent.database.images().get(id)).toBe(`${locked.host}/team/sample:1`);
      const { images, uses } = await agent.images.list();
      expect(images.find((each) => each.id === id)?.tags).toEqual([`${locked.host}/team/sample:1`]);
      expect(uses.some(({ imageId }) => imageId === id)).toBe(false);
      expect(await agent.images.remove('team/sample:1')).toContain(id);
      expect(agent.database.images().has(id)).toBe(false);
      expect(await engine.image(id)).toBeUndefined();
    });

    test('a pull with a wrong password is refused, and its error has no secret', async () => {
      const error = await pull('team/sample:1', 8).then(
        () => expect.fail('it was pulled'),
        (thrown: Error & { code: string }) => thrown,
      );
      expect(error.code).toBe('FORBIDDEN');
      expect(error.message).not.toMatch(/canary|skerry-|127\.0\.0\.1/);
    });

    const name = `registry.example/${kind}/till:1`;
    // The others load archives in docker form.
    const forms: Record<string, (bytes: Buffer) => Buffer | Promise<Buffer>> = {
      ...(process.env.SKERRY_NIGHTLY && { 'in the form of OCI': ociOnly }),
      'in the form of OCI, compressed by gzip': async (bytes) => gzipSync(await ociOnly(bytes)),
    };
    test.each(Object.entries(forms))(
      'an archive is loaded, and a microservice of the local registry runs it: %s',
      async (form, packed) => {
        const { agent, controller } = fixture;
        const made = await image(form);
        const [loaded, ...others] = await load(await packed(saveImage(made, name)));
        expect(others).toEqual([]);
        expect(loaded).toEqual({ name, id: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) });
        const view = sampleView(name, 2, { revision: form });
        controller.change({ microservices: [view] });
        await until('it runs', () => controller.microservice(view.uuid)?.status === 'RUNNING', 60_000);
        expect(controller.microservice(view.uuid)?.imageId).toBe(loaded?.id);
        // It is a person's image: a prune leaves it, whether a microservice has it or not.
        controller.change({ microservices: [] });
        await until('it stops', async () => (await fixture.engine.containers()).length === 0, 60_000);
        await agent.prune();
        expect(await fixture.engine.image(name)).toBe(loaded?.id);
        expect(await agent.images.remove(name)).toContain(name);
      },
    );

    test('an archive does not take the name of the image of a microservice that runs', async () => {
      const { controller, engine } = fixture;
      const one = saveImage(await image('one'), name);
      const [loaded] = await load(one);
      const view = sampleView(name, 2, { name: 'till' });
      controller.change({ microservices: [view] });
      await until('it runs', () => controller.microservice(view.uuid)?.status === 'RUNNING', 60_000);
      await expect(load(saveImage(await image('another'), name))).rejects.toMatchObject({
        ...{ code: 'CONFLICT', details: { names: { [name]: ['shop.till'] } } },
      });
      expect(await engine.image(name)).toBe(loaded?.id);
      expect(await load(one)).toEqual([loaded]);
      const removal = fixture.agent.images.remove(name);
      await expect(removal).rejects.toMatchObject({
        code: 'CONFLICT',
        details: { containers: [`skerry-${view.uuid}`] },
      });
      controller.change({ microservices: [] });
      await until('it stops', async () => (await engine.containers()).length === 0, 60_000);
      await fixture.agent.images.remove(name);
    });

    test('an image of a container of somebody else, which only exists, is not removed', async () => {
      const { agent, engine } = fixture;
      const [loaded] = await load(saveImage(await image('foreign'), name));
      const outside = outsideOf(tested);
      const id = await outside.make({ name: `other-${kind}`, image: name });
      try {
        const removal = agent.images.remove(loaded?.id ?? '');
        await expect(removal).rejects.toMatchObject({ details: { containers: [`other-${kind}`] } });
        expect(await engine.image(name)).toBe(loaded?.id);
      } finally {
        await outside.remove(id);
      }
      expect(await agent.images.remove(loaded?.id ?? '')).toContain(loaded?.id);
    });

    test('an archive with a layer that is not what its configuration says is refused by the engine, and leaves no name', async () => {
      const bytes = saveImage(await image('damaged'), name);
      // The last byte of the layer, in the middle of its gzip stream.
      const damaged = Buffer.from(bytes);
      damaged[Math.floor(damaged.length / 2)] = (damaged[Math.floor(damaged.length / 2)] ?? 0) ^ 0xff;
      await expect(load(damaged)).rejects.toThrow();
      expect(await fixture.engine.image(name)).toBeUndefined();
    });
  });

const ENDINGS = suiteEngines().filter(({ kind }) => kind === 'docker' || process.env.SKERRY_NIGHTLY);
describe.each(ENDINGS)('an engine that is killed: $kind', ({ kind }) => {
  let engine: OwnTestEngine;
  let fixture: AgentFixture;
  let plain: RegistryProxy;
  beforeAll(async () => {
    engine = await startOwnEngine(kind);
    fixture = await createAgentFixture(engine.url);
    plain = await startRegistryProxy(registries.network.outside[0] as string, await registries.registry(5001));
    const { agent } = fixture;
    agent.registries.apply({
      ...{ id: 9, type: 'oci', url: `http://${plain.host}`, insecure: true },
      ...{ isPublic: true, userEmail: '', ca: '', username: '', password: '' },
    });
    await until('the engine', () => agent.supervisor.hasLooked);
  });
  afterAll(async () => {
    await fixture[Symbol.asyncDispose]();
    await plain[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
  });
  const isConnected = () => 'engine' in fixture.agent.supervisor.connection;
  const again = async () => {
    await engine.start();
    await until('the engine again', isConnected, 60_000);
  };

  test('while it gets an archive has no image of it, and loads it when it runs again', async () => {
    const name = 'registry.example/killed/till:1';
    const bytes = saveImage(await sampleImage({ env: { GREETING: `killed ${folder}` } }), name);
    let readings = 0;
    const file: PlainFile = {
      size: bytes.length,
      async *pieces() {
        const isSecond = ++readings === 2;
        yield bytes.subarray(0, 2000);
        if (isSecond) await engine.kill();
        yield bytes.subarray(2000);
      },
      [Symbol.asyncDispose]: async () => {},
    };
    const { images } = fixture.agent;
    await expect(images.load(file, () => {}, never())).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    await again();
    expect((await images.list()).images.flatMap(({ tags }) => tags)).not.toContain(name);
    expect(await images.load(file, () => {}, never())).toMatchObject([{ name }]);
  }, 120_000);

  test('while it pulls an image has an operation that fails, no image and no name of a relay, and pulls it when it runs again', async () => {
    const { images, database, imagePulls } = fixture.agent;
    const request = images.pullRequest({ image: 'team/sample:2', registryId: 9, platform: '', by: '' });
    let killed: Promise<void> | undefined;
    const kill = async () => {
      killed ??= engine.kill();
      await killed;
      return undefined;
    };
    plain.fault = (path) => (path.includes('/blobs/') ? kill : undefined);
    const members = { progress: 0, image: '', resolvedImage: '', platform: '', engine: '' };
    const begun = imagePulls.begin(members, async (update, signal) => {
      await images.pull(request, (progress) => update({ progress }), signal);
      return {};
    });
    const operation = await imagePulls.ended(begun.operationId, 60_000);
    expect(operation).toMatchObject({
      status: 'failed',
      error: { code: expect.stringMatching(/UNAVAILABLE|INTERNAL/) },
    });
    plain.fault = undefined;
    expect(database.images().size).toBe(0);
    await until('the loss', () => !isConnected());
    await again();
    const left = (await images.list()).images.flatMap(({ tags }) => tags).filter((each) => !each.includes('killed'));
    expect(left).toEqual([]);
    const id = await images.pull(request, () => {}, never());
    expect(database.images().get(id)).toBe(`${plain.host}/team/sample:2`);
  }, 120_000);
});
