import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { isDeepStrictEqual, promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { findTools } from '../hack/binaries.ts';
import { installCrds, startControlPlane } from '../hack/control-plane.ts';
import { findEtcdClient } from '../hack/etcd-client.ts';
import { freePort } from '../hack/ports.ts';
import { createSealedPositions } from '../src/agents/pipeline/sealed-position.ts';
import { isIssued, parseEpochLog } from '../src/rules/epoch.ts';
import { manifest } from '../testing/manifest.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { type ControllerProcess, createStack, get, readyOf, until, untilReady, webApplication } from './_stack.ts';

/**
 * etcd is restored from an older snapshot, or is empty, while a real agent runs containers. Nothing is removed from the
 * machine because of it; a condition names what the datastore lacks, and the operator decides. By day the snapshot is a copy of
 * etcd's folder, in the night one of etcdctl, which etcdutl restores.
 */
const NIGHTLY = process.env.SKERRY_NIGHTLY !== undefined;
const NODE = 'gw-restore';
const APPLICATION = '5f1c2a9e-0b4d-4c6e-9f57-3a2b1c0d4e5f';
const folder = temporaryFolder();
let controller: ControllerProcess;
const ports = { kept: 0, lost: 0 };
const snapshot = () => join(folder, 'snapshot');

const cluster = await startControlPlane({ dir: join(folder, 'cluster') });
await installCrds(cluster.kubeconfig);
afterAll(() => cluster.stop(), 60_000);
const stack = await createStack({ kubeconfig: cluster.kubeconfig });
const ADMIN = { email: 'root@plant.example', password: 'Correct-Horse-7' };
const port = String(await freePort());
/** of every controller here: agents keep its address, and people can log in */
const env = {
  SERVER_PORT: port,
  CONTROLLER_PUBLIC_URL: `http://127.0.0.1:${port}`,
  OIDC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.email,
  OIDC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
};
controller = await stack.startController({ env });
const agent = await stack.startAgent(NODE, controller);
for (const name of ['kept', 'lost'] as const) ports[name] = await freePort();

const app = async (name: 'kept' | 'lost', version: string, spec: object = {}) => {
  const manifest = webApplication(name, NODE, await stack.image(version, { GREETING: version }), ports[name]);
  return { ...manifest, spec: { ...manifest.spec, ...spec } };
};
const greeting = (name: 'kept' | 'lost') => get(`http://127.0.0.1:${ports[name]}/`);
const containerOf = async (name: string) =>
  (await stack.containers()).find(
    ({ labels, state }) =>
      labels['skerry.dev/application'] === name &&
      state === 'running' &&
      labels['skerry.dev/node-uid'] !== undefined &&
      labels['skerry.dev/agent'] === agentId,
  )?.id;
let agentId = '';
/** The agent that runs an application; containers of others may have its name. */
const agentOf = async (name: string) =>
  (await stack.containers()).find(
    ({ labels, state }) => labels['skerry.dev/application'] === name && state === 'running',
  )?.labels['skerry.dev/agent'] ?? '';
const epochLogNow = async () => {
  const map = await stack.kube.get<{ data: { epochs: string } }>(
    `/api/v1/namespaces/${stack.namespace}/configmaps/skerry-epochs`,
  );
  return parseEpochLog(map?.data.epochs);
};
const positionOfAgent = () => {
  using database = new DatabaseSync(join(agent.dir, 'data', 'agent.db'), { readOnly: true });
  const row = database.prepare('SELECT value FROM "values" WHERE name = ?').get('epochPosition') as
    | { value: string }
    | undefined;
  return createSealedPositions('').parse('', row?.value)?.position;
};
const conditionOf = async (type: string) =>
  (await stack.node(NODE))?.status?.conditions?.find((condition) => condition.type === type);
const restored = () =>
  until(
    'the node to say what happened',
    async () => {
      const condition = await conditionOf('DatastoreRestored');
      return condition?.status === 'True' && condition;
    },
    { timeoutMs: 150_000 },
  );
/** Accepts the epoch that the node names, with the commands of docs/backup.md. */
const accept = async () => {
  const [get = '', annotate = ''] = commandsOf('kubectl (?:get|annotate) edgenodes');
  const said = await typed(get);
  const [, epoch = ''] = /--overwrite skerry\.dev\/accept-epoch=(\S+)$/m.exec(said) ?? [];
  expect(epoch, said).not.toBe('');
  await typed(annotate.replace(/(?<=accept-epoch=)\S+$/, epoch));
};
/** Waits until the agent has saved a position that the snapshot does not have. */
const untilAgentIsAhead = async (than: Awaited<ReturnType<typeof epochLogNow>>) =>
  until(
    'the agent to save a later position',
    async () => {
      const position = positionOfAgent();
      return position && !isIssued(than, position);
    },
    { timeoutMs: 120_000 },
  );

const ids: Record<string, string | undefined> = {};

const post = (path: string, body: object, token = '') =>
  fetch(`${controller.url}/api/v3${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
  });
/** Until the controller has read its users. */
const loggedIn = (as: object) =>
  until('a login', async () => {
    const reply = await post('/user/login', as);
    return reply.status === 200 && ((await reply.json()) as { accessToken: string; refreshToken: string });
  });
const refreshed = async (refreshToken: string) => (await post('/user/refresh', { refreshToken })).status;

test('containers keep running when etcd is restored from a snapshot while the controller runs', async () => {
  await stack.apply(await app('kept', 'k1', { uuid: APPLICATION }));
  await untilReady(stack, 'kept');
  agentId = await agentOf('kept');
  let before = await epochLogNow();
  await until(
    'the epoch log to have a sequence number, and to rest',
    async () => {
      const last = before;
      before = await epochLogNow();
      return (before.at(-1)?.sequenceNumber ?? 0) > 0 && isDeepStrictEqual(before, last);
    },
    { intervalMs: 2_000 },
  );
  const { refreshToken } = await loggedIn(ADMIN);
  await makeSnapshot();

  await stack.apply(await app('lost', 'l1'));
  await untilReady(stack, 'lost', 180_000);
  await untilAgentIsAhead(before);
  for (const name of ['kept', 'lost']) ids[name] = await containerOf(name);
  expect(ids).toEqual({ kept: expect.any(String), lost: expect.any(String) });

  await restore();
  const { message } = await restored();
  expect(message).toContain('lost/web');
  expect(message).not.toContain('kept/web');
  expect(await refreshed(refreshToken), 'a login that the snapshot has').toBe(401);
  await loggedIn(ADMIN);
  expect(await stack.application('lost')).toBeUndefined();
  for (const name of ['kept', 'lost']) expect(await containerOf(name)).toBe(ids[name]);
  expect(await greeting('lost')).toBe('l1\n');
  const announced = async () => {
    const events = await stack.kube.get<{ items: { reason: string; regarding: { kind: string } }[] }>(
      `/apis/events.k8s.io/v1/namespaces/${stack.namespace}/events`,
    );
    const items = events?.items.filter(({ reason }) => reason === 'DatastoreRestored') ?? [];
    return new Set(items.map(({ regarding }) => regarding.kind));
  };
  // Events are written asynchronously.
  await until('events of the Lease and of the node', async () =>
    isDeepStrictEqual(await announced(), new Set(['Lease', 'EdgeNode'])),
  );
}, 600_000);

test.runIf(NIGHTLY)(
  'before the restored datastore is accepted, edits of what it has are carried out',
  async () => {
    await stack.apply(await app('kept', 'k2', { uuid: APPLICATION }));
    await until('the new version to run', async () => (await greeting('kept')) === 'k2\n', { timeoutMs: 180_000 });
    expect(await containerOf('lost')).toBe(ids.lost);
  },
  300_000,
);

test.runIf(NIGHTLY)(
  'an agent and a controller still know of the restore after both restart',
  async () => {
    await agent.stop();
    await controller.kill();
    controller = await stack.startController({ env });
    await agent.start();
    await until(
      'the controller to lead and to hear of the node',
      async () => {
        const node = await stack.node(NODE);
        return readyOf(node)?.status === 'True' && (await conditionOf('DatastoreRestored'))?.status === 'True';
      },
      { timeoutMs: 120_000 },
    );
    expect(await containerOf('lost')).toBe(ids.lost);
  },
  300_000,
);

test('after the operator accepts the restored datastore, what it lacks is removed from the machine', async () => {
  await restored();
  await accept();
  await until('the container to be gone', async () => (await containerOf('lost')) === undefined, {
    timeoutMs: 120_000,
  });
  await until('the condition to be gone', async () => (await conditionOf('DatastoreRestored')) === undefined, {
    timeoutMs: 120_000,
  });
  expect(await greeting('kept')).toBe(NIGHTLY ? 'k2\n' : 'k1\n');
}, 300_000);

test.runIf(NIGHTLY)(
  'a restore while no controller runs is noticed by the next controller, and an application that is applied again replaces the lost one after acceptance',
  async () => {
    const before = await epochLogNow();
    await stack.apply(await app('lost', 'l2'));
    await untilReady(stack, 'lost', 180_000);
    await untilAgentIsAhead(before);
    ids.lost = await containerOf('lost');
    await controller.kill();
    await restore();
    controller = await stack.startController({ env });
    const { message } = await restored();
    expect(message).toContain('lost/web');
    expect(await containerOf('lost')).toBe(ids.lost);

    await stack.apply(await app('lost', 'l2'));
    await until('the port to be spoken for', async () => readyOf(await stack.application('lost'))?.status === 'False');
    expect(await containerOf('lost')).toBe(ids.lost);
    await accept();
    await untilReady(stack, 'lost', 180_000);
    expect(await greeting('lost')).toBe('l2\n');
    await until('the condition to be gone', async () => (await conditionOf('DatastoreRestored')) === undefined, {
      timeoutMs: 120_000,
    });
  },
  600_000,
);

test.runIf(NIGHTLY)(
  'when etcd is empty no container stops, and the same manifests and a new provisioning take over the running containers',
  async () => {
    await stack.apply(await app('lost', 'l2'));
    await untilReady(stack, 'lost', 180_000);
    await stack.apply(await app('kept', 'k3', { uuid: APPLICATION }));
    await until('the version of now to run', async () => (await greeting('kept')) === 'k3\n', { timeoutMs: 180_000 });
    await untilReady(stack, 'kept', 120_000);
    for (const name of ['kept', 'lost']) ids[name] = await containerOf(name);
    await controller.kill();
    await cluster.whileDown((etcd) => rmSync(etcd, { recursive: true, force: true }));
    await installCrds(cluster.kubeconfig);
    await stack.install();
    controller = await stack.startController({ env });
    await until(
      'the agent to say that it is refused',
      async () => (await agent.cli('status')).stdout.includes('UNAUTHORIZED'),
      { timeoutMs: 120_000 },
    );
    for (const name of ['kept', 'lost']) expect(await containerOf(name)).toBe(ids[name]);

    await stack.apply(manifest('EdgeNode', { name: NODE }, { statusFrequency: 5 }));
    await stack.apply(await app('kept', 'k3', { uuid: APPLICATION }));
    const provisioned = await stack.provision(agent, NODE, controller);
    expect(provisioned, provisioned.stderr).toMatchObject({ code: 0 });
    await untilReady(stack, 'kept', 180_000);
    expect(await containerOf('kept')).toBe(ids.kept);
    const { message } = await restored();
    expect(message).toContain('lost/web');
    expect(await containerOf('lost')).toBe(ids.lost);
  },
  600_000,
);

test('the copy of kubectl skerry backup, restored into an empty cluster as docs/backup.md says, replaces no container and needs no new provisioning', async () => {
  const secret = 'of-backup';
  await stack.kube.apply({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: secret, namespace: stack.namespace, labels: { 'skerry.dev/shareable': 'true' } },
    stringData: { password: 'word' },
  } as never);
  const manifest = await app('kept', 'k4', { uuid: APPLICATION });
  const [web] = manifest.spec.microservices as { container: object }[];
  const variables = [{ key: 'PASSWORD', valueFromSecret: `${secret}/password` }];
  await stack.apply({
    ...manifest,
    spec: { ...manifest.spec, microservices: [{ ...web, container: { ...web?.container, env: variables } }] },
  });
  await until('the copied version to run', async () => (await greeting('kept')) === 'k4\n', { timeoutMs: 180_000 });
  await untilReady(stack, 'kept', 120_000);
  const ann = { email: 'ann@plant.example', password: 'Temporary-Pass-1' };
  const { accessToken } = await loggedIn(ADMIN);
  expect((await post('/users', { ...ann, groups: ['viewer'] }, accessToken)).status).toBe(201);
  const { refreshToken } = await loggedIn(ann);
  const uuid = (await stack.node(NODE))?.status?.uuid;
  agentId ||= await agentOf('kept');
  ids.kept = await containerOf('kept');
  expect(ids.kept).toBeDefined();
  const lacks = async () => (await conditionOf('DatastoreRestored'))?.status;
  const before = await lacks();
  const [backup = '', copy = '', wait = ''] = commandsOf('kubectl (?:skerry (?:backup|restore)|wait) ');
  expect(await typed(backup)).toMatch(/^skerry-backup\.json: \d+ objects of namespace /);

  await controller.kill();
  await cluster.whileDown((etcd) => rmSync(etcd, { recursive: true, force: true }));
  await installCrds(cluster.kubeconfig);
  await stack.install();
  expect(await typed(copy)).toMatch(/^\d+ created, 0 there already, 0 failed\n$/);
  expect(await typed(copy)).toMatch(/^0 created, \d+ there already, 0 failed\n$/);
  controller = await stack.startController({ env });
  expect(await typed(wait)).toContain(`edgenode.skerry.dev/${NODE} condition met`);
  await untilReady(stack, 'kept', 180_000);
  await loggedIn(ann);
  expect(await refreshed(refreshToken), 'a login of before the copy').toBe(401);
  expect((await stack.node(NODE))?.status?.uuid).toBe(uuid);
  expect(await containerOf('kept')).toBe(ids.kept);
  expect(await greeting('kept')).toBe('k4\n');
  await until('the node to lack no more than before', async () => (await lacks()) === before, { timeoutMs: 120_000 });
}, 900_000);

const page = readFileSync(join(import.meta.dirname, '../docs/backup.md'), 'utf8');

/** The commands of the page that begin so, in its order. */
const commandsOf = (start: string) =>
  [...page.matchAll(new RegExp(`^ {4}(${start}.*)$`, 'gm'))].map(([, command = '']) => command);

/** What a command prints that is typed with the plugin installed; the namespace is the one of this test. */
async function typed(command: string): Promise<string> {
  const own = command.replace('--namespace skerry', `--namespace ${stack.namespace}`);
  expect(own, 'the page has the command, with its namespace').not.toBe(command);
  return shell(own, { KUBECONFIG: cluster.kubeconfig });
}

/** What a line of a shell prints, in the folder of this test. */
async function shell(line: string, environment: NodeJS.ProcessEnv): Promise<string> {
  const bin = join(folder, 'bin');
  mkdirSync(bin, { recursive: true });
  const program = join(import.meta.dirname, '../bin/kubectl-skerry.cjs');
  writeFileSync(join(bin, 'kubectl-skerry'), `#!/bin/sh\nexec ${process.execPath} ${program} "$@"\n`, { mode: 0o755 });
  const programs: Record<string, string> = await findTools(['kubectl']);
  if (NIGHTLY) for (const name of ['etcdctl', 'etcdutl'] as const) programs[name] = await findEtcdClient(name);
  for (const [name, path] of Object.entries(programs))
    if (!existsSync(join(bin, name))) symlinkSync(path, join(bin, name));
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}`, ...environment };
  return (await promisify(execFile)('sh', ['-euc', line], { env, cwd: folder })).stdout;
}

async function makeSnapshot(): Promise<void> {
  const [save = '', status = ''] = commandsOf('etcd(?:ctl|utl) snapshot (?:save|status)');
  if (NIGHTLY) await shell(`${save}\n${status}`, { ETCDCTL_ENDPOINTS: cluster.etcdUrl });
  else await cluster.whileDown((etcd) => cpSync(etcd, snapshot(), { recursive: true }));
}

async function restore(): Promise<void> {
  await cluster.whileDown(async (etcd) => {
    rmSync(etcd, { recursive: true, force: true });
    const [command = ''] = commandsOf('etcdutl snapshot restore');
    if (NIGHTLY) await shell(command.replace('/var/lib/etcd', etcd), {});
    else cpSync(snapshot(), etcd, { recursive: true });
  });
}
