import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { CONTAINER_LABELS } from '../../../../src/api/names.ts';
import { listenForTest } from '../../../../testing/local-server.ts';
import { DockerEngine } from './engine.ts';

/** The URL of an engine that lists these containers, whose images have no labels. */
async function engineWith(list: unknown[]): Promise<string> {
  const server = createServer(({ url }, response) =>
    response.end(JSON.stringify(url?.includes('/containers/json') ? list : {})),
  );
  return `http://127.0.0.1:${await listenForTest(server)}`;
}

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
  const url = await engineWith(list);
  const of = (self?: string) => new DockerEngine({ url, instance: 'i1', ...(self && { self }) }).foreignContainers();
  expect(await of(self)).toEqual(['beside-other', 'other']);
  expect(await of()).toEqual(['agent', 'beside-other', 'other', 'vpn']);
});

test('a container of another agent is listed with each port of the machine that it has, once', async () => {
  const url = await engineWith([
    {
      ...{ Id: 'e5'.repeat(32), Names: ['/left'], ImageID: 'i', Created: 0, State: 'running', Status: 'Up' },
      Labels: { [CONTAINER_LABELS.agent]: 'i2' },
      Ports: [
        { IP: '0.0.0.0', PrivatePort: 80, PublicPort: 8080, Type: 'tcp' },
        { IP: '::', PrivatePort: 80, PublicPort: 8080, Type: 'tcp' },
        { PrivatePort: 81, Type: 'tcp' },
      ],
    },
    {
      ...{ Id: 'f6'.repeat(32), Names: ['/stopped'], ImageID: 'i', Created: 0, State: 'exited', Status: '' },
      ...{ Labels: { [CONTAINER_LABELS.agent]: 'i2' }, Ports: null },
    },
  ]);
  expect(await new DockerEngine({ url, instance: 'i1' }).containersOfOtherAgents()).toMatchObject([
    { name: 'left', running: true, ports: [{ external: 8080, protocol: 'tcp' }] },
    { name: 'stopped', running: false, ports: [] },
  ]);
});
