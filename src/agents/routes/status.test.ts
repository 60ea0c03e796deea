import { request } from 'node:http';
import { expect, test } from 'vitest';
import { changed } from '../../../testing/stored.ts';
import type { KubeClient } from '../../kube/mod.ts';
import { makeToken, startWithNode } from '../_util.ts';
import { AGENT_LIMITS } from '../channel/dependencies.ts';

type Setup = Awaited<ReturnType<typeof startWithNode>>;
const observed = ({ replica, node }: Setup) => replica.agents.observations.get(node.spec.uuid ?? '');

test('a report is a delta: absent members keep their value', async () => {
  const setup = await startWithNode();
  const { replica, node, key, clock } = setup;
  const put = (body: unknown) => replica.as(node, key, 'PUT', '/status', { body });
  expect((await put({ daemonStatus: 'RUNNING', cpuUsage: 1 })).status).toBe(204);
  await clock.advance(1_000, { timers: 0 });
  await put({ cpuUsage: '2.5', somethingNew: true });
  expect(observed(setup)).toMatchObject({ reportedAt: clock.wall(), contactAt: clock.wall() });
  expect(observed(setup)?.report).toEqual({ daemonStatus: 'RUNNING', cpuUsage: 2.5 });
});

test('the response to the first report at a replica asks for a full one', async () => {
  const { replica, node, key } = await startWithNode();
  const put = () => replica.as(node, key, 'PUT', '/status', { body: { cpuUsage: 1 } });
  await replica.as(node, key, 'GET', '/changes');
  expect((await put()).headers['report-wanted']).toBe('full');
  expect((await put()).headers['report-wanted']).toBeUndefined();
});

const repaired: Record<string, { body: object; wants: object }> = {
  'lists as JSON text': {
    body: { microserviceStatus: '[{"id":"a","status":"RUNNING","cpuUsage":"0.50"}]', repositoryStatus: '[{"id":1}]' },
    wants: { microserviceStatus: [{ id: 'a', status: 'RUNNING', cpuUsage: 0.5 }], repositoryStatus: [{ id: 1 }] },
  },
  'lists of artifacts, with what is wrong in them left out': {
    body: {
      modelStatus: '[{"uuid":"a","name":"tiny","state":"Napping"},{"state":"Ready"}]',
      knowledgeStatus: [{ uuid: 'b', name: 'manuals', state: 'Ready', lastError: 'x'.repeat(5000) }],
    },
    wants: {
      modelStatus: [{ uuid: 'a', name: 'tiny', source: 'managed', state: 'Pending' }],
      knowledgeStatus: [{ uuid: 'b', name: 'manuals', source: 'managed', state: 'Ready', lastError: 'x'.repeat(1024) }],
    },
  },
  'text that is no JSON': { body: { microserviceStatus: 'x', version: '3' }, wants: { version: '3' } },
  'unknown states': {
    body: { daemonStatus: 'NAPPING', microserviceStatus: [{ id: 'a', status: 'NAPPING' }] },
    wants: { daemonStatus: 'UNKNOWN', microserviceStatus: [{ id: 'a', status: 'UNKNOWN' }] },
  },
  'an error message that is too long is cut': {
    body: { microserviceStatus: JSON.stringify([{ id: 'a', status: 'FAILED', errorMessage: 'x'.repeat(5000) }]) },
    wants: { microserviceStatus: [{ id: 'a', status: 'FAILED', errorMessage: 'x'.repeat(1024) }] },
  },
  'a member of the wrong type is left out, the others are not': {
    body: { version: 7, ipAddress: '10.0.0.1', memoryViolation: 'no' },
    wants: { ipAddress: '10.0.0.1' },
  },
  'the invalid items of a list within an item are left out': {
    body: {
      microserviceStatus: [{ id: 'a', status: 'RUNNING', ports: [7, { internal: 1, external: 2 }, {}] }],
    },
    wants: {
      microserviceStatus: [{ id: 'a', status: 'RUNNING', ports: [{ internal: 1, external: 2, protocol: 'tcp' }] }],
    },
  },
  'a list that is too long is truncated': {
    body: { availableRuntimes: Array(70).fill('runc') },
    wants: { availableRuntimes: Array(64).fill('runc') },
  },
  'a list with more mistakes than items is left out as a whole': {
    body: {
      version: '3',
      microserviceStatus: Array(500).fill({ id: 'a', status: 'RUNNING', ports: Array(20).fill({}) }),
    },
    wants: { version: '3' },
  },
  'a problem with files of the system that is too long is cut': {
    body: { systemFiles: { digest: 'ab12', problem: 'x'.repeat(5000) } },
    wants: { systemFiles: { digest: 'ab12', problem: 'x'.repeat(1024) } },
  },
  'files of the system with a digest that is none are left out': {
    body: { version: '3', systemFiles: { digest: '../../x', problem: 'no room' } },
    wants: { version: '3' },
  },
  'an item without id is left out, the others are not': {
    body: { microserviceStatus: [{ status: 'RUNNING' }, 7, { id: 'b', status: 'RUNNING', ports: 'none' }] },
    wants: { microserviceStatus: [{ id: 'b', status: 'RUNNING' }] },
  },
};

test.for(Object.entries(repaired))('a report is read as far as it can be: %s', async ([, { body, wants }]) => {
  const setup = await startWithNode();
  const answer = await setup.replica.as(setup.node, setup.key, 'PUT', '/status', { body });
  expect(answer.status, answer.text).toBe(204);
  expect(observed(setup)?.report).toEqual(wants);
});

test('each item of a report that is left out is counted in the metric', async () => {
  const counted: string[] = [];
  const setup = await startWithNode({
    metrics: { agent: (what, detail = '') => void (what === 'report-repaired' && counted.push(detail)) },
  });
  const body = { microserviceStatus: [7, {}, { id: 'b', status: 'RUNNING' }, { id: 'c', ports: 'none' }], version: 1 };
  expect((await setup.replica.as(setup.node, setup.key, 'PUT', '/status', { body })).status).toBe(204);
  expect(counted.sort()).toEqual(['microserviceStatus', 'microserviceStatus', 'microserviceStatus', 'version']);
});

test('a body that is no report is refused', async () => {
  const { replica, node, key } = await startWithNode();
  for (const body of ['{', '[]', 'null', '7']) {
    const answer = await replica.as(node, key, 'PUT', '/status', { body });
    expect(answer).toMatchObject({ status: 400, body: { code: 'VALIDATION_ERROR', retryable: false } });
  }
});

test('settings sent apart from a report replace their own members and no others', async () => {
  const setup = await startWithNode();
  const { replica, node, key } = setup;
  await replica.as(node, key, 'PATCH', '/config', { body: { diskLimit: 10, logLevel: 'info', secureMode: true } });
  const gps = await replica.as(node, key, 'PATCH', '/config/gps', { body: { latitude: 1.5, longitude: -2 } });
  expect(gps.status).toBe(204);
  expect(observed(setup)?.report.config).toEqual({ diskLimit: 10, logLevel: 'info', latitude: 1.5, longitude: -2 });
  expect((await replica.as(node, key, 'PATCH', '/config/gps', { body: { latitude: 91 } })).status).toBe(400);
  for (const body of [{ diskLimit: 'much' }, { logFileCount: -1 }, { watchdogEnabled: 'no' }, [], 'x', undefined]) {
    const refused = await replica.as(node, key, 'PATCH', '/config', { body });
    expect(refused, JSON.stringify(body)).toMatchObject({ status: 400, body: { code: 'VALIDATION_ERROR' } });
  }
  expect(observed(setup)?.report.config).toMatchObject({ diskLimit: 10, logLevel: 'info' });
});

test('tracking is read and dropped', async () => {
  const { replica, node, key } = await startWithNode();
  const send = (path: string, body: unknown) => replica.as(node, key, 'POST', path, { body });
  expect((await send('/tracking', [{ uuid: 'x', timestamp: 1 }])).status).toBe(204);
  expect((await send('/tracking', Array(101).fill({ uuid: 'x' }))).status).toBe(400);
});

/** Remembers what was deleted. */
function deletingClient() {
  const deleted: unknown[] = [];
  const client = {
    delete: async ({ kind }: { kind: string }, ref: object, { preconditions }: { preconditions: object }) => {
      deleted.push({ kind, ...ref, ...preconditions });
      return { found: true };
    },
    list: async () => ({ items: [], resourceVersion: '1' }),
    find: async () => undefined,
  } as unknown as KubeClient;
  return { client, deleted };
}

test('deprovisioning ends the identity at once', async () => {
  const { client, deleted } = deletingClient();
  const setup = await startWithNode({ client });
  const { replica, node, key } = setup;
  const secret = replica.stores.secrets.list()[0];
  const answer = await replica.as(node, key, 'POST', '/deprovision', { body: { microserviceUuids: ['a'] } });
  expect(answer.status).toBe(204);
  expect(deleted).toEqual([
    { kind: 'Secret', namespace: 'skerry', name: `node-key-${node.spec.uuid}`, uid: secret?.metadata.uid },
  ]);
  expect(observed(setup)?.report).toEqual({
    daemonStatus: 'DEPROVISIONED',
    ipAddress: '0.0.0.0',
    ipAddressExternal: '0.0.0.0',
    microserviceStatus: [{ id: 'a', status: 'DELETING' }],
  });
  expect((await replica.as(node, key, 'GET', '/config')).body.code).toBe('AGENT_PUBLIC_KEY_NOT_FOUND');
});

test('deprovisioning that the API server refuses changes nothing and gets 503', async () => {
  const setup = await startWithNode();
  const { replica, node, key } = setup;
  const answer = await replica.as(node, key, 'POST', '/deprovision', { body: { microserviceUuids: [] } });
  expect(answer).toMatchObject({ status: 503, body: { retryable: true } });
  expect(observed(setup)).toBeUndefined();
  expect((await replica.as(node, key, 'GET', '/config')).status).toBe(200);
});

test.each([
  ['in deletion', '2026-01-01T00:00:05Z'],
  ['that nobody deletes', undefined],
])(
  'the last request of an agent whose node is one %s ends its key, and reports that nothing runs',
  async (_, deletionTimestamp) => {
    const { client, deleted } = deletingClient();
    const setup = await startWithNode({ client });
    const { replica, node, key } = setup;
    replica.stores.nodes.set(
      changed(node, ({ metadata }) => {
        if (deletionTimestamp) metadata.deletionTimestamp = deletionTimestamp;
      }),
    );
    expect((await replica.as(node, key, 'DELETE', '/delete-node')).status).toBe(204);
    expect(deleted).toMatchObject([{ kind: 'Secret', name: `node-key-${node.spec.uuid}` }]);
    expect(observed(setup)?.report).toMatchObject({ microserviceStatus: [], daemonStatus: 'DEPROVISIONED' });
    expect((await replica.as(node, key, 'GET', '/config')).body.code).toBe('AGENT_PUBLIC_KEY_NOT_FOUND');
  },
);

/** A request whose body is sent in pieces; resolves with the status. */
function slowly(setup: Setup, headers: Record<string, string | number>, pieces: (string | Buffer)[], end = true) {
  const { replica, node, key, clock } = setup;
  const authorization = `Bearer ${makeToken(node.spec.uuid ?? '', key, clock.wall())}`;
  return new Promise<{ status: number; connection: string | undefined }>((resolve, reject) => {
    const req = request(`${replica.url}/api/v3/agent/status`, {
      method: 'PUT',
      headers: { authorization, ...headers },
    });
    req.on('response', (res) => {
      res.resume();
      resolve({ status: res.statusCode ?? 0, connection: res.headers.connection });
      res.on('end', () => req.destroy());
    });
    req.on('error', reject);
    for (const piece of pieces) req.write(piece);
    if (end) req.end();
  });
}

test('a body with a content-length over the limit is refused before it is received', async () => {
  const setup = await startWithNode();
  const answer = await slowly(setup, { 'content-length': 5 * 2 ** 20 }, ['{'], false);
  expect(answer).toEqual({ status: 413, connection: 'close' });
});

test('a body that exceeds the limit is cut off', async () => {
  const setup = await startWithNode({ limits: { reportBytes: 1_000 } });
  const answer = await slowly(setup, { 'transfer-encoding': 'chunked' }, ['x'.repeat(600), 'x'.repeat(600)], false);
  expect(answer).toEqual({ status: 413, connection: 'close' });
});

test('a compressed body is refused', async () => {
  const setup = await startWithNode();
  expect((await slowly(setup, { 'content-encoding': 'gzip', 'content-length': 1 }, ['x'])).status).toBe(415);
});

test('a body that does not arrive in time gets 408 and frees its share for others', async () => {
  const receiving = { ...AGENT_LIMITS.receiving, all: { bytes: 2 ** 20, messages: 1 } };
  const setup = await startWithNode({ limits: { receiving, bodyMs: 5_000 } });
  const { clock } = setup;
  const slow = slowly(setup, { 'content-length': 10 }, ['{'], false);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect((await slowly(setup, { 'content-length': 2 }, ['{}'])).status).toBe(503);
  await clock.advance(5_010, { timers: 1 });
  expect((await slow).status).toBe(408);
  expect((await slowly(setup, { 'content-length': 2 }, ['{}'])).status).toBe(204);
});
