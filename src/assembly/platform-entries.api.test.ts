import { beforeAll, describe, expect, inject, test } from 'vitest';
import { kubeFromFile } from '../../hack/kube.ts';
import type {} from '../../hack/testing/provided.ts';
import { waitFor } from '../../hack/wait.ts';
import { atEnd } from '../../testing/at-end.ts';
import { BOUNDS } from '../api/bounds.ts';
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
const LARGE: MicroserviceEntry[] = Array.from({ length: 40 }, (_, i) => ({
  ...{ ...DEBUG, name: `m-${i}` },
  config: { text: 'x'.repeat(30_000) },
}));
const LONG: MicroserviceEntry[] = Array.from({ length: BOUNDS.entries }, (_, i) => ({
  ...{ ...DEBUG, name: `m-${1_000 + i}`, config: 'x' },
  container: { env: Array.from({ length: 40 }, (_, n) => ({ key: `KEY_${n}`, value: 'x'.repeat(100) })), logSize: 1 },
}));
const namesOf = (entries: readonly MicroserviceEntry[]) => entries.map(({ name }) => name);
const annotated = (value: string | null) => ({ metadata: { annotations: { [ANNOTATIONS.platform]: value } } });
const patch = (name: string, body: object) => verdict(byKubectl, 'PATCH', at(name), body, MERGE);
const write = (...microservices: MicroserviceEntry[]) => patch('system-gw', { spec: { microservices } });
const OF_PLATFORM = 'microservices that belong to the platform of a node change with its settings; users change';

beforeAll(async () => {
  expect((await admin.post('/node', { json: { name: 'gw', archId: 1 } })).status).toBe(201);
  await kube.request('POST', at(), systemOn('gw', [ROUTER_ENTRY, DEBUG], ['router']));
  await kube.request('POST', at(), systemOn('large', LARGE, namesOf(LARGE)));
  await kube.request('POST', at(), systemOn('long', LONG, namesOf(LONG).slice(-3)));
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

  test.each(PLATFORM_CHANGES)('at $path is allowed over kubectl, JSON and files alike: $isAllowed', async (change) => {
    const { entry, flat, isAllowed } = change;
    const over = await write(entry, DEBUG);
    if (isAllowed) expect(over).toBe('allowed');
    else {
      const what = change.path === 'name' ? 'removed' : change.path;
      const refusal =
        change.path === 'uuid' ? 'uuid is immutable once set' : `${OF_PLATFORM} .*: router \\(${what}\\)$`;
      expect(over).toMatch(new RegExp(refusal));
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

  test('is not deleted by an admin while its node exists, over REST and kubectl', async () => {
    expect(await admin.delete('/application/system/system-gw')).toMatchObject({
      status: 400,
      body: { code: 'SYSTEM_APPLICATION_DELETE' },
    });
    expect(await verdict(byKubectl, 'DELETE', at('system-gw'))).toContain('or delete the node');
  });

  test.each<[string, string, MicroserviceEntry[]]>([
    ['large entries', 'system-large', LARGE],
    ['the most entries', 'system-long', LONG],
  ])('is compared within the budget of the API server when it has %s', async (_, name, entries) => {
    const changed = (change: object) => ({ spec: { microservices: entries.map((one) => ({ ...one, ...change })) } });
    expect(await patch(name, changed({ container: { ...entries[0]?.container, cpus: 1 } }))).toBe('allowed');
    const [last] = namesOf(entries).slice(-1);
    expect(await patch(name, changed({ schedule: 3, config: 1 }))).toMatch(
      new RegExp(`${last} \\((schedule, config|config, schedule)\\)`),
    );
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
