import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { DockerEngine } from './engine.ts';

test("neither the container whose id the agent has nor one in its network counts as foreign: one of them is the agent's own", async () => {
  const self = 'a1'.repeat(32);
  const container = (Id: string, name: string, NetworkMode: string) => ({
    ...{ Id, Names: [`/${name}`], ImageID: 'i', Created: 0, State: 'running', Status: 'Up', Labels: {} },
    HostConfig: { NetworkMode },
  });
  const list = [
    container(self, 'vpn', 'bridge'),
    container('b2'.repeat(32), 'agent', `container:${self}`),
    container('c3'.repeat(32), 'other', 'bridge'),
    container('d4'.repeat(32), 'beside-other', `container:${'c3'.repeat(32)}`),
  ];
  const server = createServer((_request, response) => response.end(JSON.stringify(list)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const of = (self?: string) => new DockerEngine({ url, instance: 'i1', ...(self && { self }) }).foreignContainers();
  expect(await of(self)).toEqual(['beside-other', 'other']);
  expect(await of()).toEqual(['agent', 'beside-other', 'other', 'vpn']);
});
