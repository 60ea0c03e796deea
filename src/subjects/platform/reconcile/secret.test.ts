import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { ANNOTATIONS, LABELS } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { RESOURCES } from '../../kinds.ts';
import { platformsOf } from '../_fleet.ts';
import { platformSecretName } from '../rules/secret.ts';

let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(2);
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(async () => {
  await fleet.reset();
  fleet.poll(node());
  await set({ routerMode: 'edge' });
});

const { facts, node, ref, secret, set, setsOf, uuid, writes } = platformsOf(() => fleet);

describe('the Secret of a node', () => {
  const change = async (edit: (copy: Secret) => void) => {
    fleet.cluster.edit(secret() as Secret, edit);
    await fleet.settle();
  };
  test.each<[string, (copy: Secret) => void]>([
    ['a label that shares it', ({ metadata }) => Object.assign(metadata.labels ?? {}, { [LABELS.shareable]: 'true' })],
    ['no label', ({ metadata }) => Object.assign(metadata, { labels: { [LABELS.shareable]: 'true' } })],
    ['no owner', ({ metadata }) => Object.assign(metadata, { ownerReferences: [] })],
    ['another name for REST', ({ metadata }) => Object.assign(metadata, { annotations: { [ANNOTATIONS.name]: 'x' } })],
    [
      'other names of its keys',
      ({ metadata }) =>
        Object.assign(metadata, { annotations: { [ANNOTATIONS.keys]: '{"router-site-server.crt": "a"}' } }),
    ],
  ])('with %s is put right, with the same keys and in one write', async (_, edit) => {
    const before = secret() as Secret;
    const written = await writes(() => change(edit));
    const { labels, annotations, ownerReferences } = secret()?.metadata ?? {};
    expect({ labels, annotations, ownerReferences }).toEqual({
      labels: { [LABELS.platform]: 'true' },
      annotations: undefined,
      ownerReferences: before.metadata.ownerReferences,
    });
    expect(written).toEqual({ 'edit secrets': 1, 'replace secrets': 1 });
    expect(setsOf()).toHaveLength(3);
  });

  test('with another key of somebody is made again', async () => {
    await change((copy) => {
      copy.data = { ...copy.data, 'router-site-server.key': Buffer.from('mine').toString('base64'), more: 'eA==' };
    });
    expect(facts('router-site-server').subject).toBe(uuid());
    expect(Object.keys(secret()?.data ?? {})).not.toContain('more');
  });

  test('is made again when it is deleted by hand, and the node has its files again', async () => {
    const before = facts('router-site-server');
    await fleet.cluster.client.delete(RESOURCES.secrets, ref(secret()));
    await fleet.settle();
    expect(facts('router-site-server').serialNumber).not.toBe(before.serialNumber);
    expect(setsOf()).toHaveLength(3);
  });

  test('is another one with another key for a node that was deleted and created again', async () => {
    const [before, name] = [facts('router-site-server'), secret()?.metadata.name];
    const { spec, metadata } = node();
    fleet.cluster.edit(node(), (copy) => {
      copy.metadata.finalizers = [];
    });
    await fleet.cluster.client.delete(RESOURCES.nodes, ref(node()));
    const { uuid: _, ...kept } = spec;
    const created = {
      apiVersion: 'skerry.dev/v3',
      kind: 'EdgeNode',
      metadata: { name: metadata.name, namespace: NAMESPACE },
    };
    await fleet.cluster.client.create(RESOURCES.nodes, { ...created, spec: kept } as EdgeNode);
    await fleet.settle();
    expect(secret()?.metadata.name).not.toBe(name);
    expect(fleet.stores.secrets.get(NAMESPACE, name ?? '')).toBeUndefined();
    expect(facts('router-site-server').serialNumber).not.toBe(before.serialNumber);
  });
});

test('a node whose name an older node has gets its platform once that one is deleted', async () => {
  const create = async (name: string, more: object) => {
    const object = {
      apiVersion: 'skerry.dev/v3',
      kind: 'EdgeNode',
      metadata: { name, namespace: NAMESPACE },
      spec: more,
    };
    await fleet.cluster.client.create(RESOURCES.nodes, object as EdgeNode);
    await fleet.settle();
    return fleet.stores.nodes.get(NAMESPACE, name) as EdgeNode;
  };
  const older = await create('twin', { name: 'Twin' });
  const younger = await create('twin-2', { name: 'Twin', routerMode: 'edge' });
  const made = () => fleet.stores.secrets.get(NAMESPACE, platformSecretName(nodeUuid(younger)));
  expect(made()).toBeUndefined();
  fleet.cluster.edit(fleet.stores.nodes.get(NAMESPACE, 'twin') as EdgeNode, (copy) => {
    copy.metadata.finalizers = [];
  });
  await fleet.cluster.client.delete(RESOURCES.nodes, ref(older));
  await fleet.settle();
  expect(made()).toBeDefined();
});

describe('the platform over REST', () => {
  const ask = async (method: string, path: string) => (await fleet.request(method, path, { token: 'admin' })).body;
  interface Read {
    platformStatus: { phase: string; generation: number; observedGeneration: number; conditions: object[] };
  }
  const read = async () => (await ask('GET', `/node/${uuid()}`)) as unknown as Read;

  test('is in the read of one node with its conditions alone, and in no list', async () => {
    fleet.report(node());
    await fleet.settle();
    const { platformStatus } = await read();
    expect(platformStatus).toMatchObject({ phase: 'Ready', lastError: null });
    expect(platformStatus.conditions).toEqual([
      {
        ...{ type: 'CertificatesReady', status: 'True', reason: 'OnMachine' },
        ...{ message: 'the machine reports that it has everything', lastTransitionTime: expect.stringMatching(/Z$/) },
      },
    ]);
    const { fogs } = (await ask('GET', '/node-list')) as { fogs: object[] };
    expect(fogs.length).toBeGreaterThan(1);
    expect(JSON.stringify(fogs)).not.toMatch(/platformStatus|CertificatesReady/);
  });

  test('is tried again at once when somebody asks for it', async () => {
    const report = async (ipAddress: string) => {
      fleet.observe(node(), { reportedAt: fleet.time.now, report: { ipAddress } });
      await fleet.settle();
    };
    fleet.time.now += 11 * 60_000;
    await report('10.0.0.1');
    await report('10.0.0.2');
    fleet.time.now += 11 * 60_000;
    await fleet.settle();
    expect(facts('router-site-server').hosts).toEqual(['10.0.0.1']);
    const { generation } = (await read()).platformStatus;
    await ask('POST', `/node/${uuid()}/reconcile`);
    expect((await read()).platformStatus.generation).toBe(generation + 1);
    await fleet.settle();
    expect(facts('router-site-server').hosts).toEqual(['10.0.0.2']);
    fleet.report(node());
    await fleet.settle();
    expect((await read()).platformStatus).toMatchObject({ phase: 'Ready', observedGeneration: generation + 1 });
  });
});

describe('certificates', () => {
  test('a host that another node gets is taken out of the certificate of the node that reports it', async () => {
    fleet.time.now += 11 * 60_000;
    fleet.observe(node(), { reportedAt: fleet.time.now, report: { ipAddress: '10.7.7.7' } });
    await fleet.settle();
    expect(facts('router-site-server').hosts).toEqual(['10.7.7.7']);
    fleet.time.now += 11 * 60_000;
    await set({ host: '10.7.7.7' }, 1);
    expect(facts('router-local-server').hosts).not.toContain('10.7.7.7');
    await set({ host: undefined }, 1);
  });

  test('an authority that is deleted by force is made again, and with it the certificates', async () => {
    const before = facts('router-site-server');
    const authority = fleet.stores.certificateAuthorities.get(NAMESPACE, 'router-site-ca');
    const keys = fleet.stores.secrets.get(NAMESPACE, 'skerry-ca-router-site-ca');
    await fleet.cluster.client.delete(RESOURCES.secrets, ref(keys));
    fleet.cluster.edit(authority as never, (copy: EdgeNode) => {
      copy.metadata.finalizers = [];
    });
    await fleet.cluster.client.delete(RESOURCES.certificateAuthorities, ref(authority));
    await fleet.settle();
    expect(facts('router-site-server').serialNumber).not.toBe(before.serialNumber);
    expect(setsOf()).toContain('router-site-server');
  });
});
