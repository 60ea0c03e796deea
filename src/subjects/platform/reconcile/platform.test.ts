import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { Application } from '../../../api/v3/index.ts';
import { decodeData } from '../../../datastore/keyed-text.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { systemFilesView } from '../../../rules/system-files.ts';
import { RESOURCES } from '../../kinds.ts';
import { isSignedBy, readPair } from '../../pki/rules/pair.ts';
import { platformsOf } from '../_fleet.ts';
import { ECHO } from '../_make.ts';
import { PARTS } from '../rules/parts.ts';
import { platformSecretName } from '../rules/secret.ts';

let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(2, { parts: [...PARTS, ECHO] });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(async () => {
  await set({ routerMode: undefined, busMode: undefined, tags: undefined, host: undefined, networkRouter: undefined });
  await fleet.reset();
  // A node may change its status so often within a minute and no more.
  fleet.time.now += 60_000;
  fleet.report(node());
  await fleet.settle();
});

const { facts, node, ref, secret, set, setsOf, texts, uuid, writes } = platformsOf(() => fleet);
const condition = (type: string) => node().status?.conditions?.find((one) => one.type === type);
const application = () => fleet.stores.applications.get(NAMESPACE, 'system-gateway-0');

describe('certificates', () => {
  test('a node without modes gets nothing, and has no condition', async () => {
    await fleet.settle();
    expect(secret()).toBeUndefined();
    expect(setsOf()).toEqual([]);
    expect(condition('CertificatesReady')).toBeUndefined();
    expect(node().status?.platformStatus?.phase).toBe('Ready');
  });

  test.each([
    [{ routerMode: 'edge' }, ['router-local-agent', 'router-local-server', 'router-site-server']],
    [{ routerMode: 'interior' }, ['router-local-agent', 'router-local-server', 'router-site-server']],
    [{ routerMode: 'none', networkRouter: 'gateway-1' }, ['router-local-agent']],
    [{ routerMode: 'none' }, []],
    [{ busMode: 'leaf' }, ['bus-mqtt-server', 'bus-server']],
    [
      { routerMode: 'edge', busMode: 'server' },
      ['bus-mqtt-server', 'bus-server', 'router-local-agent', 'router-local-server', 'router-site-server'],
    ],
  ] as const)('a node with %j has the files %j', async (spec, sets) => {
    await set(spec);
    expect(setsOf()).toEqual(sets);
    expect(Buffer.byteLength(Object.values(texts()).join(''))).toBeLessThan(8 * 1024);
  });

  test('a node has its certificates once the machine itself reports the files', async () => {
    await set({ routerMode: 'edge' });
    expect(condition('CertificatesReady')).toMatchObject({ status: 'False', reason: 'FilesPending' });
    expect(node().status?.platformStatus).toMatchObject({ phase: 'Progressing' });
    fleet.report(node());
    await fleet.settle();
    expect(condition('CertificatesReady')).toMatchObject({ status: 'True', reason: 'OnMachine' });
    const { phase, generation, observedGeneration } = node().status?.platformStatus ?? {};
    expect({ phase, observedGeneration }).toEqual({ phase: 'Ready', observedGeneration: generation });
  });

  test('the certificates of a node name it, its host and the names on its machine', async () => {
    await set({ routerMode: 'edge', host: 'gw.plant.example' });
    const local = facts('router-local-server');
    expect(local.subject).toBe(uuid());
    expect(local.hosts).toEqual(
      expect.arrayContaining(['gw.plant.example', 'localhost', '127.0.0.1', 'router.default.svc.bridge.local']),
    );
    expect(facts('router-site-server').hosts).toEqual(['gw.plant.example']);
    const authority = fleet.stores.secrets.get(NAMESPACE, 'skerry-ca-default-router-local-ca');
    const { 'tls.crt': cert = '', 'tls.key': key = '' } = decodeData(authority?.data);
    const by = readPair({ cert, key });
    expect('problem' in by ? by : isSignedBy(local, by)).toBe(true);
  });

  test('another host makes new certificates of this node, with one write and none for other nodes', async () => {
    await set({ routerMode: 'edge', host: 'gw.plant.example' });
    await set({ routerMode: 'edge', upstreamRouters: ['gateway-0'] }, 1);
    const before = [texts(), texts(nodeUuid(node(1)))];
    const written = await writes(() => set({ host: 'gw-2.plant.example' }));
    expect(facts('router-site-server').hosts).toEqual(['gw-2.plant.example']);
    expect(texts(nodeUuid(node(1)))).toEqual(before[1]);
    expect(Object.entries(written).filter(([what]) => /secret/i.test(what))).toEqual([[expect.any(String), 1]]);
    await set({ routerMode: undefined, upstreamRouters: undefined }, 1);
  });

  test('after another host no status says that the machine has its certificates before it reports them, and two are written', async () => {
    await set({ routerMode: 'edge', host: 'gw.plant.example' });
    fleet.report(node());
    await fleet.settle();
    const before = node().metadata.generation;
    const seen: (string | undefined)[] = [];
    using _ = fleet.stores.nodes.subscribe(({ object: { metadata, status } }) => {
      const ready = status?.conditions?.find(({ type }) => type === 'CertificatesReady');
      if (metadata.name === node().metadata.name && ready?.observedGeneration !== before) seen.push(ready?.reason);
    });
    const written = await writes(async () => {
      await set({ host: 'gw-2.plant.example' });
      expect(condition('CertificatesReady')).toMatchObject({ status: 'False', reason: 'FilesPending' });
      fleet.report(node());
      await fleet.settle();
    });
    expect(seen).toEqual(['FilesPending', 'OnMachine']);
    expect(written).toEqual({ 'edit edgenodes': 1, 'replace edgenodes/status': 2, 'replace secrets': 1 });
  });

  test('a node that no longer needs certificates has no Secret, no files and no condition', async () => {
    await set({ routerMode: 'edge' });
    expect(secret()).toBeDefined();
    await set({ routerMode: 'none' });
    expect(secret()).toBeUndefined();
    expect(setsOf()).toEqual([]);
    expect(condition('CertificatesReady')).toBeUndefined();
  });

  test('another certificate of an authority changes one file of a set, and no Secret of a node', async () => {
    await set({ routerMode: 'edge' });
    const digests = () =>
      Object.fromEntries(
        (fleet.desired(uuid())?.systemFiles ?? [])
          .map(systemFilesView)
          .flatMap(({ name, files }) => files.map(({ path, digest }) => [`${name}/${path}`, digest])),
      );
    const before = digests();
    const version = secret()?.metadata.resourceVersion;
    fleet.time.now += 60_000;
    const authority = fleet.stores.certificateAuthorities.get(NAMESPACE, 'router-site-ca');
    if (!authority) throw new Error('no authority');
    fleet.cluster.edit(authority, (copy) => {
      copy.metadata.annotations = {
        ...copy.metadata.annotations,
        [ANNOTATIONS.renew]: new Date(fleet.time.now).toISOString(),
      };
    });
    await fleet.settle();
    const after = digests();
    expect(Object.keys(after).filter((path) => after[path] !== before[path])).toEqual(['router-site-server/ca.crt']);
    expect(secret()?.metadata.resourceVersion).toBe(version);
    expect(condition('CertificatesReady')).toMatchObject({ status: 'False', reason: 'FilesPending' });
  });

  test('an address that a machine reports again and again leads to one certificate in ten minutes', async () => {
    await set({ routerMode: 'edge' });
    const report = async (ipAddress: string) => {
      fleet.observe(node(), { reportedAt: fleet.time.now, report: { ipAddress } });
      await fleet.settle();
    };
    fleet.time.now += 11 * 60_000;
    await report('10.0.0.1');
    expect(facts('router-site-server').hosts).toEqual(['10.0.0.1']);
    const first = secret()?.metadata.resourceVersion;
    for (let i = 2; i < 6; i++) await report(`10.0.0.${i}`);
    expect(secret()?.metadata.resourceVersion).toBe(first);
    fleet.time.now += 11 * 60_000;
    await report('10.0.0.9');
    expect(facts('router-site-server').hosts).toEqual(['10.0.0.9']);
  });

  test('no node gets a certificate with the host of another node by a report', async () => {
    await set({ host: '10.9.9.9' }, 1);
    await set({ routerMode: 'edge' });
    fleet.time.now += 11 * 60_000;
    fleet.observe(node(), { reportedAt: fleet.time.now, report: { ipAddress: '10.9.9.9' } });
    await fleet.settle();
    expect(facts('router-local-server').hosts).not.toContain('10.9.9.9');
    await set({ host: undefined }, 1);
  });
});

describe('microservices of the platform', () => {
  const entries = () => application()?.spec.microservices ?? [];
  const edit = async (change: (copy: Application) => void) => {
    fleet.cluster.edit(application() as Application, change);
    await fleet.settle();
  };
  const on = () => set({ routerMode: 'edge', tags: ['echo'] });

  test('a part has its microservice on its node, with the files that it binds', async () => {
    await on();
    expect(application()?.spec).toMatchObject({ isSystem: true, isActivated: true });
    expect(entries()).toMatchObject([{ name: 'router', agent: { uuid: uuid() } }]);
    const [view] = (fleet.desired(uuid())?.microservices ?? []).filter(({ name }) => name === 'router');
    expect(view).toMatchObject({
      isRouter: true,
      schedule: 0,
      volumeMappings: [
        {
          hostDestination: 'system:router-local-server',
          containerDestination: '/etc/certs',
          type: 'volumeMount',
          accessMode: 'ro',
        },
      ],
    });
    expect(condition('RouterReady')).toMatchObject({ status: 'False', reason: 'Starting' });
    fleet.report(node());
    await fleet.settle();
    expect(condition('RouterReady')).toMatchObject({ status: 'True' });
  });

  test('a setting of the node changes the microservice, and a microservice that nothing wants ends with its application', async () => {
    await on();
    await set({ messagingPort: 5699 });
    expect(entries()[0]?.container?.ports).toMatchObject([{ external: 5699 }]);
    await set({ tags: [] });
    expect(application()?.metadata.deletionTimestamp ?? application()).toBeOneOf([undefined, expect.any(String)]);
    expect(condition('RouterReady')).toBeUndefined();
    await set({ messagingPort: undefined });
  });

  test('what users may change of a microservice stays, and the rest is put right', async () => {
    await on();
    await edit((copy) => {
      const [router] = copy.spec.microservices ?? [];
      Object.assign(router?.container ?? {}, { memoryLimit: 256, isPrivileged: true, ports: [] });
    });
    expect(entries()[0]?.container).toMatchObject({ memoryLimit: 256, ports: [{ external: 5671 }] });
    expect(entries()[0]?.container?.isPrivileged).toBeUndefined();
  });

  test('a microservice that a user took out, or stopped with its application, is there again', async () => {
    await on();
    await edit((copy) => Object.assign(copy.spec, { microservices: [], isActivated: false }));
    expect(entries()).toHaveLength(1);
    expect(application()?.spec.isActivated).toBe(true);
  });

  test('the debug shell and the platform share the application, and neither takes the other out', async () => {
    await on();
    expect(await fleet.rest('POST', `/node/${uuid()}/exec`)).toBe(204);
    await fleet.settle();
    expect(
      entries()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['debug', 'router']);
    await set({ tags: [] });
    expect(entries().map(({ name }) => name)).toEqual(['debug']);
    await on();
    expect(await fleet.rest('DELETE', `/node/${uuid()}/exec`)).toBe(204);
    await fleet.settle();
    expect(entries().map(({ name }) => name)).toEqual(['router']);
  });

  test('an application of a user with the name of the system is never taken over, and the condition names it', async () => {
    const spec = { microservices: [{ name: 'mine', images: { amd64: 'plant/mine:1' }, agent: { uuid: uuid() } }] };
    const metadata = { name: 'system-gateway-0', namespace: NAMESPACE };
    await fleet.cluster.client.create(RESOURCES.applications, {
      ...{ apiVersion: 'skerry.dev/v3', kind: 'Application', metadata, spec },
    } as Application);
    await on();
    expect(entries().map(({ name }) => name)).toEqual(['mine']);
    expect(condition('RouterReady')).toMatchObject({ status: 'False', reason: 'NameTaken' });
    expect(condition('RouterReady')?.message).toContain('"system-gateway-0"');
    expect(node().status?.platformStatus).toMatchObject({
      phase: 'Failed',
      lastError: expect.stringContaining('system-gateway-0'),
    });
    const mine = application() as Application;
    fleet.cluster.edit(mine, (copy) => {
      copy.metadata.finalizers = [];
    });
    await fleet.cluster.client.delete(RESOURCES.applications, ref(mine));
    await fleet.settle();
    expect(entries().map(({ name }) => name)).toEqual(['router']);
  });

  test('a port that another microservice holds is named with its holder, and the platform is ready once it is free', async () => {
    const metadata = { name: 'shop', namespace: NAMESPACE };
    const container = { ports: [{ internal: 80, external: 5671 }] };
    await fleet.cluster.client.create(RESOURCES.applications, {
      ...{ apiVersion: 'skerry.dev/v3', kind: 'Application', metadata },
      spec: { microservices: [{ name: 'web', images: { amd64: 'plant/web:1' }, agent: { uuid: uuid() }, container }] },
    } as Application);
    await fleet.settle();
    fleet.report(node());
    await fleet.settle();
    // A node may change its status so often and no more.
    fleet.time.now += 60_000;
    await on();
    fleet.report(node());
    await fleet.settle();
    const { status, message } = condition('RouterReady') ?? {};
    expect({ status, message }).toEqual({ status: 'False', message: expect.stringContaining('shop/web') });
    await fleet.rest('DELETE', '/application/shop');
    fleet.time.now += 60_000;
    for (let i = 0; i < 2; i++) {
      fleet.report(node());
      await fleet.settle();
    }
    expect(condition('RouterReady')).toMatchObject({ status: 'True' });
    expect(node().status?.platformStatus?.phase).toBe('Ready');
  });
});

describe('time that passes', () => {
  test('a node that is offline is Unknown since its last sign of life', async () => {
    await set({ routerMode: 'edge' });
    fleet.report(node());
    await fleet.settle();
    const start = fleet.time.now;
    fleet.time.now += 2 * 3_600_000;
    await set({ description: 'looked at' });
    expect(condition('CertificatesReady')).toMatchObject({ status: 'Unknown', reason: 'NodeUnreachable' });
    expect(condition('CertificatesReady')?.message).toContain(`since ${new Date(start).toISOString()}`);
    expect(node().status?.platformStatus?.phase).toBe('Progressing');
  });

  test('certificates are renewed by themselves, first by the next key of their authority', async () => {
    await set({ routerMode: 'edge' });
    const before = facts('router-site-server');
    const start = fleet.time.now;
    const later = async (ms: number) => {
      fleet.time.now += ms;
      const authority = fleet.stores.certificateAuthorities.get(NAMESPACE, 'router-site-ca');
      if (authority)
        fleet.cluster.edit(authority, (copy) => {
          copy.metadata.labels = { ...copy.metadata.labels, looked: String(fleet.time.now) };
        });
      await fleet.settle();
      await set({ description: `looked at ${fleet.time.now}` });
    };
    await later((before.notAfter - before.notBefore) * 0.7);
    expect(facts('router-site-server').notAfter).toBe(before.notAfter);
    await later(26 * 3_600_000);
    expect(facts('router-site-server').notAfter).toBeGreaterThan(before.notAfter);
    fleet.time.now = start;
  });
});

describe('deletion', () => {
  test('a deleted node leaves neither Secret nor application, also when its deletion is forced', async () => {
    await set({ routerMode: 'edge', tags: ['echo'] });
    const name = platformSecretName(uuid());
    await fleet.rest('DELETE', `/node/${uuid()}`);
    await fleet.settle();
    const left = node();
    if (left)
      fleet.cluster.edit(left, (copy) => {
        copy.metadata.finalizers = [];
      });
    await fleet.settle();
    expect(node()).toBeUndefined();
    expect(fleet.stores.secrets.get(NAMESPACE, name)).toBeUndefined();
  });
});
