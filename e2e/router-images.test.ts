import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import type { Logger } from 'pino';
import { expect, inject, test } from 'vitest';
import { callEngine } from '../hack/engine-api.ts';
import { buildImage, buildIndex, pushImage } from '../hack/image.ts';
import { freePort } from '../hack/ports.ts';
import { programFiles } from '../hack/shell-image.ts';
import { API_VERSION } from '../src/api/names.ts';
import { createApp } from '../src/app.ts';
import { silentLog } from '../src/lib/log.ts';
import { atEnd } from '../testing/at-end.ts';
import { testConfig } from '../testing/test-config.ts';
import { type ControllerProcess, createStack, until } from './_stack.ts';

/** An image with `skrouterd` in its path that does what `_fetching-router.ts` says. */
async function fetchingImage(localApiPort: number) {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, '_fetching-router.ts')],
    ...{ bundle: true, platform: 'node', format: 'cjs', target: 'node24', write: false },
    banner: { js: '#!/bin/node' },
  });
  const files = [
    ...programFiles({ node: realpathSync(process.execPath) }),
    { path: '/bin/skrouterd', content: outputFiles[0]?.contents ?? '', mode: 0o755 },
    { path: '/etc/nsswitch.conf', content: 'hosts: files dns\n' },
  ];
  return buildIndex([buildImage({ env: { PATH: '/bin', LOCAL_API_PORT: `${localApiPort}` }, files })]);
}

interface Line {
  status?: number;
  config?: { connectors: Record<string, { host: string }>; metadata: object; bridges: object };
  signal?: number;
}

test('an image that fetches its configuration itself gets the map form from the local API, and a signal at each change, in one container', async () => {
  const stack = await createStack();
  const engineUrl = inject('engineUrl');
  const registryUrl = inject('registryUrl');
  const repository = `${stack.namespace}/fetching`;
  const image = `${new URL(registryUrl).host}/${repository}:router`;
  const config = testConfig(stack.controllerKubeconfig, stack.namespace, {
    ...{ ROUTERS_ENABLED: 'true', ROUTER_IMAGE_1: image, ROUTER_IMAGE_2: image },
  });
  const app = await createApp(config, { log: silentLog as unknown as Logger });
  atEnd(() => app[Symbol.asyncDispose]());
  await app.start();
  const controller = { url: `http://127.0.0.1:${app.addresses.rest}` } as ControllerProcess;
  await until('the controller to be ready', async () => (await fetch(`${controller.url}/api/v3/status`)).ok);
  const agent = await stack.startAgent('own-1', controller);
  await pushImage(registryUrl, repository, 'router', await fetchingImage(agent.port));
  const nameHub = (host: string) =>
    stack.apply({ apiVersion: API_VERSION, kind: 'RouterHub', metadata: { name: 'default-router' }, spec: { host } });
  await nameHub('hub.example');
  const path = `/apis/${API_VERSION}/namespaces/${stack.namespace}/edgenodes/own-1`;
  const spec = { routerMode: 'edge', messagingPort: await freePort() };
  await stack.kube.request('PATCH', path, { spec }, 'application/merge-patch+json');

  const id = await until(
    'the container',
    async () =>
      (await stack.containers()).find(
        ({ image: of, state }) => of.endsWith(`${repository}:router`) && state === 'running',
      )?.id,
  );
  const lines = async (): Promise<Line[]> => {
    const text = String(await callEngine(engineUrl, 'GET', `/containers/${id}/logs?stdout=true`));
    return [...text.matchAll(/\{.*\}$/gm)].map(([line]) => JSON.parse(line));
  };
  const connected = (host: string) =>
    until(`a configuration with ${host}`, async () =>
      (await lines()).find(({ config: found }) => found?.connectors['default-router']?.host === host),
    );
  const { config: fetched } = await connected('hub.example');
  const { uuid } = (await stack.node('own-1'))?.status ?? {};
  expect(fetched).toMatchObject({
    metadata: { id: uuid, mode: 'edge' },
    sslProfiles: { 'router-site-server': { certFile: '/etc/skupper-router-certs/router-site-server/tls.crt' } },
    connectors: { 'default-router': { role: 'edge', port: '45671' } },
    bridges: { tcpListeners: {}, tcpConnectors: {} },
  });
  expect((await lines()).some(({ signal }) => signal !== undefined)).toBe(false);
  await nameHub('hub2.example');
  await connected('hub2.example');
  expect((await lines()).some(({ signal }) => signal === 0xc)).toBe(true);
  expect((await stack.containers()).filter(({ image: of }) => of.endsWith(`${repository}:router`))).toMatchObject([
    { id },
  ]);
}, 180_000);
