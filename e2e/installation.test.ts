import { execFile } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { findTools } from '../hack/binaries.ts';
import { startControlPlane } from '../hack/control-plane.ts';
import { findHelm } from '../hack/helm.ts';
import { type Kube, type KubeObject, kubeFromFile, objectsOfYaml } from '../hack/kube.ts';
import { definitions, plainManifests } from '../hack/package/cluster.ts';
import { ROOT } from '../hack/paths.ts';
import { API_VERSION, FINALIZERS } from '../src/api/names.ts';
import type { EdgeNode } from '../src/api/v3/index.ts';
import { BASE } from '../src/rest/contract/base.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { adminAccess } from './_access.ts';
import { type Pod, runJobs, startPod } from './_pods.ts';
import { type SimulatedNode, startSimulatedNodes } from './_simulated-nodes.ts';
import { readyOf, until } from './_stack.ts';
import { startLink } from './history/tcp-link.ts';

/**
 * The life of the chart in a cluster: as Argo CD installs it, with another release beside it, upgraded, uninstalled, and
 * taken away as docs/uninstall.md says. The API server and helm are real; what a kubelet would start, _pods.ts does. The
 * tests build on each other.
 */
const CHART = join(ROOT, 'charts/skerry');
/** Release and namespace of docs/uninstall.md. */
const NAME = 'skerry';
/** How long the controller works before the objects are compared with the desired ones. */
const SETTLED_MS = process.env.SKERRY_NIGHTLY ? 60_000 : 3_000;
const LONG = 240_000;
const nightly = test.runIf(process.env.SKERRY_NIGHTLY);

const run = promisify(execFile);
const started = new AsyncDisposableStack();
const stop = new AbortController();
const jobLogs = new Map<string, string>();
const dir = temporaryFolder();
let kube: Kube;
let place: Parameters<typeof startPod>[0];
let environment: NodeJS.ProcessEnv;
let pod: Pod | undefined;
let url: string;
let node: SimulatedNode;
let podCount = 0;

beforeAll(async () => {
  const [helm, { kubectl }] = [await findHelm(), await findTools(['kubectl'])];
  const cluster = started.use(await startControlPlane({ dir: join(dir, 'cluster') }));
  const { kubeconfig } = cluster;
  kube = await kubeFromFile(kubeconfig);
  started.defer(() => kube.close());
  await mkdir(join(dir, 'bin'));
  if (helm !== 'helm') symlinkSync(helm, join(dir, 'bin/helm'));
  if (kubectl !== 'kubectl') symlinkSync(kubectl, join(dir, 'bin/kubectl'));
  environment = {
    ...process.env,
    PATH: [join(dir, 'bin'), process.env.PATH].join(delimiter),
    KUBECONFIG: kubeconfig,
    HELM_CACHE_HOME: dir,
    HELM_CONFIG_HOME: dir,
    HELM_DATA_HOME: dir,
  };
  place = { kube, kubeconfig, dir, bundle: inject('programs').controller };
  void runJobs(place, jobLogs, stop.signal);
  started.defer(() => stop.abort());
  const link = started.use(await startLink(() => (pod ? [Number(new URL(pod.url).port)] : [])));
  url = `http://127.0.0.1:${link.port}`;
}, 900_000);
afterAll(() => started.disposeAsync(), 120_000);

/** A line of a shell, as people type it. */
const shell = async (line: string) =>
  (await run('sh', ['-euc', line], { env: environment, timeout: LONG, maxBuffer: 64 * 1024 ** 2 })).stdout;
const render = (...args: string[]) => shell(`helm template ${NAME} ${CHART} --namespace ${NAME} ${args.join(' ')}`);

async function startController(): Promise<Pod> {
  const next = await startPod(place, NAME, 'skerry-controller', `skerry-controller-${++podCount}`);
  started.defer(() => next.daemon.stop(5_000));
  return next;
}
async function stopController(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
  const { daemon } = pod as Pod;
  pod = undefined;
  daemon.signal(signal);
  await daemon.exited;
}

/** The indented blocks of a section of a page. */
function commands(page: string, heading: string): string[] {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const section = text.split(/^## /m).find((one) => one.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(/(?:^ {4}.*\n)+/gm)].map(([block]) => block.replace(/^ {4}/gm, ''));
}

const path = (plural: string, name = '', namespace = NAME) =>
  `/apis/${API_VERSION}/namespaces/${namespace}/${plural}${name && `/${name}`}`;
const make = (kind: string, name: string, spec: object, namespace = NAME) =>
  kube.apply({ apiVersion: API_VERSION, kind, metadata: { name, namespace }, spec });
const names = async (plural: string, namespace = NAME) =>
  ((await kube.get<{ items: KubeObject[] }>(path(plural, '', namespace)))?.items ?? []).map(
    ({ metadata }) => metadata.name,
  );
const statusOf = async (plural: string, name: string, namespace = NAME) =>
  (await kube.get<EdgeNode>(path(plural, name, namespace)))?.status;

test('helm template gives the same text each time: it asks no cluster and no chance', async () => {
  const all = ['monitoring.podMonitor', 'monitoring.prometheusRule', 'monitoring.dashboard'].map(
    (name) => `--set ${name}=true`,
  );
  const [first, second] = [await render(...all), await render(...all)];
  expect(second).toBe(first);
});

test(
  'without CRDs the job of the chart creates them, as under Argo CD, with only the rights of its hooks',
  async () => {
    await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAME } });
    const hooks = objectsOfYaml(await render()).filter(({ metadata }) => hookOf(metadata)?.includes('pre-install'));
    for (const hook of hooks.sort((a, b) => weightOf(a) - weightOf(b))) await kube.apply(hook);
    const said = await until('the job to say what it did', async () => jobLogs.get('skerry-crds'), {
      timeoutMs: 120_000,
    });
    expect(
      new Set(
        said
          .trim()
          .split('\n')
          .map((line) => line.split(': ')[1]),
      ),
    ).toEqual(new Set(['created']));
    expect(said.trim().split('\n')).toHaveLength(crds().length);
    for (const { kind, metadata, apiVersion } of hooks)
      await shell(
        `kubectl delete ${kind}.${apiVersion.split('/')[0] === 'v1' ? '' : apiVersion.split('/')[0]} ${metadata.name} -n ${NAME}`,
      );
    jobLogs.clear();
  },
  LONG,
);

const annotationsOf = (metadata: KubeObject['metadata']) => metadata.annotations as Record<string, string> | undefined;
const hookOf = (metadata: KubeObject['metadata']) => annotationsOf(metadata)?.['helm.sh/hook'];
const weightOf = ({ metadata }: KubeObject) => Number(annotationsOf(metadata)?.['helm.sh/hook-weight'] ?? 0);
const crds = () => objectsOfYaml(definitions());

test(
  'a controller with the rights and the environment of the chart runs an application on a node',
  async () => {
    await shell(`helm install ${NAME} ${CHART} --namespace ${NAME}`);
    expect(jobLogs.get('skerry-crds')).toMatch(/^(\S+: unchanged\n)+$/);
    pod = await startController();
    const access = await adminAccess(kube, NAME);
    [node] = (await startSimulatedNodes(access, { count: 1, url, home: dir, signal: stop.signal })) as [SimulatedNode];
    expect(node.running()).toBe(1);
  },
  LONG,
);

test(
  'after it has worked for a while, nothing of the rendered chart has drifted',
  async () => {
    await sleep(SETTLED_MS);
    const rendered = join(dir, 'rendered.yaml');
    writeFileSync(rendered, `${await render('--no-hooks')}---\n${definitions()}`);
    // Exits with 1 and shows the difference, if there is one.
    const diff = await shell(
      `kubectl diff --server-side --force-conflicts --field-manager=argocd-controller -f ${rendered}`,
    ).catch((error: { stdout?: string; message: string }) => error.stdout || error.message);
    expect(diff).toBe('');
    // Lists are compared as a whole, and the defaults of CRDs are known to the API server alone.
    for (const crd of crds()) {
      const { spec } = (await kube.get(
        `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${crd.metadata.name}`,
      )) as {
        spec?: { versions: unknown };
      } & KubeObject;
      expect(spec?.versions, crd.metadata.name).toEqual((crd.spec as { versions: unknown }).versions);
    }
  },
  LONG,
);

/** Renders the release from what helm says of it, and compares that with what helm installed. */
async function judgeValues(): Promise<void> {
  const values = join(dir, 'values.yaml');
  await shell(`helm get values ${NAME} --namespace ${NAME} --all --output yaml > ${values}`);
  const installed = objectsOfYaml(await shell(`helm get manifest ${NAME} --namespace ${NAME}`));
  expect(objectsOfYaml(await render('--no-hooks', '--values', values))).toEqual(installed);
}

test(
  'helm upgrade brings an old CRD up to date, says so, restarts nothing, and helm get has the installed values',
  async () => {
    const name = 'models.skerry.dev';
    const at = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`;
    await kube.request(
      'PATCH',
      at,
      [{ op: 'remove', path: '/spec/versions/0/additionalPrinterColumns' }],
      'application/json-patch+json',
    );
    await shell(`helm upgrade ${NAME} ${CHART} --namespace ${NAME} --set logLevel=debug`);
    await judgeValues();
    const said = jobLogs.get('skerry-crds') ?? '';
    expect(said).toContain(`${name}: updated`);
    expect(said.match(/unchanged/g)).toHaveLength(crds().length - 1);
    const before = pod as Pod;
    pod = await startController();
    before.daemon.signal('SIGTERM');
    await before.daemon.exited;
    await shell(`helm rollback ${NAME} 1 --namespace ${NAME}`);
    await judgeValues();
    await untilConnected();
    expect([node.running(), node.starts()]).toEqual([1, 1]);
  },
  LONG,
);

const untilConnected = () =>
  until(
    'the node to be ready',
    async () => {
      const ready = readyOf(await kube.get<EdgeNode>(path('edgenodes', node.name)));
      return ready?.status === 'True' && node.agent.connection.state === 'OK';
    },
    { timeoutMs: 120_000 },
  );

test(
  'two releases in one cluster each see only their own objects',
  async () => {
    await shell(`helm install shore ${CHART} --namespace shore --create-namespace`);
    const other = await startPod(place, 'shore', 'skerry-controller', 'shore-controller');
    started.defer(() => other.daemon.stop(5_000));
    // Admission policies take effect some time after they were stored.
    await until(
      'a node in the other namespace',
      async () => (await make('EdgeNode', node.name, { archId: 1 }, 'shore')) !== undefined,
    );
    await make('EdgeNode', 'only-shore', { archId: 1 }, 'shore');
    const uuid = await until('its identity', async () => (await statusOf('edgenodes', node.name, 'shore'))?.uuid);
    expect(uuid).not.toBe((await statusOf('edgenodes', node.name))?.uuid);
    const { token } = await adminAccess(kube, NAME);
    const list = async (at: string) => {
      const response = await fetch(`${at}${BASE}/node-list`, { headers: { authorization: `Bearer ${token}` } });
      return { status: response.status, text: await response.text() };
    };
    expect(await list(url)).toMatchObject({ status: 200, text: expect.not.stringContaining('only-shore') });
    expect(await list(other.url)).toMatchObject({ status: 403 });
    await expect(shell(`helm install second ${CHART} --namespace shore --no-hooks`)).rejects.toThrow(
      /ownership|exists/,
    );
  },
  LONG,
);

test(
  'helm uninstall frees the objects from finalizers, even beside a controller that still runs, and leaves machines and the other release alone',
  async () => {
    const [line = ''] = commands('docs/uninstall.md', 'The release');
    await shell(line);
    expect(jobLogs.get('skerry-uninstall')).toMatch(/edgenodes\.skerry\.dev: 1 freed/);
    const expectFree = async () => {
      for (const plural of ['applications', 'edgenodes'])
        expect((await kube.get(path(plural, node.name)))?.metadata).not.toHaveProperty('finalizers');
    };
    await expectFree();
    // The controller receives the change, and would add the missing part.
    await shell(
      `kubectl label -n ${NAME} applications.skerry.dev/${node.name} edgenodes.skerry.dev/${node.name} seen=yes`,
    );
    await sleep(SETTLED_MS);
    await stopController();
    await expectFree();
    expect((await kube.get(path('edgenodes', node.name, 'shore')))?.metadata).toMatchObject({
      finalizers: [FINALIZERS.workloads],
    });
    expect(await names('edgenodes', 'shore')).toContain(node.name);
    const left = await shell(
      `kubectl get deploy,svc,sa,role,rolebinding,job,cm -n ${NAME} -o name; kubectl get clusterrole,clusterrolebinding,validatingadmissionpolicy -o name`,
    );
    expect(left.split('\n').filter((one) => /skerry/.test(one) && !/shore/.test(one))).toEqual([
      'job.batch/skerry-crds',
      'configmap/skerry-budgets',
      'configmap/skerry-epochs',
      'configmap/skerry-ids',
      'configmap/skerry-settings',
    ]);
    expect([node.running(), node.starts()]).toEqual([1, 1]);
  },
  LONG,
);

nightly(
  'a release that is installed again continues with the objects that stayed, and restarts nothing',
  async () => {
    await shell(`helm install ${NAME} ${CHART} --namespace ${NAME}`);
    pod = await startController();
    await untilConnected();
    await until('the finalizer', async () => (await kube.get(path('edgenodes', node.name)))?.metadata.finalizers);
    expect([node.running(), node.starts()]).toEqual([1, 1]);
  },
  LONG,
);

nightly(
  'the page of uninstalling ends what runs on machines while the controller works',
  async () => {
    for (const line of commands('docs/uninstall.md', 'The machines')) await shell(line);
    expect(await names('edgenodes')).toEqual([]);
    await until('the container to be gone', async () => node.running() === 0);
  },
  LONG,
);

nightly(
  'objects that are deleted after an uninstall without its job are freed by the page',
  async () => {
    await make('EdgeNode', 'stuck', { archId: 1 });
    await make('Application', 'stuck', { microservices: [] });
    await until('the finalizers', async () => {
      const both = await Promise.all(['applications', 'edgenodes'].map((plural) => kube.get(path(plural, 'stuck'))));
      return both.every((one) => one?.metadata.finalizers);
    });
    await stopController('SIGKILL');
    await shell(`helm -n ${NAME} uninstall ${NAME} --no-hooks`);
    await shell(`kubectl -n ${NAME} delete applications.skerry.dev,edgenodes.skerry.dev --all --wait=false`);
    expect(await names('edgenodes')).toEqual(['stuck']);
    const [line = ''] = commands('docs/uninstall.md', 'When something does not go away');
    await shell(line);
    await until(
      'them to be gone',
      async () => [...(await names('edgenodes')), ...(await names('applications'))].length === 0,
    );
  },
  LONG,
);

test(
  'the page of uninstalling takes away all that is left: first of the namespace, then of the cluster',
  async () => {
    const [, shared = '', crdsToo = ''] = commands('docs/uninstall.md', 'The rest');
    await shell(shared);
    const kept = await shell(
      `kubectl get secrets,configmaps,leases,${crds().map(({ metadata }) => metadata.name)} -n ${NAME} -o name`,
    );
    expect(kept.split('\n').filter((one) => one && !/kube-root-ca/.test(one))).toEqual([]);
    expect(await names('edgenodes', 'shore')).toContain('only-shore');
    await shell('helm -n shore uninstall shore');
    await shell(crdsToo);
    expect(await shell('kubectl get crds -o name')).toBe('');
    const [whole = ''] = commands('docs/uninstall.md', 'The rest');
    await shell(whole);
    expect(await kube.get(`/api/v1/namespaces/${NAME}`)).toBeUndefined();
  },
  LONG,
);

test(
  'Helm deletes no CRD that a release once had among its objects',
  async () => {
    const chart = join(dir, 'tracking');
    await mkdir(join(chart, 'templates'), { recursive: true });
    writeFileSync(join(chart, 'Chart.yaml'), 'apiVersion: v2\nname: tracking\nversion: 0.1.0\n');
    writeFileSync(join(chart, 'crd.yaml'), readFileSync(join(ROOT, 'crds/skerry.dev_models.yaml')));
    const template = join(chart, 'templates/crd.yaml');
    writeFileSync(template, '{{ .Files.Get "crd.yaml" }}');
    // The namespace of the context is deleted by now.
    const own = 'tracking --namespace default';
    await shell(`helm install ${own} ${chart}`);
    const definition = async () => {
      const at = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/models.skerry.dev';
      // An object in deletion still exists for a moment.
      const metadata = (await kube.get(at))?.metadata;
      return { uid: metadata?.uid, deletionTimestamp: metadata?.deletionTimestamp };
    };
    const before = await definition();
    expect(before).toEqual({ uid: expect.any(String), deletionTimestamp: undefined });
    await rm(template);
    await shell(`helm upgrade ${own} ${chart}`);
    expect(await definition()).toEqual(before);
    await shell(`helm uninstall ${own}`);
    expect(await definition()).toEqual(before);
  },
  LONG,
);

nightly(
  'the commands of the page take away what the plain manifests brought, and leave namespace and definitions',
  async () => {
    const file = join(dir, 'plain.yaml');
    const manifests = await plainManifests();
    writeFileSync(file, manifests);
    await shell(`kubectl apply --server-side -f ${file}`);
    await make('EdgeNode', 'kept', {});
    for (const block of commands('docs/uninstall.md', 'Without Helm')) await shell(block);
    const left = (await shell(`kubectl get -f ${file} --ignore-not-found -o name`)).trim().split('\n');
    const stays = /^(namespace|customresourcedefinition\.apiextensions\.k8s\.io)\//;
    expect(left.filter((name) => !stays.test(name))).toEqual([]);
    expect(left.filter((name) => stays.test(name))).toHaveLength(
      objectsOfYaml(manifests).filter(({ kind }) => kind === 'Namespace' || kind === 'CustomResourceDefinition').length,
    );
    expect(await names('edgenodes')).toContain('kept');
  },
  LONG,
);
