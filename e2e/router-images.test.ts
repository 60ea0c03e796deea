import { expect, test } from 'vitest';
import { freePort } from '../hack/ports.ts';
import { API_VERSION } from '../src/api/names.ts';
import { startFetchingNode } from './_fetching.ts';
import { until } from './_stack.ts';

interface Line {
  status?: number;
  config?: { connectors: Record<string, { host: string }>; metadata: object; bridges: object };
  signal?: number;
}

test('an image that fetches its configuration itself gets the map form from the local API, and a signal at each change, in one container', async () => {
  const { stack, node, set, containers, lines } = await startFetchingNode({
    tag: 'router',
    settings: (image) => ({ ROUTERS_ENABLED: 'true', ROUTER_IMAGE_1: image, ROUTER_IMAGE_2: image }),
    ...{ source: '_fetching-router.ts', program: '/bin/skrouterd' },
  });
  const nameHub = (host: string) =>
    stack.apply({ apiVersion: API_VERSION, kind: 'RouterHub', metadata: { name: 'default-router' }, spec: { host } });
  await nameHub('hub.example');
  await set({ routerMode: 'edge', messagingPort: await freePort() });
  const id = await until(
    'the container',
    async () => (await containers()).find(({ state }) => state === 'running')?.id,
  );
  const said = () => lines<Line>(id);
  const connected = (host: string) =>
    until(`a configuration with ${host}`, async () =>
      (await said()).find(({ config: found }) => found?.connectors['default-router']?.host === host),
    );
  const { config: fetched } = await connected('hub.example');
  const { uuid } = (await stack.node(node))?.status ?? {};
  expect(fetched).toMatchObject({
    metadata: { id: uuid, mode: 'edge' },
    sslProfiles: { 'router-site-server': { certFile: '/etc/skupper-router-certs/router-site-server/tls.crt' } },
    connectors: { 'default-router': { role: 'edge', port: '45671' } },
    bridges: { tcpListeners: {}, tcpConnectors: {} },
  });
  expect((await said()).some(({ signal }) => signal !== undefined)).toBe(false);
  await nameHub('hub2.example');
  await connected('hub2.example');
  expect((await said()).some(({ signal }) => signal === 0xc)).toBe(true);
  expect(await containers()).toMatchObject([{ id }]);
}, 180_000);
