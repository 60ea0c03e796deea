import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { kubeFromFile } from '../../../../hack/kube.ts';
import { API_VERSION, FIELD_MANAGERS } from '../../../api/names.ts';
import type { Application } from '../../../api/v3/index.ts';
import { startTestCluster } from '../../../rest/_cluster.ts';

/** Templates that kubectl names, on a real API server with a whole controller. */
const kube = await kubeFromFile(inject('kubeconfig'));
afterAll(() => kube.close());
const cluster = await startTestCluster();
const { namespace } = cluster;
await cluster.startController();
beforeAll(() => apply('EdgeNode', 'gw-1', { host: '10.0.0.7' }));

const path = (plural: string, name: string) => `/apis/${API_VERSION}/namespaces/${namespace}/${plural}/${name}`;
const PLURALS: Record<string, string> = {
  EdgeNode: 'edgenodes',
  Application: 'applications',
  ApplicationTemplate: 'applicationtemplates',
  MicroserviceTemplate: 'microservicetemplates',
};
/** `kubectl apply --server-side`. */
const apply = (kind: string, name: string, spec: object, manager = 'kubectl') =>
  kube.request<Application>(
    'PATCH',
    `${path(PLURALS[kind] as string, name)}?fieldManager=${manager}&force=true`,
    { apiVersion: API_VERSION, kind, metadata: { name, namespace }, spec },
    'application/apply-patch+yaml',
  );
const read = async (name: string) => (await kube.get<Application>(path('applications', name))) as Application;
const ready = async (name: string) => (await read(name)).status?.conditions?.find(({ type }) => type === 'Ready');
const poll = <T>(get: () => Promise<T>) => expect.poll(get, { timeout: 30_000, interval: 100 });
const settled = (name: string) =>
  poll(async () => (await read(name)).status?.observedGeneration === (await read(name)).metadata.generation).toBe(true);

const LINE = {
  variables: [{ key: 'node-name' }, { key: 'port', defaultValue: 8080 }],
  application: {
    description: 'a line',
    microservices: [
      {
        name: 'reader',
        agent: { name: '{{ node-name }}' },
        images: { amd64: 'x:1' },
        container: {
          ports: [{ internal: 80, external: '{{ port }}' }],
          env: [{ key: 'HOST', value: '{{ node-name | findAgent | map: "host" | first }}' }],
        },
        config: { of: '{{ self.name }}' },
      },
    ],
  },
};
const named = (variables: object, more = {}) => ({ template: { name: 'line', variables }, ...more });

describe('an Application with a template', () => {
  test('waits for its template, gets its microservices when it comes, and its later changes do nothing', async () => {
    await apply('Application', 'waits', named({ 'node-name': 'gw-1' }));
    await poll(() => ready('waits')).toMatchObject({ status: 'False', reason: 'TemplateNotFound' });
    await apply('ApplicationTemplate', 'line', LINE);
    await poll(async () => (await read('waits')).spec.microservices).toMatchObject([
      {
        name: 'reader',
        agent: { name: 'gw-1' },
        container: { ports: [{ internal: 80, external: 8080 }], env: [{ key: 'HOST', value: '10.0.0.7' }] },
        config: { of: 'waits' },
      },
    ]);
    await poll(() => ready('waits')).toMatchObject({ reason: 'NotProvisioned' });
    const { metadata, spec } = await read('waits');
    expect(spec.description).toBe('a line');
    expect(
      (metadata as { managedFields?: { manager: string }[] }).managedFields?.map(({ manager }) => manager),
    ).toContain(FIELD_MANAGERS.template);
    await apply('ApplicationTemplate', 'line', { ...LINE, application: { ...LINE.application, description: 'later' } });
    await apply('Application', 'witness', named({ 'node-name': 'gw-1', port: 9001 }));
    await poll(async () => (await read('witness')).spec.description).toBe('later');
    expect((await read('waits')).spec.description).toBe('a line');
    await apply('ApplicationTemplate', 'line', LINE);
  });

  test('is rendered again when its variables change, and the same manifest changes nothing', async () => {
    await apply('Application', 'again', named({ 'node-name': 'gw-1', port: 9010 }));
    const port = async () => (await read('again')).spec.microservices?.[0]?.container?.ports?.[0]?.external;
    await poll(port).toBe(9010);
    await apply('Application', 'again', named({ 'node-name': 'gw-1', port: 9011 }));
    await poll(port).toBe(9011);
    await settled('again');
    const before = await read('again');
    await apply('Application', 'again', named({ 'node-name': 'gw-1', port: 9011 }));
    await apply('Application', 'witness', named({ 'node-name': 'gw-1', port: 9002 }));
    await poll(async () => (await read('witness')).spec.microservices?.[0]?.container?.ports?.[0]?.external).toBe(9002);
    expect((await read('again')).metadata.generation).toBe(before.metadata.generation);
  });

  test('takes nothing from others: a conflict is a reason, and what was there stays', async () => {
    const microservices = [{ name: 'reader', agent: { name: 'gw-1' }, images: { amd64: 'mine:1' } }];
    await apply('Application', 'conflict', named({ 'node-name': 'gw-1', port: 9020 }, { microservices }));
    await poll(() => ready('conflict')).toMatchObject({
      status: 'False',
      reason: 'TemplateConflict',
      message: expect.stringMatching(/kubectl.*|images/),
    });
    expect((await read('conflict')).spec.microservices?.[0]?.images).toEqual({ amd64: 'mine:1' });
  });

  test.each([
    ['missing', named({}), 'TemplateInvalid', /node-name: is required/],
    ['nobody', named({ 'node-name': 'gw-9' }), 'TemplateInvalid', /there is no node "gw-9"/],
    ['bad', named({ 'node-name': 'gw-1', port: 'x' }), 'TemplateInvalid', /external/],
  ])('that cannot be rendered says why: %s', async (name, spec, reason, message) => {
    await apply('Application', name, spec);
    await poll(() => ready(name)).toMatchObject({ status: 'False', reason, message: expect.stringMatching(message) });
  });
});

describe('an entry with a template', () => {
  const BASE = {
    variables: [{ key: 'level', defaultValue: 'warn' }],
    microservice: {
      images: { amd64: 'base:1' },
      container: { env: [{ key: 'LOG', value: '{{ level }} {{ self.name }}' }] },
    },
  };
  const entry = (template: object, more = {}) => ({
    microservices: [{ name: 'web', agent: { name: 'gw-1' }, template: { name: 'base', ...template }, ...more }],
  });
  const env = async (name: string) => (await read(name)).spec.microservices?.[0]?.container?.env;

  test('gets what the template adds, again when its variables change, and is judged after that', async () => {
    await apply('MicroserviceTemplate', 'base', BASE);
    await apply('Application', 'entry', entry({}));
    await poll(() => env('entry')).toEqual([{ key: 'LOG', value: 'warn web' }]);
    expect((await read('entry')).spec.microservices?.[0]).toMatchObject({
      agent: { name: 'gw-1' },
      images: { amd64: 'base:1' },
    });
    await poll(() => ready('entry')).toMatchObject({ reason: 'NotProvisioned' });
    await apply('Application', 'entry', entry({ variables: { level: 'info' } }));
    await poll(() => env('entry')).toEqual([{ key: 'LOG', value: 'info web' }]);
  });

  test('that sets the same field as its template says so and does not run half', async () => {
    await apply('Application', 'both', entry({}, { container: { env: [{ key: 'OWN', value: 'a' }] } }));
    await poll(() => ready('both')).toMatchObject({
      reason: 'TemplateConflict',
      message: expect.stringContaining('container.env'),
    });
    expect(await env('both')).toEqual([{ key: 'OWN', value: 'a' }]);
  });

  test('is gone once it is removed from its manifest', async () => {
    await apply('Application', 'entry', { microservices: [] });
    await poll(async () => (await read('entry')).spec.microservices ?? []).toEqual([]);
    await poll(async () => Object.keys((await read('entry')).metadata.annotations ?? {})).toEqual([]);
  });
});
