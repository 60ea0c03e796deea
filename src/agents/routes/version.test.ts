import { expect, test } from 'vitest';
import { ANNOTATIONS } from '../../api/names.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import { startWithNode } from '../_util.ts';

const RELEASES = 'https://releases.example/agent';

/** A replica with a node for which a version is requested, and that has carried out `done` such actions. */
async function startRequested(
  done = 0,
  version: string | undefined = '{"count":1,"command":"upgrade","semver":"1.2.3"}',
) {
  const setup = await startWithNode({ releasesUrl: RELEASES });
  const { metadata, ...rest } = setup.node;
  const node = {
    ...rest,
    metadata: {
      ...metadata,
      resourceVersion: '999',
      annotations: version === undefined ? {} : { [ANNOTATIONS.version]: version },
    },
    status: { observedGeneration: 1, ...rest.status, actions: { version: done } },
  } as EdgeNode;
  setup.replica.stores.nodes.observe(node);
  return { ...setup, node };
}

test('our agent gets the requested version with the place of releases', async () => {
  const { replica, node, key } = await startRequested();
  await using _ = replica;
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
  await using _ = replica;
  const { body } = await replica.as(node, key, 'GET', '/version', { thirdParty: true });
  expect(body).not.toHaveProperty('releasesUrl');
});

test('after the action our agent gets 404, and a third-party agent another key', async () => {
  const { replica, node, key } = await startRequested(1);
  await using _ = replica;
  expect(await replica.as(node, key, 'GET', '/version')).toMatchObject({
    status: 404,
    body: { code: 'VERSION_COMMAND_NOT_FOUND', retryable: false },
  });
  expect((await replica.as(node, key, 'GET', '/version', { thirdParty: true })).status).toBe(200);
});

test.each([
  ['no version is requested', undefined],
  ['the request names no command', '{"count":1}'],
])('the version of a node is 404 when %s', async (_, annotation) => {
  const { replica, node, key } = await startRequested(0, annotation ?? '');
  await using __ = replica;
  expect((await replica.as(node, key, 'GET', '/version')).status).toBe(404);
});
