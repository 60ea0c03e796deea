import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { NODE_FLAGS } from '../../hack/agent-release.ts';
import { bundle, type Origin } from '../../hack/build.ts';
import { callEngine, loadImage } from '../../hack/engine-api.ts';
import { hostArchitecture, saveImage } from '../../hack/image.ts';
import { groundImage, productImage, products } from '../../hack/package/images.ts';
import { librariesFor } from '../../hack/package/parts.ts';
import { ROOT } from '../../hack/paths.ts';
import { freePort } from '../../hack/ports.ts';
import { formatJoinString } from '../../src/wire/node-token.ts';
import { manifest } from '../../testing/manifest.ts';
import { createStack, type Stack, until, untilReady, webApplication } from '../_stack.ts';

/** The image of the agent as a container beside the engine whose socket it has, as docs/install.md starts it. */
const nightly = test.runIf(process.env.SKERRY_NIGHTLY);
const IMAGE = '127.0.0.1:1/skerry-agent:container';
const started = new AsyncDisposableStack();
let stack: Stack;
let dir: string;

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  dir = mkdtempSync(join(tmpdir(), 'skerry-agent-container-'));
  started.defer(
    () => new Promise((resolve) => void execFile('rm', ['-rf', '--one-file-system', dir], () => resolve())),
  );
  stack = started.use(await createStack());
  const [architecture, origin] = [
    hostArchitecture(),
    { version: '0.0.1', revision: 'test', created: new Date(0) } as Origin,
  ];
  const none = { path: '', packages: [] };
  const agent = await bundle('skerry-agent', dir);
  const binary = join(ROOT, 'node_modules/node/bin/node');
  const ground = {
    node: { binary, license: join(ROOT, 'node_modules/zod/LICENSE') },
    libraries: await librariesFor(architecture),
  };
  const below = groundImage(ground, architecture, origin, 1);
  const bundles = { skerry: none, 'skerry-templates': none, 'skerry-agent': agent };
  const product = products(bundles, NODE_FLAGS).find(({ name }) => name === 'skerry-agent');
  if (!product) throw new Error('there is no image of the agent');
  await loadImage(
    inject('engineUrl'),
    saveImage(productImage(product, ground, below, architecture, origin).image, IMAGE),
  );
  started.defer(async () => {
    await engine('DELETE', `/images/${encodeURIComponent(IMAGE)}?force=true`);
  });
}, 600_000);
afterAll(() => started.disposeAsync(), 60_000);

const engine = <T = unknown>(method: string, path: string, body?: unknown) =>
  callEngine<T>(inject('engineUrl'), method, `/v1.41${path}`, body);

/** Starts the agent in a container, with its state in a folder of the machine that has the same path inside. */
async function startContainer(settings: string): Promise<{ id: string; exec(...args: string[]): Promise<string> }> {
  const socket = inject('engineUrl').slice('unix://'.length);
  const [data, config] = [join(dir, 'data'), join(dir, 'config')];
  for (const folder of [data, config]) mkdirSync(folder, { recursive: true });
  writeFileSync(join(config, 'config.yaml'), settings);
  const { Id } = await engine<{ Id: string }>('POST', '/containers/create?name=the-agent', {
    Image: IMAGE,
    HostConfig: {
      NetworkMode: 'host',
      RestartPolicy: { Name: 'always' },
      Binds: [`${socket}:/var/run/docker.sock`, `${data}:${data}`, `${config}:/etc/skerry-agent`],
    },
  });
  started.defer(async () => void (await engine('DELETE', `/containers/${Id}?force=true`).catch(() => {})));
  await engine('POST', `/containers/${Id}/start`);
  return {
    id: Id,
    async exec(...args) {
      const Cmd = ['/usr/bin/node', '/opt/skerry/skerry-agent.mjs', ...args];
      const { Id: exec } = await engine<{ Id: string }>('POST', `/containers/${Id}/exec`, {
        ...{ AttachStdout: true, AttachStderr: true, Tty: true, Cmd },
      });
      return String(await engine('POST', `/exec/${exec}/start`, { Tty: true }));
    },
  };
}

nightly(
  'an agent in a container beside its engine runs what it is asked to, keeps its state and itself, and says how it is upgraded',
  async () => {
    const data = join(dir, 'data');
    const port = await freePort();
    const controller = await stack.startController();
    // The machine's own file lets the watchdog remove what is not of this agent.
    const settings = [
      `diskDirectory: ${data}`,
      `runDirectory: ${data}/run`,
      `localApiPort: ${port}`,
      'watchdog: remove',
    ];
    const agent = await startContainer(`${settings.join('\n')}\n`);
    await stack.apply(manifest('EdgeNode', { name: 'gw-c' }, { watchdogEnabled: true, statusFrequency: 5 }));
    const { Id: stranger } = await engine<{ Id: string }>('POST', '/containers/create?name=a-stranger', {
      Image: IMAGE,
    });
    await until('the agent to answer', async () => (await agent.exec('status')).includes('Engine'));
    const key = await stack.provisioningKey('gw-c', controller);
    const joinString = formatJoinString({ controllerUrl: controller.url, key });
    expect(await agent.exec('provision', joinString)).toContain('Provisioned as node gw-c');
    const [image, http] = [await stack.image('container'), await freePort()];
    await stack.apply(webApplication('container', 'gw-c', image, http));
    await untilReady(stack, 'container', 240_000);

    await until('the watchdog to remove a stranger', async () =>
      engine('GET', `/containers/${stranger}/json`).then(
        () => false,
        () => true,
      ),
    );
    const own = async () =>
      engine<{ State: { Running: boolean; StartedAt: string } }>('GET', `/containers/${agent.id}/json`);
    expect((await own()).State.Running).toBe(true);

    // Another container on the same state: as after an upgrade of the image.
    const microservice = (await stack.containers()).find(({ image: one }) => one === image);
    const before = (await stack.inspect(microservice?.id ?? '')).State.StartedAt;
    await engine('DELETE', `/containers/${agent.id}?force=true`);
    const next = await startContainer(`${settings.join('\n')}\n`);
    await until('the next agent to report', async () => /Controller: +OK/.test(await next.exec('status')), {
      timeoutMs: 240_000,
    });
    expect((await stack.inspect(microservice?.id ?? '')).State.StartedAt).toBe(before);
    const uuid = (await stack.node('gw-c'))?.status?.uuid;
    const { status, body } = await stack.rest(controller)('POST', `/node/${uuid}/version/upgrade`);
    expect([status, JSON.stringify(body)]).toEqual([
      400,
      expect.stringContaining('one in a container gets another image'),
    ]);
    expect(await next.exec('doctor')).not.toMatch(/FAILED/);
    await next.exec('deprovision', '--yes');
  },
  600_000,
);
