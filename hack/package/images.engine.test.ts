import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { NODE_FLAGS } from '../agent-release.ts';
import { bundle, type Origin } from '../build.ts';
import { callEngine, loadImage } from '../engine-api.ts';
import { hostArchitecture, saveImage } from '../image.ts';
import { ROOT } from '../paths.ts';
import { type Ground, groundImage, productImage, products } from './images.ts';
import { librariesFor } from './parts.ts';

/** The images of a release, with the Node that the tests run on, in a real engine. */
const engineUrl = inject('engineUrl');
const architecture = hostArchitecture();
const origin: Origin = { version: '0.0.1', revision: 'test', created: new Date(0) };
const MEGABYTE = 1e6;
const dir = temporaryFolder();

beforeAll(async () => {
  const bundles = {
    skerry: await bundle('skerry', dir),
    'skerry-templates': await bundle('skerry-templates', dir),
    'skerry-agent': await bundle('skerry-agent', dir),
  };
  const binary = join(ROOT, 'node_modules/node/bin/node');
  const license = join(ROOT, 'node_modules/zod/LICENSE');
  const ground: Ground = { node: { binary, license }, libraries: await librariesFor(architecture) };
  const below = groundImage(ground, architecture, origin, 1);
  for (const product of products(bundles, NODE_FLAGS)) {
    const { image } = productImage(product, ground, below, architecture, origin);
    await loadImage(engineUrl, saveImage(image, referenceOf(product.name)));
  }
}, 120_000);
afterAll(async () => {
  for (const name of ['skerry-controller', 'skerry-agent'])
    await callEngine(engineUrl, 'DELETE', `/v1.41/images/${encodeURIComponent(referenceOf(name))}?force=true`);
});

const referenceOf = (name: string) => `127.0.0.1:1/release/${name}:test`;

/** What a container of an image writes to its output until it ends, and its exit code. */
async function run(name: string, create: Record<string, unknown>): Promise<{ code: number; output: string }> {
  const { Id } = await callEngine<{ Id: string }>(engineUrl, 'POST', '/v1.41/containers/create', {
    ...{ Image: referenceOf(name), Tty: true, ...create },
    HostConfig: {
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      Ulimits: ['nofile', 'nproc'].map((Name) => ({ Name, Soft: 1024, Hard: 1024 })),
    },
  });
  const path = `/v1.41/containers/${Id}`;
  onTestFinished(async () => {
    await callEngine(engineUrl, 'DELETE', `${path}?force=true`);
  });
  await callEngine(engineUrl, 'POST', `${path}/start`);
  const { StatusCode } = await callEngine<{ StatusCode: number }>(engineUrl, 'POST', `${path}/wait`);
  const output = await callEngine<string>(engineUrl, 'GET', `${path}/logs?stdout=1&stderr=1`);
  return { code: StatusCode, output: String(output) };
}

test('the image of the controller runs on a read-only root, without capabilities and not as root', async () => {
  const { code, output } = await run('skerry-controller', { Cmd: ['--help'] });
  expect({ code, output }).toMatchObject({ code: 0, output: expect.stringContaining('the controller: REST') });
  const script = `const templates = require('node:child_process').fork('/opt/skerry/skerry-templates.mjs', [], {
    env: {}, execArgv: ['--permission', '--allow-fs-read=/opt/skerry/skerry-templates.mjs'] });
    templates.once('message', () => {
      templates.kill();
      require('node:dns').lookup('localhost', (error, address) => console.log(process.getuid() + ' ' + address));
    });`;
  const own = await run('skerry-controller', { Entrypoint: ['/usr/bin/node', '-e', script], Cmd: [] });
  expect(own).toMatchObject({ code: 0, output: expect.stringMatching(/^65532 (127\.0\.0\.1|::1)/) });
});

test('the image of the agent has the command line of the agent', async () => {
  const { code, output } = await run('skerry-agent', { Cmd: ['--help'] });
  expect({ code, output }).toMatchObject({
    code: 0,
    output: expect.stringContaining('Stop the agent; containers run on'),
  });
});

test('an image of a release has no shell and at most 150 MB', async () => {
  for (const name of ['skerry-controller', 'skerry-agent']) {
    await expect(run(name, { Entrypoint: ['/bin/sh'], Cmd: ['-c', 'true'] })).rejects.toThrow(/no such file|not found/);
    const path = `/v1.41/images/${encodeURIComponent(referenceOf(name))}/json`;
    const { Size } = await callEngine<{ Size: number }>(engineUrl, 'GET', path);
    expect(Size).toBeLessThan(150 * MEGABYTE);
  }
});
