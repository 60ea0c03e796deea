import { expect, test } from 'vitest';
import { nextVersion } from '../../../testing/stored.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import { type ReplicaOptions, startWithNode } from '../_util.ts';
import type { RecordedEvent } from '../channel/dependencies.ts';

const RELEASES = 'https://releases.example/agent';

/** A replica with a node for which a version is requested, and that has carried out `done` such actions. */
async function startRequested(
  done = 0,
  version: string | undefined = '{"count":1,"command":"upgrade","semver":"1.2.3"}',
  options: ReplicaOptions = {},
) {
  const setup = await startWithNode({ releasesUrl: RELEASES, ...options });
  const { metadata, ...rest } = setup.node;
  const node = {
    ...rest,
    metadata: {
      ...metadata,
      resourceVersion: nextVersion(),
      annotations: version === undefined ? {} : { [ANNOTATIONS.version]: version },
    },
    status: {
      observedGeneration: 1,
      ...rest.status,
      actions: { version: done },
      ...(done > 0 && { versionTime: new Date(setup.clock.wall()).toISOString() }),
    },
  } as EdgeNode;
  setup.replica.stores.nodes.observe(node);
  return { ...setup, node };
}

test('our agent gets the requested version with the place of releases', async () => {
  const { replica, node, key } = await startRequested();
  const { status, body } = await replica.as(node, key, 'GET', '/version');
  expect(status).toBe(200);
  expect(body).toEqual({
    versionCommand: 'upgrade',
    semver: '1.2.3',
    provisionKey: expect.any(String),
    expirationTime: expect.any(Number),
    releasesUrl: RELEASES,
  });
});

test('a third-party agent gets no place of releases', async () => {
  const { replica, node, key } = await startRequested();
  const { body } = await replica.as(node, key, 'GET', '/version', { thirdParty: true });
  expect(body).not.toHaveProperty('releasesUrl');
});

test('after the action our agent gets 404, and a third-party agent another key for 20 minutes', async () => {
  const { replica, node, key, clock } = await startRequested(1);
  const asThirdParty = () => replica.as(node, key, 'GET', '/version', { thirdParty: true });
  expect(await replica.as(node, key, 'GET', '/version')).toMatchObject({
    status: 404,
    body: { code: 'VERSION_COMMAND_NOT_FOUND', retryable: false },
  });
  expect((await asThirdParty()).status).toBe(200);
  await clock.advance(20 * 60_000, { timers: 0 });
  expect((await asThirdParty()).body.code).toBe('VERSION_COMMAND_NOT_FOUND');
});

test('a version that was carried out at an unknown time gives no key', async () => {
  const { replica, node, key } = await startRequested(1);
  const { versionTime: _time, ...status } = node.status ?? {};
  replica.stores.nodes.observe({
    ...node,
    metadata: { ...node.metadata, resourceVersion: '1000000000' },
    status,
  } as EdgeNode);
  expect((await replica.as(node, key, 'GET', '/version', { thirdParty: true })).status).toBe(404);
});

test('while a key that a person asked for waits, a third-party agent gets 409, and ours the version without a key', async () => {
  const { replica, node, key } = await startRequested(0, undefined, {
    versionKeys: { issueForVersion: async () => false },
  });
  expect(await replica.as(node, key, 'GET', '/version', { thirdParty: true })).toMatchObject({
    status: 409,
    body: { code: 'PROVISIONING_KEY_WAITS', retryable: false },
  });
  const { status, body } = await replica.as(node, key, 'GET', '/version');
  expect(status).toBe(200);
  expect(body).toMatchObject({ versionCommand: 'upgrade', provisionKey: '', releasesUrl: RELEASES });
});

test('a key for a requested version is an event of the audit log, without the key', async () => {
  const events: RecordedEvent[] = [];
  const audit = { record: (event: RecordedEvent) => void events.push(event), recordsAddresses: true };
  const { replica, node, key } = await startRequested(0, undefined, { audit });
  const { body } = await replica.as(node, key, 'GET', '/version');
  expect(events).toMatchObject([
    { method: 'GET', endpointPath: '/agent/version', actorId: node.spec.uuid, status: 'SUCCESS' },
  ]);
  expect(JSON.stringify(events)).not.toContain(body.provisionKey);
});

test.each([
  ['no version is requested', undefined],
  ['the request names no command', '{"count":1}'],
])('the version of a node is 404 when %s', async (_, annotation) => {
  const { replica, node, key } = await startRequested(0, annotation ?? '');
  expect((await replica.as(node, key, 'GET', '/version')).status).toBe(404);
});
