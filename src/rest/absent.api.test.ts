import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import type { Application } from '../api/v3/index.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import { startTestCluster } from './_cluster.ts';

const cluster = await startTestCluster();
const admin = (await cluster.startReplica()).client.as(await cluster.token('admin'));

test('consecutive look-ups of absent objects take less than a second each', async () => {
  const began = performance.now();
  const paths: Record<string, () => string> = {
    microservices: () => `/microservices/${randomUUID()}`,
    nodes: () => `/node/${randomUUID()}`,
    registries: () => '/registries/900000',
  };
  for (const path of Object.values(paths))
    for (let i = 0; i < 10; i++) expect((await admin.get(path())).status).toBe(404);
  expect(performance.now() - began).toBeLessThan(15_000);
});

test('an object is found right after its creation, however often it was absent before', async () => {
  for (let i = 0; i < 10; i++) {
    const uuid = randomUUID();
    expect((await admin.get(`/microservices/${uuid}`)).status).toBe(404);
    // Created at the API server, not through the replica.
    await cluster.kube.create(RESOURCES.applications, {
      apiVersion: 'skerry.dev/v3',
      kind: 'Application',
      metadata: { name: `late-${i}`, namespace: cluster.namespace },
      spec: { microservices: [{ name: 'web', uuid, images: { amd64: 'registry.example/web:1' } }] },
    } as Application);
    expect((await admin.get(`/microservices/${uuid}`)).status).toBe(200);
  }
});
