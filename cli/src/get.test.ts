import { expect, test } from 'vitest';
import type { KubeClient } from '../../src/kube/mod.ts';
import { nodeUuid } from '../../src/rules/identity.ts';
import { storedApplication, storedNode } from '../../testing/stored.ts';
import { createPlugin } from './_plugin.ts';

const uuid = '7faa827a-4355-4898-8705-10cb8a4c9efa';
const line = (name: string, message: string) => ({ name, uuid, node: 'gw', state: 'RUNNING', ready: false, message });
const LONG = `cannot be started: ${'x'.repeat(200)}`;

/** `shop` has the microservices web and api on `gw`, whose node reports another image of web than the one that is wanted. */
const OBJECTS: Readonly<Record<string, unknown[]>> = {
  edgenodes: [
    {
      ...storedNode('gw'),
      status: {
        microservices: [
          { uuid, state: 'RUNNING', image: 'shop/web:1', healthStatus: 'unhealthy', healthMessage: 'exit code 2: no' },
        ],
      },
    },
  ],
  applications: [
    {
      ...storedApplication('shop', [
        { name: 'web', uuid, agent: { name: 'gw' }, images: { amd64: 'shop/web:1.O' } },
        { name: 'api', agent: { name: 'gw' }, images: { amd64: 'shop/api:1' } },
      ]),
      status: { microservices: [line('web', LONG), line('api', 'running')] },
    },
  ],
  events: [
    '1/2 ready; web: running, but its health check fails: exit code 2: no',
    '1/2 ready; api: pulling',
    '2/2 ready',
    'ann opened a terminal in microservice web on node gw-1',
    'ann opened the log of microservice web-2 on node gw-1',
  ].map((note, at) => ({ metadata: { name: `e${at}` }, type: 'Warning', reason: 'Unhealthy', note })),
};
const client = {
  list: async ({ plural }: { plural: string }) => ({ items: OBJECTS[plural] ?? [], metadata: {} }),
  find: async ({ plural }: { plural: string }) => OBJECTS[plural]?.[0],
} as unknown as KubeClient;
const skerry = createPlugin(client, 'skerry');

test('get ms shows why a microservice is not ready, cut to a line, and -o wide shows all of it', async () => {
  const { out } = await skerry('get', 'ms');
  const [head, api, web] = out.split('\n');
  expect(head).toMatch(/ UP +MESSAGE$/);
  expect(api).toMatch(/^shop +api .* running$/);
  expect(web).toMatch(/ cannot be started: x{78}\.\.\.$/);
  expect((await skerry('get', 'ms', '-o', 'wide')).out).toContain(LONG);
});

test('get ms -o wide and describe ms show the image that runs, with the one that is wanted beside it', async () => {
  expect((await skerry('get', 'ms', 'shop/web', '-o', 'wide')).out).toContain(' shop/web:1 (wanted 1.O) ');
  expect((await skerry('get', 'ms', 'shop/api', '-o', 'wide')).out).toContain(' shop/api:1 ');
  expect((await skerry('describe', 'ms', 'shop/web')).out).toMatch(/^Image: +shop\/web:1 \(wanted 1\.O\)$/m);
});

test('describe ms shows what the health check says, and only the events that name the microservice', async () => {
  const { out } = await skerry('describe', 'ms', 'shop/web');
  expect(out).toMatch(/^Health: +unhealthy: exit code 2: no$/m);
  expect(out.split('Events:')[1]?.match(/\d ready|opened .*/g)).toEqual([
    '2 ready',
    'opened a terminal in microservice web on node gw-1',
  ]);
  expect((await skerry('describe', 'app', 'shop')).out.split('Events:')[1]?.match(/ready/g)).toHaveLength(3);
});

test.each([
  [
    'shop',
    'there is no microservice "shop"; it is an application, whose microservices "kubectl skerry get ms --app shop" lists',
  ],
  ['web', 'there is no microservice "web"; give the application too: shop/web'],
  ['other', 'there is no microservice "other"; give APPLICATION/MICROSERVICE'],
  ['shop/other', 'there is no microservice "shop/other"'],
])('get ms %s says what was meant', async (name, error) => {
  expect(await skerry('get', 'ms', name)).toMatchObject({ code: 1, err: `error: ${error}\n` });
});

test('a microservice that keeps running on its former node is shown with what that node reports', async () => {
  const [gw] = OBJECTS.edgenodes as ReturnType<typeof storedNode>[];
  const held = {
    ...line('web', 'no node with the name "gw-9"; what ran before keeps running'),
    nodeUuid: nodeUuid(gw as never),
  };
  const moved = {
    ...storedApplication('shop', [{ name: 'web', uuid, agent: { name: 'gw-9' }, images: { amd64: 'shop/web:1' } }]),
    status: { microservices: [held] },
  };
  const objects: typeof OBJECTS = { ...OBJECTS, applications: [moved] };
  const list = async ({ plural }: { plural: string }) => ({ items: objects[plural] ?? [], metadata: {} });
  const find = async ({ plural }: { plural: string }, { name }: { name: string }) =>
    objects[plural]?.find((one) => (one as typeof moved).metadata.name === name);
  const skerry = createPlugin({ list, find } as unknown as KubeClient, 'skerry');
  expect((await skerry('get', 'ms')).out).toMatch(/^shop +web +gw \(wanted gw-9\) +False +RUNNING +/m);
  expect((await skerry('describe', 'ms', 'shop/web')).out).toMatch(
    /^Node: +gw \(wanted gw-9\)\n(.*\n)*Health: +unhealthy/m,
  );
  expect((await skerry('describe', 'node', 'gw')).out).toMatch(/^ +shop +web +gw \(wanted gw-9\) /m);
});

test('get -w refuses data', async () => {
  expect(await skerry('get', 'ms', '-w', '-o', 'json')).toMatchObject({
    code: 2,
    err: expect.stringContaining('--watch'),
  });
});

test('version --client asks no cluster', async () => {
  expect(await skerry('version', '--client')).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^Plugin: +\d+\.\d+/),
  });
});

test.each([
  ['nodes', 'gv', 'there is no node "gv"; did you mean gw?'],
  ['apps', 'shp', 'there is no application "shp"; did you mean shop?'],
  ['ms', 'shop/wob', 'there is no microservice "shop/wob"; did you mean shop/web?'],
  ['node', 'another', 'there is no node "another"'],
])('get %s %s says the name that may have been meant', async (what, name, said) => {
  expect(await skerry('get', what, name)).toMatchObject({ code: 1, err: `error: ${said}\n` });
});

test('describe refuses -o json and says what prints data', async () => {
  expect(await skerry('describe', 'app', 'shop', '-o', 'json')).toMatchObject({
    ...{ code: 2, out: '' },
    err: 'error: describe is for people; "kubectl skerry get app shop -o json" prints data\n',
  });
});

const condition = (type: string, status: string, message = '') => ({ type, status, reason: 'X', message });
const service = (name: string, status: object) => ({
  metadata: { name, generation: 1, creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: { type: 'external', resource: '192.0.2.2', targetPort: 502, tags: ['plant-a', 'all'] },
  status: { observedGeneration: 1, bridgePort: 10_025, provisioningStatus: 'ready', ...status },
});
const READY = condition('Ready', 'True', 'the service can be used');
const SERVICES: readonly (readonly [string, object, RegExp])[] = [
  [
    'of a service that works',
    { conditions: [READY, condition('Listening', 'True', '2 of 2 routers listen')], listeners: { up: 2, of: 2 } },
    /^plc +external +192\.0\.2\.2:502 +10025 +True +ready +2\/2 +8s *$/m,
  ],
  [
    'of a router that does not listen',
    { conditions: [READY, condition('Listening', 'True', '1 of 2 listen; gw does not')], listeners: { up: 1, of: 2 } },
    / True +ready +1\/2 +8s +1 of 2 listen; gw does not$/m,
  ],
  [
    'of a server that is away',
    { conditions: [READY, condition('Reachable', 'False', 'closed at once')] },
    / True +ready +8s +closed at once$/m,
  ],
  [
    'of a service that failed',
    { provisioningStatus: 'failed', conditions: [condition('Ready', 'False', LONG)] },
    / False +failed +8s +cannot be started: x{78}\.\.\.$/m,
  ],
  ['of a change that nobody has looked at', { observedGeneration: 0, conditions: [READY] }, / True +pending +8s/m],
];

test.each(SERVICES)('get services shows the port, the state and the listeners %s', async (_, status, expected) => {
  const list = async () => ({ items: [service('plc', status)], metadata: {} });
  const now = () => Date.parse('2026-01-01T00:00:08Z');
  const run = createPlugin({ list } as unknown as KubeClient, 'skerry', { now });
  const { out } = await run('get', 'services');
  expect(out).toMatch(/^NAME +TYPE +RESOURCE +PORT +READY +STATE +LISTENERS +AGE/);
  expect(out).toMatch(expected);
  expect((await run('get', 'services', 'plc', '-o', 'wide')).out).toMatch(/ plant-a,all/);
  expect((await run('get', 'service', 'plx')).err).toContain('did you mean plc?');
});
