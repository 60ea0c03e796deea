import { randomUUID } from 'node:crypto';
import { symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, test } from 'vitest';
import { buildImage, saveImage } from '../../../hack/image.ts';
import { plainView } from '../_web.ts';
import { policySchema } from '../domain/policy.ts';
import { EngineError } from '../engine-port/error.ts';
import { until } from '../engines/_contract.ts';
import { imageIdOf, MEMORY_IMAGE_BYTES, type MemoryEngine } from '../engines/memory/_engine.ts';
import type { RegistryManifest } from '../local/registries.ts';
import { type Asked, LocalAgent } from './_local-agent.ts';

/** The images of an engine in memory, by the local API and the command line. */

let local: LocalAgent;
let engine: MemoryEngine;
beforeEach(async () => {
  local = await LocalAgent.start();
  ({ engine } = local);
  await until('the engine', () => local.agent.supervisor.hasLooked);
  return () => local[Symbol.asyncDispose]();
});

const ask: LocalAgent['ask'] = (...args) => local.ask(...args);
const cli: LocalAgent['cli'] = (...args) => local.cli(...args);
const outcome = ({ status, body: { error } }: Asked) => [status, error?.code];
const own = () => [...local.agent.database.images().values()];

/** The data of an operation when it has ended. */
const ended = (path: string, { body }: Asked) =>
  until('the end of the operation', async () => {
    const { data } = (await ask('GET', `${path}/${body.data?.operationId}`)).body;
    return data?.status !== 'running' && data;
  });

/** A node with one microservice that runs, and these registries of its machine. */
async function running(
  imageId = 'registry.example/shop/web:1',
  registries: Partial<RegistryManifest>[] = [],
): Promise<void> {
  const plain = { type: 'oci' as const, isPublic: true, username: '', password: '', userEmail: '', ca: '' };
  for (const registry of registries) local.agent.registries.apply({ ...plain, url: '', insecure: false, ...registry });
  await local.provision(plainView({ uuid: randomUUID(), imageId }));
}

describe('the list of images', () => {
  test('has an image in use and an image that nothing uses', async () => {
    await running();
    engine.images.set('users/own:1', imageIdOf('users/own:1'));
    const { status, body } = await ask('GET', '/v1/images');
    expect([status, body.data?.count]).toEqual([200, 2]);
    const rows = body.data?.items as Record<string, unknown>[];
    expect(rows.map(({ repository, tag, inUse }) => [repository, tag, inUse])).toEqual([
      ['registry.example/shop/web', '1', true],
      ['users/own', '1', false],
    ]);
    expect((await cli('image', 'ls')).out).toMatch(/^registry.example\/shop\/web +1 +[0-9a-f]{12} .* yes$/m);
    expect(JSON.parse((await cli('image', 'ls', '-o', 'json')).out)).toMatchObject({ count: 2 });
  });

  test('is refused with a body, and with an empty one it is not', async () => {
    expect(outcome(await ask('GET', '/v1/images', {}))).toEqual([400, 'INVALID_ARGUMENT']);
    expect((await ask('GET', '/v1/images')).status).toBe(200);
  });

  test('is one call of the engine, however many images there are', async () => {
    for (let at = 0; at < 500; at++) engine.images.set(`many/image:${at}`, imageIdOf(String(at)));
    engine.history.length = 0;
    expect((await ask('GET', '/v1/images')).body.data?.count).toBe(500);
    expect(engine.history.filter((operation) => operation.startsWith('listImages'))).toHaveLength(1);
  });
});

describe('a pull by hand', () => {
  test('answers when it is done, and the image counts as pulled by this agent', async () => {
    const { status, body } = await ask('POST', '/v1/images:pull', { image: 'shop/web:1' });
    const want = { status: 'ok', image: 'shop/web:1', resolvedImage: 'shop/web:1', platform: 'linux/amd64' };
    expect([status, body.data]).toEqual([200, { ...want, engine: 'docker', message: 'Pulled shop/web:1' }]);
    expect(own()).toEqual(['shop/web:1']);
  });

  test('an asynchronous pull answers 202 with an operation, which ends', async () => {
    const gate = Promise.withResolvers<void>();
    engine.faults.before = (operation) => (operation === 'pull' ? gate.promise : undefined);
    const begun = await ask('POST', '/v1/images:pull', { image: 'shop/web:1', async: true, platform: 'linux/arm/v7' });
    expect(begun.status).toBe(202);
    expect(begun.body.data).toMatchObject({ status: 'running', progress: 0, platform: 'linux/arm/v7' });
    gate.resolve();
    expect(await ended('/v1/images:pull', begun)).toMatchObject({ status: 'succeeded', progress: 100 });
  });

  test('comes from the host of a registry that this machine knows', async () => {
    await running('example/app:1', [
      { id: 7, url: 'https://registry.example', username: 'limpet', password: 'canary' },
    ]);
    const { body } = await ask('POST', '/v1/images:pull', { image: 'shop/web:2', registryId: 7 });
    expect(body.data).toMatchObject({ resolvedImage: 'registry.example/shop/web:2', registryId: 7 });
    engine.faults.before = (operation) => {
      if (operation === 'pull') throw new EngineError('ImageUnauthorized', 'pull: denied');
    };
    const failed = await ask('POST', '/v1/images:pull', { image: 'shop/web:3', registryId: 7 });
    expect(outcome(failed)).toEqual([403, 'FORBIDDEN']);
    const begun = await ask('POST', '/v1/images:pull', { image: 'shop/web:3', registryId: 7, async: true });
    const operation = await ended('/v1/images:pull', begun);
    expect(operation).toMatchObject({ status: 'failed', error: { code: 'FORBIDDEN' } });
    expect(JSON.stringify([failed, begun, operation])).not.toMatch(/canary|limpet/);
  });

  test('waits for its turn at the registry, as pulls of microservices do', async () => {
    const gate = Promise.withResolvers<void>();
    let pulling = 0;
    engine.faults.before = (operation) => {
      if (operation !== 'pull') return undefined;
      pulling++;
      return gate.promise;
    };
    const names = [1, 2, 3].map((tag) => `registry.example/shop/web:${tag}`);
    const begun = await Promise.all(names.map((image) => ask('POST', '/v1/images:pull', { image, async: true })));
    await until('two pulls', () => pulling === 2);
    await ask('POST', '/v1/images:pull', { image: 'other.example/a:1', async: true });
    await until('a pull from another registry', () => pulling === 3);
    gate.resolve();
    for (const each of begun) expect(await ended('/v1/images:pull', each)).toMatchObject({ status: 'succeeded' });
  });

  const refused: Record<string, [object, number, RegExp]> = {
    'the cache of the machine': [{ registryId: 2 }, 400, /registryId 2 is the cache of this machine/],
    'an unknown registry': [{ registryId: 9 }, 400, /registryId 9 is not a registry of this machine/],
    'a number that no registry has': [{ registryId: -7 }, 400, /registryId "-7" is not the number of a registry/],
    'a hub': [{ registryId: 8 }, 400, /registryId 8 is a hub/],
    'a platform of one word': [{ platform: 'linux' }, 400, /platform "linux" is not a platform/],
    'a platform with a query': [{ platform: 'linux/amd64&x=1' }, 400, /is not a platform/],
    'a member that does not exist': [{ registry: 7 }, 400, /^registry is no member of this body$/],
    'no image': [{ image: '' }, 400, /image/],
    'a tag that stands for a digest': [{ image: `x.example/y:sha256-${'0'.repeat(64)}` }, 400, /stands for a digest/],
    'a path of the engine': [{ image: '../containers/x' }, 400, /is not a reference of an image/],
    'a host that the policy does not name': [{ image: 'evil.example/x:1' }, 403, /takes no images from evil.example/],
    'an image that does not exist': [{ image: 'registry.example/none:1' }, 404, /no image/],
  };
  test.each(Object.entries(refused))('is refused: %s', async (_, [change, status, message]) => {
    await running('registry.example/shop/web:1', [{ id: 8, url: 'https://hub.example', type: 'hub' }]);
    local.agent.setPolicy(policySchema.parse({ registries: ['registry.example'] }));
    engine.faults.before = (operation, subject) => {
      if (operation === 'pull' && subject.includes('none'))
        throw new EngineError('ImageNotFound', `no image ${subject}`);
    };
    engine.history.length = 0;
    const answer = await ask('POST', '/v1/images:pull', { image: 'registry.example/shop/api:1', ...change });
    expect(answer.status).toBe(status);
    expect(answer.body.error?.message).toMatch(message);
    expect(engine.history.filter((operation) => operation.startsWith('pull'))).toEqual([]);
  });

  test('by the command line shows the image, or the error of the operation', async () => {
    expect(await cli('image', 'pull', 'shop/web:1')).toEqual({
      ...{ code: 0, out: 'shop/web:1: pulled\n', err: 'shop/web:1: 100 %\n' },
    });
    engine.faults.before = (operation) => {
      if (operation === 'pull') throw new EngineError('ImageNotFound', 'no image');
    };
    expect(await cli('image', 'pull', 'shop/web:2')).toEqual({
      code: 4,
      out: '',
      err: 'Error[NOT_FOUND]: shop/web:2: no image\nSee: skerry-agent image ls\n',
    });
    expect((await cli('image', 'pull', 'x:1', '--registry', 'x')).code).toBe(2);
  });
});

describe('a pull that a microservice asks for', () => {
  const rules = [{ apiGroups: ['*'], resources: ['images/pull', 'images/pull/status'], verbs: ['*'] }];
  const web = randomUUID();
  const views = () => [
    plainView({ uuid: web, imageId: 'registry.example/shop/web:1', serviceAccount: { name: 'web', rules } }),
    plainView({ uuid: randomUUID(), application: 'mars', name: 'db', imageId: 'registry.example/mars/db:1' }),
  ];
  const token = () => Buffer.from(local.files.read(`serviceaccounts/${web}`)?.get('token') ?? '').toString();
  const pull = (body: object, bearer = token()) => ask('POST', '/v1/images:pull', body, bearer);
  beforeEach(() => local.provision(...views()));

  test('brings a missing image, and newer content of an image that its application alone uses', async () => {
    for (const image of ['registry.example/new:1', 'registry.example/shop/web:1', 'registry.example/new:1'])
      expect((await pull({ image })).status).toBe(200);
    // A person has given that image a further name.
    engine.images.set('registry.example/mine:1', engine.images.get('registry.example/new:1') ?? '');
    expect(outcome(await pull({ image: 'registry.example/mine:1' }))).toEqual([409, 'CONFLICT']);
  });

  test('replaces no image of another application, and none of a person, and does not say whose it is', async () => {
    engine.images.set('users/own:1', imageIdOf('x'));
    for (const image of ['registry.example/mars/db:1', 'users/own:1']) {
      engine.registry.set(image, imageIdOf('other'));
      const before = engine.images.get(image);
      const answer = await pull({ image });
      expect(outcome(answer)).toEqual([409, 'CONFLICT']);
      expect(answer.body.error?.message).not.toMatch(/mars\.db|person/);
      const begun = await pull({ image, async: true });
      await until('the end', async () => {
        const path = `/v1/images:pull/${begun.body.data?.operationId}`;
        return (await ask('GET', path, undefined, token())).body.data?.status === 'failed';
      });
      expect(engine.images.get(image)).toBe(before);
      // The admin may.
      expect((await pull({ image }, local.token)).status).toBe(200);
      expect(engine.images.get(image)).toBe(imageIdOf('other'));
    }
  });

  test('is for the platform of the machine alone', async () => {
    expect(outcome(await pull({ image: 'a.example/x:1', platform: 'linux/arm/v7' }))).toEqual([403, 'FORBIDDEN']);
  });

  test('leaves the admin a turn: of one microservice two are under way, of which one waits', async () => {
    const gate = Promise.withResolvers<void>();
    const pulling: string[] = [];
    engine.faults.before = (operation, subject) => {
      if (operation !== 'pull') return undefined;
      pulling.push(subject);
      return subject.includes('slow') ? gate.promise : undefined;
    };
    const names = ['registry.example/slow:1', 'registry.example/slow:2'];
    const begun = await Promise.all(names.map((image) => pull({ image, async: true })));
    await until('the first pull', () => pulling.length > 0);
    expect(outcome(await pull({ image: 'registry.example/slow:3', async: true }))).toEqual([503, 'UNAVAILABLE']);
    expect((await pull({ image: 'registry.example/fast:1' }, local.token)).status).toBe(200);
    expect(pulling).toHaveLength(2);
    gate.resolve();
    for (const each of begun) expect(await ended('/v1/images:pull', each)).toMatchObject({ status: 'succeeded' });
  });

  test('shows to that microservice, and pulls of others do not', async () => {
    const own = await pull({ image: 'registry.example/new:1', async: true });
    const other = await pull({ image: 'registry.example/new:2', async: true }, local.token);
    const seen = async ({ body }: Asked) =>
      (await ask('GET', `/v1/images:pull/${body.data?.operationId}`, undefined, token())).status;
    expect([await seen(own), await seen(other)]).toEqual([200, 404]);
  });
});

describe('a load', () => {
  const file = (name = 'image.tar') => join(local.folder, name);
  const image = (content: string) => buildImage({ files: [{ path: '/a', content }], architecture: 'amd64' });
  const load = async (path = file()) => {
    const begun = await ask('POST', '/v1/images:load', { path });
    expect(begun.body).toMatchObject({ success: true, data: { status: 'running', path, loaded: [], count: 0 } });
    expect(begun.status).toBe(202);
    return ended('/v1/images:load', begun);
  };
  const name = 'registry.example/shop/web:1';
  const linked = () => {
    symlinkSync('/etc/passwd', file('link'));
    return file('link');
  };

  test('gives the engine the image, which is a person’s and which a prune leaves', async () => {
    writeFileSync(file(), gzipSync(saveImage(image('x'), name)));
    const operation = await load();
    const id = engine.images.get(name);
    expect(operation).toMatchObject({ status: 'succeeded', progress: 100, count: 1, loaded: [{ name, id }] });
    expect(own()).toEqual([]);
    await ask('POST', '/v1/images:prune');
    expect(engine.images.get(name)).toBe(id);
  });

  test('an image that this agent had pulled becomes a person’s with the load', async () => {
    writeFileSync(file(), saveImage(image('x'), name));
    await load();
    const id = engine.images.get(name) as string;
    engine.images.delete(name);
    engine.registry.set(name, id);
    await ask('POST', '/v1/images:pull', { image: name });
    expect(own()).toEqual([name]);
    await load();
    expect(own()).toEqual([]);
  });

  test('another image under a name that a microservice uses is refused, and both are named', async () => {
    await running(name);
    const before = engine.images.get(name);
    writeFileSync(file(), saveImage(image('other'), name));
    const operation = await load();
    expect(operation).toMatchObject({
      status: 'failed',
      error: { code: 'CONFLICT', details: { names: { [name]: ['shop.web'] } } },
    });
    expect((operation.error as Error).message).toContain(`${name} (shop.web)`);
    expect(engine.images.get(name)).toBe(before);
  });

  test('a name that a microservice begins to use while the engine gets the layers is not taken', async () => {
    writeFileSync(file(), saveImage(image('other'), name));
    engine.faults.before = async (operation) => {
      if (operation !== 'load') return;
      engine.faults.before = undefined;
      await running(name);
    };
    expect(await load()).toMatchObject({ status: 'failed', error: { code: 'CONFLICT' } });
    expect(engine.images.get(name)).toBe(imageIdOf(name));
  });

  test('the same image under a name that a microservice uses is loaded, and so is an image that it waits for', async () => {
    writeFileSync(file(), saveImage(image('x'), name));
    await load();
    await running(name);
    expect(await load()).toMatchObject({ status: 'succeeded' });
    local.controller.change({
      microservices: [plainView({ uuid: randomUUID(), imageId: 'a.example/x:1', registryId: 2 })],
    });
    await until('the wait', () => local.agent.supervisor.desired?.length === 1);
    writeFileSync(file(), saveImage(image('y'), 'a.example/x:1'));
    expect(await load()).toMatchObject({ status: 'succeeded' });
  });

  test('a file without an archive fails with the reason', async () => {
    writeFileSync(file(), 'x'.repeat(2000));
    const error = {
      code: 'INVALID_ARGUMENT',
      message: 'the archive is not loaded: it is no tar archive, or is damaged',
    };
    expect(await load()).toMatchObject({ status: 'failed', error });
    truncateSync(file(), 0);
    expect(await load()).toMatchObject({ status: 'failed' });
  });

  test.each<[string, () => string, RegExp]>([
    ['a link', () => linked(), /is a link, not a file/],
    ['a device', () => '/dev/zero', /is a device/],
    ['a file of the kernel', () => '/proc/self/environ', /file of the kernel/],
    ['a relative path', () => 'image.tar', /is not an absolute path/],
    ['nothing', () => file('none'), /does not exist/],
    ['a path with a zero', () => '/tmp/x\0y', /is no path of a file/],
  ])('a request for %s is refused at once', async (_, make, message) => {
    const answer = await ask('POST', '/v1/images:load', { path: make() });
    expect(outcome(answer)).toEqual([400, 'INVALID_ARGUMENT']);
    expect(answer.body.error?.message).toMatch(message);
  });

  test('is not served to a microservice, and not over TCP', async () => {
    const answer = await fetch(`http://127.0.0.1:${local.port}/v1/images:load`, {
      method: 'POST',
      headers: { authorization: `Bearer ${local.token}` },
      body: JSON.stringify({ path: '/x' }),
    });
    expect(answer.status).toBe(403);
  });

  test('by the command line shows the names', async () => {
    writeFileSync(file(), saveImage(image('x'), name));
    expect(await cli('image', 'load', '-f', file())).toMatchObject({ code: 0, out: `${name}: loaded\n` });
    expect(await cli('image', 'load')).toMatchObject({ code: 2 });
  });
});

describe('the removal of an image', () => {
  const remove = (selector: string) => ask('POST', '/v1/images:remove', { selector });

  test('takes any image that no container uses, and says what it removed', async () => {
    engine.images.set('users/own:1', imageIdOf('x'));
    engine.images.set('users/own:2', imageIdOf('x'));
    const one = await remove('users/own:1');
    expect(one.body.data).toMatchObject({ status: 'ok', selector: 'users/own:1', removed: ['users/own:1'] });
    expect((await remove(imageIdOf('x').slice(7, 12))).body.data).toMatchObject({
      removed: ['users/own:2', imageIdOf('x')],
    });
    expect(engine.images.size).toBe(0);
  });

  test('forgets that this agent pulled the image', async () => {
    await ask('POST', '/v1/images:pull', { image: 'shop/web:1' });
    expect(await cli('image', 'rm', 'shop/web:1')).toMatchObject({ code: 0 });
    expect(own()).toEqual([]);
  });

  test('is refused while a container uses the image, with the names of the containers', async () => {
    await running();
    const [container] = await engine.containers();
    for (const selector of ['registry.example/shop/web:1', imageIdOf('registry.example/shop/web:1')]) {
      const answer = await remove(selector);
      expect(outcome(answer)).toEqual([409, 'CONFLICT']);
      expect(answer.body.error).toMatchObject({ details: { containers: [container?.name] } });
    }
    expect(engine.images.size).toBe(1);
  });

  test.each([
    ['nobody:1', 404, 'no image matches the selector "nobody:1"'],
    ['ab', 400, 'selector "ab" is neither a name of an image nor three or more hex digits of an id'],
    ['web:1', 400, 'selector "web:1" is ambiguous: a.example/web:1, b.example/web:1'],
  ])('by "%s" gets %i', async (selector, status, message) => {
    for (const host of ['a', 'b']) engine.images.set(`${host}.example/web:1`, imageIdOf('x'));
    const answer = await remove(selector);
    expect([answer.status, answer.body.error?.message]).toEqual([status, message]);
    expect(engine.images.size).toBe(2);
  });
});

describe('a prune', () => {
  const pruneAll = () => ask('POST', '/v1/system/prune?mode=all');

  test('a prune of images takes those that this agent pulled and nothing uses, and counts their bytes', async () => {
    await running();
    await ask('POST', '/v1/images:pull', { image: 'shop/old:1' });
    engine.images.set('users/own:1', imageIdOf('users/own:1'));
    const { body } = await ask('POST', '/v1/images:prune?mode=dangling');
    expect(body.data).toEqual({
      ...{ status: 'ok', mode: 'dangling', engine: 'docker', message: 'Only images that this agent pulled' },
      ...{ deleted: ['shop/old:1'], deletedCount: 1 },
      ...{ spaceReclaimedBytes: MEMORY_IMAGE_BYTES, spaceReclaimedHuman: '1.0 KB' },
    });
    expect([...engine.images.keys()].sort()).toEqual(['registry.example/shop/web:1', 'users/own:1']);
    expect(outcome(await ask('POST', '/v1/images:prune?mode=all'))).toEqual([400, 'INVALID_ARGUMENT']);
  });

  test('a prune of volumes removes nothing, and says where they are pruned', async () => {
    const { status, body } = await ask('POST', '/v1/system/prune?mode=volumes');
    expect(status).toBe(200);
    expect(body.data).toMatchObject({
      ...{ status: 'ok', mode: 'volumes', deleted: [], deletedCount: 0, volumesDeleted: [], volumesDeletedCount: 0 },
      ...{ spaceReclaimedBytes: 0, spaceReclaimedHuman: '0 B', message: expect.stringContaining('volume prune') },
    });
  });

  test('a prune of all continues with models when images fail, and says which step failed', async () => {
    await ask('POST', '/v1/images:pull', { image: 'shop/old:1' });
    engine.removeImage = () => Promise.reject(new EngineError('Failed', 'device busy'));
    const { status, body } = await pruneAll();
    expect(status).toBe(200);
    expect(body.data).toMatchObject({
      ...{ status: 'partial', mode: 'all', engine: 'docker', errors: { images: 'shop/old:1: device busy' } },
      ...{ containersDeleted: [], containersDeletedCount: 0, imagesDeleted: [], imagesDeletedCount: 0 },
      ...{ volumesDeleted: [], volumesDeletedCount: 0, modelsRemoved: [], modelsRemovedCount: 0, deletedCount: 0 },
    });
    engine.imageUses = () => Promise.reject(new EngineError('Unavailable', 'away'));
    expect((await pruneAll()).body.data).toMatchObject({ status: 'partial', errors: { images: 'away' } });
    expect(await cli('prune', 'all')).toMatchObject({ code: 1, out: expect.stringContaining('Stays: images: away') });
    expect((await ask('POST', '/v1/images:prune')).status).not.toBe(200);
  });
});
