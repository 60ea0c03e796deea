import { beforeAll, describe, expect, inject, test } from 'vitest';
import { kubeFromFile } from '../../hack/kube.ts';
import type {} from '../../hack/testing/provided.ts';
import { waitFor } from '../../hack/wait.ts';
import { atEnd } from '../../testing/at-end.ts';
import { ANNOTATIONS, API_VERSION } from '../api/names.ts';
import type { Application, MicroserviceEntry } from '../api/v3/index.ts';
import { startTestCluster } from '../rest/_cluster.ts';
import { PLATFORM_CHANGES, ROUTER_ENTRY } from '../subjects/workloads/_platform-changes.ts';
import { applyPolicies, clientOf, MERGE, verdict } from './_system-cluster.ts';

// What an admin changes of microservices that belong to the platform of a node, at every door.

const kube = await kubeFromFile(inject('kubeconfig'));
atEnd(() => kube.close());
const cluster = await startTestCluster();
const { namespace } = cluster;
const byKubectl = await clientOf(kube, cluster, 'admin');
atEnd(() => byKubectl.close());
const replica = await cluster.startReplica();
const admin = replica.client.as(await cluster.token('admin'));

const at = (name = '') => `/apis/${API_VERSION}/namespaces/${namespace}/applications${name && `/${name}`}`;
const DEBUG = { name: 'debug', agent: { name: 'gw' }, images: { amd64: 'shell:1' } } as MicroserviceEntry;
const systemOn = (node: string, entries: MicroserviceEntry[], names?: string[]) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: {
    name: `system-${node}`,
    ...(names && { annotations: { [ANNOTATIONS.platform]: JSON.stringify(names) } }),
  },
  spec: { isActivated: true, isSystem: true, microservices: entries },
});
const annotated = (value: string | null) => ({ metadata: { annotations: { [ANNOTATIONS.platform]: value } } });
const patch = (name: string, body: object) => verdict(byKubectl, 'PATCH', at(name), body, MERGE);
const write = (...microservices: MicroserviceEntry[]) => patch('system-gw', { spec: { microservices } });
const OF_PLATFORM = 'microservices that belong to the platform of a node change with its settings; users change';

beforeAll(async () => {
  for (const name of ['gw', 'other'])
    expect((await admin.post('/node', { json: { name, archId: 1 } })).status).toBe(201);
  await kube.request('POST', at(), systemOn('gw', [ROUTER_ENTRY, DEBUG], ['router']));
  await applyPolicies(kube, namespace, ['skerry-platform']);
  const acts = async () => (await patch('system-gw', annotated('[]'))) !== 'allowed';
  await waitFor(acts, { what: 'the policy to act' });
});

describe('a change of a microservice of the platform by an admin', () => {
  const path = `/microservices/system/${ROUTER_ENTRY.uuid}`;
  /** Refusals that come first: a name and a uuid are immutable, and a template has to exist. */
  const OTHERS: Readonly<Record<string, [number, string]>> = {
    name: [400, 'VALIDATION_ERROR'],
    uuid: [400, 'VALIDATION_ERROR'],
    template: [404, 'MICROSERVICE_TEMPLATE_NOT_FOUND'],
  };

  test.each(PLATFORM_CHANGES)('of $path has one verdict over kubectl, JSON and files: $isAllowed', async (change) => {
    const { entry, flat, isAllowed } = change;
    const over = await write(entry, DEBUG);
    if (isAllowed) expect(over).toBe('allowed');
    else {
      const what = change.path === 'name' ? 'removed' : change.path;
      expect(over).toContain(OF_PLATFORM);
      expect(over).toMatch(new RegExp(`: router \\(${what}\\)`));
    }
    const { name, ...spec } = entry;
    const text = JSON.stringify({ apiVersion: API_VERSION, kind: 'Microservice', metadata: { name }, spec });
    const answers = [
      await admin.patch(path, { json: flat }),
      await admin.patch(`/microservices/system/yaml/${ROUTER_ENTRY.uuid}`, { form: { part: 'microservice', text } }),
    ];
    const wanted = isAllowed ? [204, undefined] : (OTHERS[change.path] ?? [400, 'SYSTEM_MICROSERVICE_UPDATE']);
    expect(answers.map(({ status, body }) => [status, body?.code])).toEqual([wanted, wanted]);
  });

  test('stays in the object when it is allowed, and changes nothing else', async () => {
    const before = ((await kube.get(at('system-gw'))) as unknown as Application).spec.microservices ?? [];
    expect(before[1]).toEqual(DEBUG);
    expect((await admin.patch(path, { json: { cpus: 0.75, logSize: 4, annotations: '{"team":"a"}' } })).status).toBe(
      204,
    );
    const after = (await kube.get(at('system-gw'))) as unknown as Application;
    expect(after.spec.microservices?.[0]).toEqual({
      ...before[0],
      container: { ...before[0]?.container, cpus: 0.75, logSize: 4, annotations: { team: 'a' } },
    });
    expect(after.metadata.annotations?.[ANNOTATIONS.platform]).toBe('["router"]');
  });

  test('is a rebuild, over REST and kubectl', async () => {
    expect((await admin.patch(`${path}/rebuild`)).status).toBe(204);
    const annotations = { [ANNOTATIONS.rebuild]: '{"router":7}' };
    expect(await patch('system-gw', { metadata: { annotations } })).toBe('allowed');
  });

  test.each<[string, string, object?]>([
    ['post', 'port-mapping', { internal: 80, external: 8123 }],
    ['delete', 'port-mapping/5671'],
    ['post', 'volume-mapping', { hostDestination: 'd', containerDestination: '/d', accessMode: 'rw', type: 'volume' }],
    ['patch', 'config', { mode: 'none' }],
    ['delete', 'config'],
  ])('is refused to the part %s %s', async (method, part, json) => {
    const answer = await admin[method as 'post'](`${path}/${part}`, json && { json });
    expect([answer.status, answer.body.code]).toEqual([400, 'SYSTEM_MICROSERVICE_UPDATE']);
  });
});

describe('an application with a microservice of the platform', () => {
  test('lets an admin change its description and its other microservices, and add and remove them', async () => {
    const router = (await stored()).spec.microservices?.[0] as MicroserviceEntry;
    expect(await patch('system-gw', { spec: { description: 'x' } })).toBe('allowed');
    expect(await write(router, { ...DEBUG, schedule: 3 })).toBe('allowed');
    expect(await write(router)).toBe('allowed');
    expect(await write(router, DEBUG, { ...DEBUG, name: 'probe' })).toBe('allowed');
    expect(await write(DEBUG)).toContain('router (removed)');
  });

  test.each<[string, object]>([
    ['isActivated', { isActivated: false }],
    ['template', { template: { name: 'base' } }],
    ['busConfig', { busConfig: { busAccess: true } }],
  ])('is refused another %s over kubectl', async (_, spec) => {
    expect(await patch('system-gw', { spec })).toContain('leave isActivated, busConfig, template as they are');
  });

  test('is deleted by an admin once its node is deleted, over REST; kubectl leaves it to the controller', async () => {
    await kube.request(
      'POST',
      at(),
      systemOn('leaving', [{ ...ROUTER_ENTRY, uuid: undefined, agent: { name: 'other' } }], ['router']),
    );
    const drop = () => admin.delete('/application/system/system-leaving');
    expect(await drop()).toMatchObject({ status: 400, body: { code: 'SYSTEM_APPLICATION_DELETE' } });
    expect(await verdict(byKubectl, 'DELETE', at('system-leaving'))).toContain('or delete the node');
    const { uuid } = (await admin.get('/node-list')).body.nodes.find(({ name }: { name: string }) => name === 'other');
    expect((await admin.delete(`/node/${uuid}`)).status).toBe(204);
    await expect.poll(async () => (await drop()).status, { timeout: 20_000 }).toBe(204);
  });

  test('may be as large as fits', async () => {
    const config = { text: 'x'.repeat(30_000) };
    const many = Array.from({ length: 40 }, (_, i) => ({ ...DEBUG, name: `m-${i}`, config }));
    const names = many.map(({ name }) => name);
    await kube.request('POST', at(), systemOn('large', many, names));
    const changed = (change: object) => many.map((one) => ({ ...one, ...change }));
    expect(await patch('system-large', { spec: { microservices: changed({ container: { cpus: 1 } }) } })).toBe(
      'allowed',
    );
    const refused = await patch('system-large', { spec: { microservices: changed({ schedule: 3 }) } });
    expect(refused).toContain('m-0 (schedule), m-1 (schedule)');
  });
});

describe('the annotation that names microservices of the platform', () => {
  test.each<[string, string | null]>([
    ['changes', '["router","debug"]'],
    ['removes', null],
  ])('is nothing that an admin %s', async (_, value) => {
    expect(await patch('system-gw', annotated(value))).toContain("a note of the controller's own");
  });

  test('is on no application that a user creates, over kubectl and over REST', async () => {
    const mine = {
      apiVersion: API_VERSION,
      kind: 'Application',
      metadata: { name: 'mine', ...annotated('["web"]').metadata },
      spec: {},
    };
    expect(await verdict(byKubectl, 'POST', at(), mine)).toContain("a note of the controller's own");
    const answer = await admin.post('/application/yaml', { form: { part: 'application', text: JSON.stringify(mine) } });
    expect(answer.status).toBe(201);
    const { metadata } = (await kube.get(at('mine'))) as unknown as Application;
    expect(metadata.annotations?.[ANNOTATIONS.platform]).toBeUndefined();
  });
});

const stored = async () => (await kube.get(at('system-gw'))) as unknown as Application;
