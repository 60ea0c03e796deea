import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import { afterAll, expect, inject, test } from 'vitest';
import { findTools } from '../../hack/binaries.ts';
import { kubeFromFile } from '../../hack/kube.ts';
import { manifest } from '../../testing/manifest.ts';
import { API_VERSION } from './names.ts';

/** What people see: kubectl's own output for objects with a given status, compared with golden files. */
const run = promisify(execFile);
const namespace = `kubectl-${randomUUID().slice(0, 8)}`;
const UUID = '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6';

const condition = (type: string, status: string, reason: string, message: string) => ({
  type,
  status,
  reason,
  message,
  observedGeneration: 1,
  lastTransitionTime: '2026-01-01T00:00:00Z',
});

const objects = [
  {
    plural: 'edgenodes',
    object: manifest('EdgeNode', { name: 'gw-1' }, { description: 'Gateway in hall 3' }),
    status: {
      observedGeneration: 1,
      uuid: UUID,
      daemonStatus: 'RUNNING',
      lastSeenTime: new Date().toISOString(),
      version: '0.1.0',
      ipAddress: '10.0.0.7',
      containerEngine: 'docker',
      microserviceCount: '1/1',
      conditions: [condition('Ready', 'True', 'AgentRunning', 'the agent is live and runs')],
      microservices: [{ uuid: UUID, application: 'plant-a', name: 'reader', state: 'RUNNING', revision: 'r1' }],
    },
  },
  {
    plural: 'applications',
    object: {
      apiVersion: API_VERSION,
      kind: 'Application',
      metadata: { name: 'plant-a' },
      spec: {
        microservices: [{ name: 'reader', agent: { name: 'gw-1' }, images: { amd64: 'reg.example/reader:2' } }],
      },
    },
    status: {
      observedGeneration: 1,
      uuid: UUID,
      id: 10,
      ready: '0/1',
      readyCount: 0,
      totalCount: 1,
      conditions: [
        condition('Ready', 'False', 'RegistryNotFound', 'reader: there is no registry "plant"'),
        condition('Stalled', 'True', 'RegistryNotFound', 'reader: there is no registry "plant"'),
      ],
      microservices: [
        {
          name: 'reader',
          uuid: UUID,
          node: 'gw-1',
          state: 'RUNNING',
          ready: false,
          message: 'there is no registry "plant"; keeps running the former revision',
        },
      ],
    },
  },
  {
    plural: 'registries',
    object: manifest('Registry', { name: 'plant' }, { url: 'registry.plant.example:5000' }),
    status: {
      observedGeneration: 1,
      id: 11,
      conditions: [condition('Ready', 'True', 'Usable', 'the registry can be used')],
    },
  },
];

const kubectl = (await findTools(['kubectl'])).kubectl;
const kube = await kubeFromFile(inject('kubeconfig'));
await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
for (const { plural, object, status } of objects) {
  const path = `/apis/${API_VERSION}/namespaces/${namespace}/${plural}`;
  await kube.request('POST', path, object);
  await kube.request('PATCH', `${path}/${object.metadata.name}/status`, { status }, 'application/merge-patch+json');
}
afterAll(() => kube.close());

/** Output with what differs from run to run made equal. */
async function output(args: string): Promise<string> {
  const { stdout } = await run(kubectl, ['--kubeconfig', inject('kubeconfig'), '-n', namespace, ...args.split(' ')]);
  return stdout
    .replaceAll(namespace, '<namespace>')
    .replaceAll(/\b\d+s\b */g, '<age> ')
    .replaceAll(/(UID|Resource Version|Creation Timestamp|Last Seen Time): +\S+/g, '$1: <any>')
    .replaceAll(/^ +Manager:[\s\S]*?(?=^ {2}[A-Z]|^[A-Z])/gm, '')
    .replaceAll(/ +$/gm, '');
}

test.each([
  'get applications',
  'get applications -o wide',
  'get edgenodes',
  'get en -o wide',
  'get registries',
  'get reg -o wide',
  'get skerry',
  'describe application plant-a',
  'describe edgenode gw-1',
  'explain application',
  'explain application.spec',
  'explain application.spec.microservices',
  'explain application.spec.microservices.container',
  'explain edgenode.spec',
  'explain registry.spec',
])('kubectl %s', async (args) => {
  const name = args.replaceAll(/[^a-z]+/gi, '-');
  await expect(await output(args)).toMatchFileSnapshot(`testdata/kubectl/${name}.golden`);
});

test('kubectl can select objects by uuid', async () => {
  expect(await output(`get applications --field-selector status.uuid=${UUID} -o name`)).toBe(
    'application.skerry.dev/plant-a\n',
  );
  expect(await output('get applications --field-selector status.uuid=none -o name')).toBe('');
});

test('a new object has observedGeneration -1, so that kstatus does not count it as done', async () => {
  const path = `/apis/${API_VERSION}/namespaces/${namespace}/applications`;
  await kube.request('POST', path, manifest('Application', { name: 'fresh' }, {}));
  expect(await kube.get(`${path}/fresh`)).toMatchObject({ status: { observedGeneration: -1 } });
});

test('kubectl wait succeeds once the object is Ready', async () => {
  await expect(output('wait --for=condition=Ready=False application/plant-a --timeout=5s')).resolves.toContain(
    'condition met',
  );
  await expect(output('wait --for=condition=Ready application/plant-a --timeout=100ms')).rejects.toThrow('timed out');
});
