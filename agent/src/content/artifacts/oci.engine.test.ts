import { randomBytes, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { makeCertificate } from '../../../../hack/certificate.ts';
import { buildImage, buildIndex, pushImage } from '../../../../hack/image.ts';
import { type Registry, startRegistry } from '../../../../hack/registry.ts';
import type {} from '../../../../hack/testing/provided.ts';
import { makeTar } from '../../../../src/lib/tar/_parts.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { until } from '../../engines/_contract.ts';
import { type ArtifactLayer, makeOciArtifact } from './_artifact.ts';
import { bindingEntry, makeArtifact, TestMachine } from './_machine.ts';

/** Artifacts from real registries: without TLS on the loopback interface, and with a password behind an own authority. */

const url = inject('registryUrl');
const folder = temporaryFolder();
const certificate = makeCertificate(join(folder, 'tls'), ['127.0.0.1']);
let secured: Registry;

beforeAll(async () => {
  const tls = { cert: certificate.cert, key: certificate.key };
  await using open = await startRegistry({ dir: join(folder, 'open') });
  await pushImage(open.url, 'team/tiny', '1', makeOciArtifact([{ content: 'secured', title: 'a.txt' }]));
  secured = await startRegistry({ dir: join(folder, 'secured'), images: open.images, tls, auth: 'basic' });
});
afterAll(async () => {
  await secured?.stop();
});

async function fixture(layers?: readonly ArtifactLayer[]) {
  const machine = new TestMachine().start();
  onTestFinished(() => machine[Symbol.asyncDispose]());
  machine.registry({ url });
  const repo = `artifacts/${randomUUID()}`;
  const push = async (tag: string, each: readonly ArtifactLayer[]) =>
    (await pushImage(url, repo, tag, makeOciArtifact(each))).digest;
  const digest = layers ? await push('latest', layers) : '';
  return { machine, repo, push, digest };
}

test('the layers of an artifact become the files of their titles', async () => {
  const weights = randomBytes(3_000_000);
  const { machine, repo, digest } = await fixture([
    { content: '{}', title: 'config.json' },
    { content: weights, title: 'sub/weights.bin' },
  ]);
  const uuid = randomUUID();
  machine.run(bindingEntry(uuid, ['tiny']));
  expect(await machine.pulls(makeArtifact({ repo }))).toMatchObject({
    ...{ resolvedRevision: digest, revisionFloating: true, totalBytes: weights.length + 2 },
  });
  await until('the projection', () => machine.artifacts.waitOf(uuid) === undefined);
  const files = machine.files('volumes/models', uuid, 'ro');
  expect(Object.keys(files)).toEqual(['tiny/config.json', 'tiny/sub/weights.bin']);
});

test('a digest pins the revision, and a tag of the same content leads to the same file of the store', async () => {
  const { machine, repo, push, digest } = await fixture([{ content: 'one', title: 'a.txt' }]);
  const view = makeArtifact({ repo, revision: digest });
  expect(await machine.pulls(view)).toMatchObject({ revisionFloating: false });
  await push('v2', [{ content: 'one', title: 'a.txt' }]);
  machine.want('models', { ...view, revision: 'v2' });
  await until('the new revision', () => machine.status('models', 'tiny')?.revisionFloating);
  expect(machine.blobs).toHaveLength(1);
});

test('weights without a title are the file model.gguf, and other layers without one are numbered', async () => {
  const { machine, repo } = await fixture([
    { content: 'weights', mediaType: 'application/vnd.docker.ai.gguf.v3' },
    { content: 'licence', mediaType: 'application/vnd.docker.ai.license' },
  ]);
  const uuid = randomUUID();
  machine.run(bindingEntry(uuid, ['tiny']));
  machine.want('models', makeArtifact({ repo }));
  await until('the projection', () => machine.artifacts.waitOf(uuid) === undefined);
  expect(machine.files('volumes/models', uuid, 'ro')).toEqual({
    'tiny/layer-2': 'licence',
    'tiny/model.gguf': 'weights',
  });
});

test('a tag that moves is followed, and the content under it switches', async () => {
  const { machine, repo, push, digest } = await fixture([{ content: 'one', title: 'a.txt' }]);
  await machine.stop();
  machine.lookUpEvery = 30;
  machine.start();
  const uuid = randomUUID();
  machine.run(bindingEntry(uuid, ['tiny']));
  machine.want('models', makeArtifact({ repo }));
  await until('the projection', () => machine.artifacts.waitOf(uuid) === undefined);
  const moved = await push('latest', [{ content: 'two', title: 'a.txt' }]);
  const seen = () => machine.files('volumes/models', uuid, 'ro')['tiny/a.txt'];
  await until('the new content', () => seen() === 'two');
  expect(machine.status('models', 'tiny')?.resolvedRevision).toBe(moved);
  expect(moved).not.toBe(digest);
});

test('an index leads to the manifest of this machine', async () => {
  const { machine, repo } = await fixture();
  const other = buildImage({ files: [], architecture: 'arm64' });
  const own = makeOciArtifact([{ content: 'own', title: 'a.txt' }]);
  const top = { ...own.top, platform: { os: 'linux', architecture: 'amd64' } };
  await pushImage(url, repo, 'latest', buildIndex([other, { ...own, top }]));
  expect(await machine.pulls(makeArtifact({ repo }))).toMatchObject({ totalBytes: 3 });
});

test('a layer that is an archive becomes the files that are in it, beside those of other layers', async () => {
  const archive = gzipSync(makeTar({ path: 'folder/', type: '5' }, { path: 'folder/a.txt', content: 'packed' }));
  const { machine, repo } = await fixture([
    { content: archive, title: 'folder', mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip' },
    {
      content: makeTar({ path: './b.txt', content: 'plain' }),
      title: 'b',
      mediaType: 'application/vnd.example.v1.tar',
    },
    { content: '{}', title: 'config.json' },
  ]);
  const uuid = randomUUID();
  machine.run(bindingEntry(uuid, ['tiny']));
  expect(await machine.pulls(makeArtifact({ repo }))).toMatchObject({ totalBytes: 13 });
  await until('the projection', () => machine.artifacts.waitOf(uuid) === undefined);
  expect(machine.files('volumes/models', uuid, 'ro')).toEqual({
    'tiny/b.txt': 'plain',
    'tiny/config.json': '{}',
    'tiny/folder/a.txt': 'packed',
  });
  await until('only the files in the store', () => machine.blobs.length === 3);
});

test('an archive in another form is refused with its media type', async () => {
  const mediaType = 'application/vnd.oci.image.layer.v1.tar+zstd';
  const { machine, repo } = await fixture([{ content: 'x', title: 'folder', mediaType }]);
  machine.want('knowledge', makeArtifact({ repo }));
  expect((await machine.reaches('knowledge', 'tiny', 'Failed')).lastError).toMatch(
    /its layer "folder" is an archive in a form that cannot be unpacked \(.*tar\+zstd\); tar and tar\+gzip can/,
  );
});

test('a title that leads out of the directory is refused', async () => {
  const { machine, repo } = await fixture([{ content: 'x', title: '../../x' }]);
  expect(await machine.failureOf(makeArtifact({ repo }))).toMatch(/no path below a directory/);
});

test('a tag that does not exist fails with its name', async () => {
  const { machine, repo } = await fixture([{ content: 'x', title: 'x' }]);
  expect(await machine.failureOf(makeArtifact({ repo, revision: 'v9' }))).toBe(
    `the manifest ${repo}:v9 does not exist`,
  );
});

test('a registry with a password behind an own authority needs both', async () => {
  const { machine } = await fixture();
  const registry = { url: secured.url, ca: Buffer.from(certificate.ca).toString('base64') };
  machine.registry(registry);
  expect(await machine.failureOf(makeArtifact({ repo: 'team/tiny', revision: '1' }))).toMatch(/wants credentials/);
  machine.registry({ ...registry, username: 'limpet', password: 'holds-fast' });
  await machine.reaches('models', 'tiny', 'Ready');
  expect(machine.logged).not.toContain('holds-fast');
});
