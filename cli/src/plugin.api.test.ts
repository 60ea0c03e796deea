import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, inject, test } from 'vitest';
import { parse } from 'yaml';
import { kubeFromFile } from '../../hack/kube.ts';
import type {} from '../../hack/testing/provided.ts';
import { agreementTables } from '../../src/api/_agreement.ts';
import { readSpec } from '../../src/api/_read-spec.ts';
import { type NativeRole, RBAC_RESOURCES, RBAC_VERSION } from '../../src/api/rbac.ts';
import type { Secret } from '../../src/api/resources.ts';
import { fullEntry } from '../../src/api/v3/_application.cases.ts';
import type { AuthUser } from '../../src/api/v3/auth-user.ts';
import { type Application, applicationResource } from '../../src/api/v3/index.ts';
import { encodeData } from '../../src/datastore/keyed-text.ts';
import type { KubeObject } from '../../src/kube/mod.ts';
import { startHeartbeat } from '../../src/replicas/replicas.ts';
import { startTestCluster } from '../../src/rest/_cluster.ts';
import { normalEntry } from '../../src/rules/normal-entry.ts';
import { RESOURCES } from '../../src/subjects/kinds.ts';
import { parseJoinString } from '../../src/wire/node-token.ts';
import { manifest } from '../../testing/manifest.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createPlugin, type Ran } from './_plugin.ts';

const tables = await agreementTables();

/** The plugin against a real API server; no controller runs, so that tests write the statuses that they need. */
const folder = temporaryFolder();
let count = 0;
let name: string;

const cluster = await startTestCluster();
beforeEach(() => {
  name = `app-${++count}`;
});

/** Runs without the warnings of what documents name: most of it no test makes. */
const apart =
  (run: (...args: string[]) => Promise<Ran>) =>
  async (...args: string[]): Promise<Ran> => {
    const ran = await run(...args);
    return { ...ran, err: ran.err.replaceAll(/^warning: .*: there is no .*\n/gm, '') };
  };
const skerry = apart(createPlugin(cluster.kube, cluster.namespace));

function file(text: string, called = 'file.yaml'): string {
  const path = join(folder, called);
  writeFileSync(path, text);
  return path;
}
const apply = (text: string, ...flags: string[]) => skerry('apply', '-f', file(text), ...flags);
const application = (of = name) =>
  cluster.kube.get<Application>(RESOURCES.applications, { namespace: cluster.namespace, name: of });
const plant = (image = 'x:1') => `kind: Application
metadata: {name: ${name}}
spec:
  microservices:
    - name: reader
      agent: {name: gw}
      images: {amd64: "${image}"}
      container: {ports: [{internal: 80, external: 8080}]}
    - {name: writer, agent: {name: gw}, images: {amd64: y}}
`;

describe('apply', () => {
  test('says whether it created, changed or left an object', async () => {
    expect(await apply(plant())).toEqual({ code: 0, out: `application/${name} created\n`, err: '' });
    expect((await apply(plant())).out).toBe(`application/${name} unchanged\n`);
    expect((await apply(plant('x:2'))).out).toBe(`application/${name} configured\n`);
    expect((await application()).spec.microservices?.[0]?.images?.amd64).toBe('x:2');
  });

  test('makes a Microservice an entry of its application and leaves the entries of other files', async () => {
    await apply(plant());
    const third = `kind: Microservice\nmetadata: {name: ${name}/third}\nspec: {agent: {name: gw}, images: {amd64: "z:1"}}\n`;
    expect((await apply(third)).out).toBe(`microservice/${name}/third created\n`);
    await apply(plant('x:3'));
    const entries = (await application()).spec.microservices?.map((entry) => entry.name);
    expect(entries?.toSorted()).toEqual(['reader', 'third', 'writer']);
  });

  test('reads the application of a Microservice once', async () => {
    await apply(plant());
    const reads: string[] = [];
    const { kube } = cluster;
    const counting: typeof kube = {
      ...kube,
      find(resource, ref, options) {
        reads.push(ref.name);
        return kube.find(resource, ref, options);
      },
    };
    const counted = apart(createPlugin(counting, cluster.namespace));
    const path = file(`kind: Microservice\nmetadata: {name: ${name}/reader}\nspec: {schedule: 7, rebuild: true}\n`);
    expect(await counted('apply', '-f', path)).toMatchObject({ code: 0, err: '' });
    expect(reads).toEqual([name, 'gw']);
    expect((await application()).metadata.annotations?.['skerry.dev/rebuild']).toBe('{"reader":1}');
  });

  test('changes nothing with --dry-run', async () => {
    const plain = createPlugin(cluster.kube, cluster.namespace);
    expect(await plain('apply', '-f', file(plant()), '--dry-run')).toEqual({
      code: 0,
      out: `application/${name} created (dry run)\n`,
      err: ['reader', 'writer']
        .map((entry) => `warning: application/${name}: microservice ${entry}: there is no node "gw"\n`)
        .join(''),
    });
    await expect(application()).rejects.toThrow();
  });

  test('goes on after a document that is refused, names it, and ends with 1', async () => {
    const ran = await apply(
      `kind: Boat\nmetadata: {name: a}\nspec: {}\n---\n${plant()}---\n${plant().replace('80,', '"x",')}`,
    );
    expect(ran.code).toBe(1);
    expect(ran.out).toBe(`application/${name} created\n`);
    expect(ran.err).toMatch(/document number 1: kind "Boat" must be one of Application, /);
    expect(ran.err).toMatch(/document number 3: spec\.microservices\[0\]\.container\.ports\[0\]\.internal/);
  });

  test('reports a field that another owner has set, and takes it over with --force-conflicts', async () => {
    await apply(plant());
    const patch = { spec: { description: 'by another' } };
    const body = { apiVersion: 'skerry.dev/v3', kind: 'Application', metadata: { name }, ...patch };
    await cluster.kube.patch(
      RESOURCES.applications,
      { namespace: cluster.namespace, name },
      { type: 'apply', body },
      { fieldManager: 'another' },
    );
    const mine = plant().replace('spec:\n', 'spec:\n  description: by me\n');
    const refused = await apply(mine);
    expect(refused.code).toBe(1);
    expect(refused.err).toContain('--force-conflicts');
    expect((await application()).spec.description).toBe('by another');
    expect((await apply(mine, '--force-conflicts')).code).toBe(0);
    expect((await application()).spec.description).toBe('by me');
  });

  test('makes core objects of the Secrets and ConfigMaps of v3', async () => {
    const ran = await apply(`kind: Secret\nmetadata: {name: ${name}-db}\nspec: {type: Opaque}\ndata: {pass: word}\n`);
    expect(ran).toMatchObject({ code: 0, out: `secret/${name}-db created\n` });
    const ref = { namespace: cluster.namespace, name: `${name}-db` };
    const secret = await cluster.kube.get<Secret>(RESOURCES.secrets, ref);
    expect(Buffer.from(secret.data?.pass ?? '', 'base64').toString()).toBe('word');
    expect(secret.metadata.labels?.['skerry.dev/shareable']).toBe('true');
  });

  test('does not publish a Secret that is not for microservices', async () => {
    const own = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: `${name}-own`, namespace: cluster.namespace },
      data: { token: 'eA==' },
    };
    await cluster.kube.create<Secret>(RESOURCES.secrets, own);
    const ran = await apply(`kind: Secret\nmetadata: {name: ${name}-own}\nspec: {type: Opaque}\ndata: {pass: word}\n`);
    expect(ran).toMatchObject({ code: 1, err: /has a Secret "app-\d+-own" that is not for microservices/ });
    const ref = { namespace: cluster.namespace, name: `${name}-own` };
    expect((await cluster.kube.get<Secret>(RESOURCES.secrets, ref)).metadata.labels).toBeUndefined();
  });

  test('takes every kind that has files', async () => {
    const ran = await apply(
      `kind: RuntimeClass\nmetadata: {name: ${name}}\nhandler: crun\n---\nkind: EdgeNode\nmetadata: {name: ${name}}\nspec: {description: shop}\n---\nkind: Registry\nmetadata: {name: ${name}}\nspec: {url: r.example}\n---\nkind: ServiceAccount\nmetadata: {name: reader, applicationName: ${name}}\nroleRef: {kind: Role, name: microservice}\n`,
    );
    expect(ran.err).toBe('');
    expect(ran.out).toBe(
      `runtimeclass/${name} created\nedgenode/${name} created\nregistry/${name} created\nserviceaccount/${name}/reader created\n`,
    );
  });

  /** The object that the API server made of a document, which it judged and did not store. */
  async function judged(document: object): Promise<KubeObject & { spec: Record<string, unknown> }> {
    const objects: KubeObject[] = [];
    const { kube } = cluster;
    const watched: typeof kube = {
      ...kube,
      async patch(resource, ref, patch, options) {
        const object = await kube.patch(resource, ref, patch, options);
        objects.push(object);
        return object;
      },
    };
    const path = file(JSON.stringify({ apiVersion: 'skerry.dev/v3', ...document }));
    const ran = await apart(createPlugin(watched, cluster.namespace))('apply', '-f', path, '--dry-run');
    expect(ran).toMatchObject({ code: 0, err: '' });
    return objects[0] as KubeObject & { spec: Record<string, unknown> };
  }

  /** Files give each volume its scope; the normal form of an entry has it anyway. */
  const inNormalForm = ({ microservices, ...spec }: Record<string, unknown>) => ({
    ...spec,
    ...(Array.isArray(microservices) && { microservices: microservices.map(normalEntry) }),
  });

  test.each(tables)('$kind: every field of a document reaches the API server', async (kind, cases) => {
    const spec = cases.find((one) => one.name === 'every field')?.spec;
    const { name: named = name, ...want } = readSpec(kind, spec).data as Record<string, unknown>;
    const object = await judged({ kind: kind.kind, metadata: { name }, spec });
    const { name: own = object.metadata.name, ...got } = object.spec;
    expect(inNormalForm(got)).toEqual(inNormalForm(want));
    expect(own).toBe(named);
  });

  test('every field of a Microservice reaches the API server', async () => {
    await apply(`kind: Application\nmetadata: {name: ${name}}\nspec: {}\n`);
    const { name: called, ...spec } = fullEntry;
    const object = await judged({ kind: 'Microservice', metadata: { name: `${name}/${called}` }, spec });
    const want = readSpec(applicationResource, { microservices: [fullEntry] }).data;
    expect(inNormalForm(object.spec)).toEqual(inNormalForm({ ...want }));
  });

  test('leaves the template of an application to the controller, and refuses one that is no reference', async () => {
    const template = { name: 'line', variables: { rate: 5 } };
    const document = { kind: 'Application', metadata: { name }, spec: { template } };
    expect((await judged(document)).spec).toEqual({ isActivated: true, template });
    const refused = await apply(`kind: Application\nmetadata: {name: ${name}}\nspec: {template: {variables: {}}}\n`);
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('spec.template.name: is required') });
  });

  test('a stopped application stays stopped when its file does not say isActivated', async () => {
    await apply(plant());
    await skerry('stop', name);
    expect(await apply(plant('x:2'))).toMatchObject({ code: 0, err: '' });
    expect((await application()).spec.isActivated).toBe(false);
  });
});

describe('start, stop and rebuild', () => {
  test('act on one microservice or on the application', async () => {
    await apply(plant());
    expect((await skerry('stop', `${name}/reader`)).out).toBe(`microservice/${name}/reader stopped\n`);
    expect((await application()).spec.microservices?.map(({ isActivated }) => isActivated)).toEqual([false, undefined]);
    await skerry('start', `${name}/reader`);
    expect((await application()).spec.microservices?.[0]?.isActivated).toBe(true);
    await skerry('stop', name);
    expect((await application()).spec.isActivated).toBe(false);
    expect((await skerry('rebuild', `${name}/writer`)).code).toBe(0);
    await skerry('rebuild', name);
    const annotation = (await application()).metadata.annotations?.['skerry.dev/rebuild'];
    expect(JSON.parse(annotation ?? '')).toEqual({ reader: 1, writer: 2 });
  });

  test('name what does not exist, and end with 1', async () => {
    await apply(plant());
    expect(await skerry('stop', 'nowhere')).toMatchObject({ code: 1, err: /there is no application "nowhere"/ });
    const { err } = await skerry('stop', `${name}/nothing`);
    expect(err).toBe(`error: application ${name} has no microservice "nothing"; it has reader, writer\n`);
  });

  test('write nothing when there is nothing to change', async () => {
    await apply(plant());
    const before = (await application()).metadata.resourceVersion;
    await skerry('start', name);
    await skerry('start', `${name}/reader`);
    expect((await application()).metadata.resourceVersion).toBe(before);
  });
});

describe('provision', () => {
  async function withIdentity(uuid: string) {
    const ref = { namespace: cluster.namespace, name };
    const status = { status: { observedGeneration: 1, uuid } };
    await cluster.kube.patch(RESOURCES.nodes, ref, { type: 'merge', body: status }, { subresource: 'status' });
  }

  test('makes a key that the controller accepts, and prints the command for the machine', async () => {
    await apply(`kind: EdgeNode\nmetadata: {name: ${name}}\nspec: {}\n`);
    const uuid = '0b2f3f5e-3f0a-4a7e-9c39-6f6f3f0a4a7e';
    await withIdentity(uuid);
    const { out, code } = await skerry('provision', name, '--controller', 'c.example:51121');
    expect(code).toBe(0);
    const [, text = ''] = /SKERRY_JOIN="(.*)" skerry-agent provision/.exec(out) ?? [];
    const { controllerUrl, key } = parseJoinString(text);
    expect(controllerUrl).toBe('http://c.example:51121');
    expect(out).toContain(
      `  script=$(curl -fsSL http://c.example:51121/install.sh) && SKERRY_JOIN="${text}" sh -c "$script"\n`,
    );
    const { items } = await cluster.kube.list<Secret>(RESOURCES.secrets, {
      namespace: cluster.namespace,
      labelSelector: `skerry.dev/provisioning-key=${uuid}`,
    });
    expect(items).toHaveLength(1);
    expect(JSON.stringify(items)).not.toContain(key);
    expect(Buffer.from(items[0]?.data?.nodeUuid ?? '', 'base64').toString()).toBe(uuid);
  });

  test('creates the node with --create only', async () => {
    expect((await skerry('provision', name)).err).toBe(`error: there is no node "${name}"; --create makes it\n`);
    const provisioned = skerry('provision', name, '--create', '-o', 'json');
    await expect
      .poll(() =>
        withIdentity('1b2f3f5e-3f0a-4a7e-9c39-6f6f3f0a4a7e').then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
    expect(JSON.parse((await provisioned).out)).toMatchObject({ node: name, join: /^skerry:\/\/CONTROLLER:51121\// });
  });
});

describe('get', () => {
  test('lists nodes, applications and microservices in columns', async () => {
    await apply(`${plant()}---\nkind: EdgeNode\nmetadata: {name: ${name}-gw}\nspec: {}\n`);
    expect((await skerry('get', 'apps', name)).out).toMatch(/^NAME +READY +STATUS +NODES +AGE\napp-\d+ +gw +/);
    expect((await skerry('get', 'nodes')).out).toContain(`${name}-gw`);
    const { out } = await skerry('get', 'ms', '--app', name);
    expect(out.split('\n')[0]).toMatch(/^APPLICATION +NAME +NODE +READY +STATE +RESTARTS +UP +MESSAGE$/);
    expect(out).toMatch(new RegExp(`${name} +reader +gw +Unknown`));
    expect((await skerry('get', 'ms', '--app', name, '-o', 'wide')).out).toContain('x:1');
  });

  test('shows the image of the catalog item that a microservice names', async () => {
    await apply(
      `kind: CatalogItem\nmetadata: {name: ${name}-item}\nspec: {registryId: 1, images: [{archId: 1, containerImage: "item:1"}]}\n---\n${plant().replace('{amd64: y}', `{catalogId: ${name}-item}`).replaceAll('{name: gw}', '{name: far}')}`,
    );
    expect((await skerry('get', 'ms', '--app', name, '-o', 'wide')).out).toMatch(/writer .* item:1 /);
    expect((await skerry('describe', 'ms', `${name}/writer`)).out).toMatch(/Image: +item:1\n/);
  });

  test('shows one object as YAML or JSON', async () => {
    await apply(plant());
    const { out } = await skerry('get', 'ms', `${name}/reader`, '-o', 'yaml');
    expect(parse(out)).toMatchObject({ application: name, name: 'reader', images: { amd64: 'x:1' } });
    expect(JSON.parse((await skerry('get', 'apps', '-o', 'json')).out)).toMatchObject({ kind: 'List' });
  });

  test('get -w prints a row again when it changes, and ends with the signal', async () => {
    await apply(plant());
    const stop = new AbortController();
    let seen = '';
    const wrote = (text: string) => {
      seen += text;
    };
    const watching = createPlugin(cluster.kube, cluster.namespace, { signal: stop.signal, wrote })('get', 'apps', '-w');
    const rows = () => seen.split('\n').filter((row) => row.startsWith(`${name} `));
    await expect.poll(rows, { timeout: 30_000 }).toHaveLength(1);
    await apply(plant().replaceAll('{name: gw}', '{name: far}'));
    await expect.poll(() => rows().at(-1), { timeout: 30_000 }).toMatch(/ far +/);
    expect(seen.match(/^NAME /gm)).toHaveLength(1);
    stop.abort();
    expect(await watching).toMatchObject({ code: 130, err: '' });
  });

  test('version says that of the controller', async () => {
    await using _ = startHeartbeat({
      ...{ client: cluster.kube, namespace: cluster.namespace, identity: 'pod', host: 'a', version: '9.9.9' },
    });
    await expect
      .poll(async () => (await skerry('version')).out, { timeout: 30_000 })
      .toMatch(/^Controller: +9\.9\.9\nKubernetes: +v1\./m);
  });

  test('paints what is not as asked on a terminal only', async () => {
    await apply(plant());
    const onTerminal = createPlugin(cluster.kube, cluster.namespace, { colours: true });
    expect((await onTerminal('get', 'apps', name)).out).toContain('\u001b[33m');
    expect((await skerry('get', 'apps', name)).out).not.toContain('\u001b');
  });
});

describe('nodes and upgrade-agent', () => {
  type Status = Record<string, unknown>;
  const ready = { type: 'Ready', status: 'True', reason: 'AgentRunning', message: 'the agent runs' };
  const at = (condition: object) => ({
    ...{ lastTransitionTime: '2026-01-01T00:00:00Z', observedGeneration: 1, reason: 'Idle', message: '' },
    ...condition,
  });
  const runs = (version: string, more: Status = {}, ...conditions: object[]): Status => ({
    ...{ observedGeneration: 1, agent: version, version, isReadyToUpgrade: true, ...more },
    conditions: [ready, ...conditions].map(at),
  });
  const ref = (node: string) => ({ namespace: cluster.namespace, name: node });
  const setStatus = (node: string, status: Status) =>
    cluster.kube.patch(RESOURCES.nodes, ref(node), { type: 'merge', body: { status } }, { subresource: 'status' });
  async function addNode(node: string, status: Status) {
    const metadata = { name: node, namespace: cluster.namespace, labels: { of: name } };
    await cluster.kube.create(RESOURCES.nodes, { apiVersion: 'skerry.dev/v3', kind: 'EdgeNode', metadata, spec: {} });
    await setStatus(node, status);
  }
  const requestOf = async (node: string) => {
    const { metadata } = await cluster.kube.get(RESOURCES.nodes, ref(node));
    return JSON.parse(metadata.annotations?.['skerry.dev/version'] ?? 'null');
  };
  /** What an agent does once a release is requested of it. */
  const onRequest = (node: string, act: (count: number) => Promise<unknown>) =>
    expect
      .poll(() => requestOf(node), { timeout: 30_000 })
      .toBeTruthy()
      .then(async () => act((await requestOf(node)).count));
  const serves = (agentRelease?: string) =>
    startHeartbeat({
      ...{ client: cluster.kube, namespace: cluster.namespace, identity: 'pod', host: 'a', version: '9.9.9' },
      agentRelease: async () => agentRelease,
    });
  const withRelease = async (version: string | undefined, act: () => Promise<void>) => {
    await using _ = serves(version);
    const newest = async () => JSON.parse((await skerry('nodes', '-o', 'json')).out).newest;
    await expect.poll(newest, { timeout: 30_000 }).toBe(version);
    await act();
  };
  const updating = { type: 'Updating', status: 'True', reason: 'Downloading', message: 'it fetches 0.2.0' };
  const failed = {
    type: 'UpdateFailed',
    status: 'True',
    reason: 'UpdateFailed',
    message: '0.2.0 failed, 0.1.0 runs: it ended',
  };

  test('nodes --outdated lists the agents without the newest release, and what each waits for', async () => {
    expect(await skerry('nodes', '--outdated')).toMatchObject({
      code: 1,
      err: expect.stringContaining('the controller has no release of the agent'),
    });
    await addNode(`${name}-a`, runs('0.1.0'));
    await addNode(`${name}-b`, runs('0.1.0', { isReadyToUpgrade: false }));
    await addNode(`${name}-c`, runs('0.2.0'));
    await addNode(`${name}-d`, runs('0.10.0'));
    await addNode(`${name}-e`, runs('0.1.0', {}, updating));
    await addNode(`${name}-f`, runs('0.1.0', {}, failed));
    await addNode(`${name}-g`, runs('3.1', { agent: null }));
    await withRelease('0.2.0', async () => {
      const { out, err } = await skerry('nodes', '--outdated', '-l', `of=${name}`);
      expect(err).toBe('');
      expect(out.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
        ['NODE', 'READY', 'VERSION', 'WANTED', 'WAITS-FOR'],
        [`${name}-a`, 'True', '0.1.0', '0.2.0', 'kubectl skerry upgrade-agent'],
        [`${name}-b`, 'True', '0.1.0', '0.2.0', expect.stringContaining('a package: its agent cannot change')],
        [`${name}-e`, 'True', '0.1.0', '0.2.0', 'it fetches 0.2.0'],
        [`${name}-f`, 'True', '0.1.0', '0.2.0', failed.message],
        [''],
      ]);
      expect((await skerry('nodes', '-l', `of=${name}`)).out).toMatch(
        /-d +True +0\.10\.0 +0\.2\.0\n.*-g +True +3\.1\n/s,
      );
      expect((await skerry('nodes', '--outdated', '-l', 'of=none')).err).toBe('Every agent runs 0.2.0 or newer.\n');
    });
  });

  test('upgrade-agent brings one node after another to the newest release, and passes over those that run it', async () => {
    for (const each of ['a', 'b', 'c']) await addNode(`${name}-${each}`, runs(each === 'b' ? '0.2.0' : '0.1.0'));
    await withRelease('0.2.0', async () => {
      const agents = (async () => {
        await onRequest(`${name}-a`, async (version) => {
          expect(await requestOf(`${name}-c`)).toBeNull();
          await setStatus(`${name}-a`, runs('0.1.0', {}, updating));
          await setStatus(`${name}-a`, runs('0.2.0', { actions: { version } }));
        });
        await onRequest(`${name}-c`, (version) => setStatus(`${name}-c`, runs('0.2.0', { actions: { version } })));
      })();
      const { code, out, err } = await skerry('upgrade-agent', '--selector', `of=${name}`);
      await agents;
      expect({ code, err }).toEqual({ code: 0, err: '' });
      expect(await requestOf(`${name}-a`)).toEqual({ count: 1, command: 'upgrade', semver: '0.2.0' });
      expect(await requestOf(`${name}-b`)).toBeNull();
      expect(out).toMatch(/-a: 0\.1\.0 -> 0\.2\.0 requested\n/);
      expect(out).toMatch(/-b: runs 0\.2\.0 and is Ready \(0s\)\n/);
      expect(out).toMatch(/-c: runs 0\.2\.0 and is Ready .*\n3 of 3 done: 0\.2\.0\n$/);
    });
  }, 60_000);

  test('upgrade-agent ends with 1 at the first node that fails, with its reason, and leaves the rest alone', async () => {
    for (const each of ['a', 'b']) await addNode(`${name}-${each}`, runs('0.1.0'));
    const agent = onRequest(`${name}-a`, (version) =>
      setStatus(`${name}-a`, runs('0.1.0', { actions: { version } }, failed)),
    );
    const { code, err } = await skerry('upgrade-agent', `${name}-a`, `${name}-b`, '--version', '0.2.0');
    await agent;
    expect(code).toBe(1);
    expect(err).toBe(`0 of 2 done; left alone: ${name}-b\nerror: ${name}-a: it stays at 0.1.0: ${failed.message}\n`);
    expect(await requestOf(`${name}-b`)).toBeNull();
  }, 60_000);

  test.each([
    ['another upgrade', { command: 'upgrade', semver: '0.3.0' }, 'upgrade 0.3.0'],
    ['a rollback', { command: 'rollback' }, 'rollback'],
  ])('upgrade-agent fails for a node that runs the release and is about to leave it by %s', async (_, asked, says) => {
    await addNode(name, runs('0.2.0'));
    const annotations = { 'skerry.dev/version': JSON.stringify({ count: 7, ...asked }) };
    await cluster.kube.patch(RESOURCES.nodes, ref(name), { type: 'merge', body: { metadata: { annotations } } });
    const { code, err } = await skerry('upgrade-agent', name, '--version', '0.2.0');
    expect({ code, err }).toEqual({ code: 1, err: `error: ${name}: another change is under way: ${says}\n` });
  });

  test('upgrade-agent waits for a change that is under way without another request, and no longer than --timeout', async () => {
    await addNode(name, runs('0.1.0', { isReadyToUpgrade: false }, updating));
    const asked = { 'skerry.dev/version': '{"count": 7, "command": "upgrade", "semver": "0.2.0"}' };
    await cluster.kube.patch(RESOURCES.nodes, ref(name), { type: 'merge', body: { metadata: { annotations: asked } } });
    const { code, out, err } = await skerry('upgrade-agent', name, '--version', 'v0.2.0', '--timeout', '1s');
    expect({ code, err }).toEqual({
      code: 1,
      err: `error: ${name}: did not come to 0.2.0 in 1s; it waits: it fetches 0.2.0\n`,
    });
    expect(out).toBe(`${name}: the change to 0.2.0 is under way already\n${name}: waits: it fetches 0.2.0\n`);
    expect((await requestOf(name)).count).toBe(7);
  });

  test.each<[string, Status, RegExp]>([
    ['is not Ready', runs('0.1.0', {}, { ...ready, status: 'Unknown', message: 'silent' }), /it is not Ready: silent/],
    ['cannot update itself', runs('0.1.0', { isReadyToUpgrade: false }), /it waits for a package/],
    ['runs a newer release', runs('0.3.0'), /it runs 0\.3\.0, which is newer than 0\.2\.0/],
    ['has a third-party agent', runs('0.1.0', { agent: null }), /third-party/],
  ])('upgrade-agent requests nothing of a node that %s', async (_, status, says) => {
    const conditions = (status.conditions as { type: string }[]).slice(-1);
    await addNode(name, { ...status, conditions });
    const { code, err } = await skerry('upgrade-agent', name, '--version', '0.2.0');
    expect(code).toBe(1);
    expect(err).toMatch(says);
    expect(await requestOf(name)).toBeNull();
  });

  test('upgrade-agent that is interrupted says that the same command continues', async () => {
    await addNode(name, runs('0.1.0'));
    const stop = new AbortController();
    const interruptible = createPlugin(cluster.kube, cluster.namespace, { signal: stop.signal });
    const running = interruptible('upgrade-agent', name, '--version', '0.2.0');
    await onRequest(name, async () => stop.abort());
    expect(await running).toMatchObject({ code: 130, err: expect.stringContaining('the same command continues') });
  });
});

describe('backup and restore', () => {
  const secret = (called: string, more: object = {}) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: called, namespace: cluster.namespace, ...more },
    data: { key: 'eA==' },
  });
  const made = (metadata: { uid?: string; name: string }, kind: string, apiVersion = 'skerry.dev/v3') => ({
    ownerReferences: [{ apiVersion, kind, name: metadata.name, uid: metadata.uid ?? '' }],
  });

  /** The plugin in a new namespace, and what is there. */
  async function elsewhere(suffix: string) {
    const namespace = `${cluster.namespace}-${suffix}`;
    const admin = await kubeFromFile(inject('kubeconfig'));
    await admin.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
    admin.close();
    return {
      skerry: createPlugin(cluster.kube, namespace),
      at: (called: string) => ({ namespace, name: called }),
    };
  }

  test('a copy has objects, keys and identities, and is restored in another namespace with Secrets that belong to the new objects', async () => {
    const { kube, namespace } = cluster;
    await apply(`${plant()}---\nkind: EdgeNode\nmetadata: {name: ${name}-gw}\nspec: {description: hall}\n`);
    const node = await kube.get(RESOURCES.nodes, { namespace, name: `${name}-gw` });
    const uuid = '3b2f3f5e-3f0a-4a7e-9c39-6f6f3f0a4a7e';
    const status = { observedGeneration: 1, uuid };
    const ref = { namespace, name: `${name}-gw` };
    await kube.patch(RESOURCES.nodes, ref, { type: 'merge', body: { status } }, { subresource: 'status' });
    await kube.create<Secret>(RESOURCES.secrets, secret('skerry-revision-key'));
    await kube.create<Secret>(RESOURCES.secrets, secret(`${name}-key`, made(node.metadata, 'EdgeNode')));
    const certificate = made(
      { name: 'tls', uid: '00000000-0000-4000-8000-000000000001' },
      'Certificate',
      'cert-manager.io/v1',
    );
    await kube.create<Secret>(RESOURCES.secrets, secret(`${name}-tls`, certificate));
    const labels = { 'skerry.dev/provisioning-key': uuid };
    await kube.create<Secret>(RESOURCES.secrets, secret(`${name}-of-minutes`, { labels }));
    const path = file('a former copy that all may read', 'copy.json');
    expect(await skerry('backup', '-f', path)).toMatchObject({ code: 0, err: '' });
    expect(statSync(path).mode & 0o777).toBe(0o600);

    const other = await elsewhere('copy');
    const first = await other.skerry('restore', '-f', path);
    expect(first).toMatchObject({
      code: 0,
      err: '',
      out: expect.stringMatching(/^\d+ created, 0 there already, 0 failed\n$/),
    });
    expect((await other.skerry('restore', '-f', path)).out).toMatch(/^0 created, \d+ there already, 0 failed\n$/);
    const copy = await kube.get(RESOURCES.nodes, other.at(`${name}-gw`));
    expect(copy).toMatchObject({ spec: { description: 'hall' }, metadata: { labels: { 'skerry.dev/uuid': uuid } } });
    expect((await kube.get(RESOURCES.applications, other.at(name))).spec.microservices).toHaveLength(2);
    const key = await kube.get<Secret>(RESOURCES.secrets, other.at(`${name}-key`));
    expect(key).toMatchObject({ data: { key: 'eA==' }, metadata: made(copy.metadata, 'EdgeNode') });
    const tls = await kube.get<Secret>(RESOURCES.secrets, other.at(`${name}-tls`));
    expect(tls.metadata.ownerReferences).toBeUndefined();
    expect(await kube.find(RESOURCES.secrets, other.at(`${name}-of-minutes`))).toBeUndefined();

    const mine = { data: { key: 'eQ==' } };
    await kube.patch(RESOURCES.secrets, other.at('skerry-revision-key'), { type: 'merge', body: mine });
    expect(await other.skerry('restore', '-f', path)).toMatchObject({
      code: 1,
      err: expect.stringContaining('made a key of its own (Secret skerry-revision-key)'),
    });
  });

  test('a copy has users without their logins, and roles that were made over REST', async () => {
    const { kube, namespace } = cluster;
    const { authUsers, secrets } = RESOURCES;
    const ann = await kube.create(
      authUsers,
      manifest('AuthUser', { name: `${name}-ann`, namespace }, { email: `${name}@example.com` }) as AuthUser,
    );
    const labelled = (called: string, label: string, data: object, more: object = {}) =>
      kube.create<Secret>(secrets, {
        ...secret(called, { labels: { 'skerry.dev/identity': label }, ...more }),
        data: encodeData(Object.fromEntries(Object.entries(data).map(([key, value]) => [key, JSON.stringify(value)]))),
      });
    const content = { password: { hash: 'x' }, mfa: { secret: 'y' }, flags: {} };
    const ofLogins = { sessions: [{}], attempts: { failed: 1 }, devices: [{}], reset: {} };
    await labelled(`${name}-user`, 'user', { ...content, ...ofLogins }, made(ann.metadata, 'AuthUser'));
    for (const label of ['keys', 'artefact', 'once']) await labelled(`${name}-${label}`, label, { jwks: [] });
    const role = (called: string, labels: Record<string, string>): NativeRole => ({
      ...{ apiVersion: RBAC_VERSION, kind: 'Role', rules: [] },
      metadata: { namespace, name: called, labels },
    });
    await kube.create(RBAC_RESOURCES.roles, role(`${name}-made`, { 'skerry.dev/rbac': 'role' }));
    await kube.create(RBAC_RESOURCES.roles, role(`${name}-of-kubectl`, {}));

    const path = file('', 'users.json');
    expect(await skerry('backup', '-f', path)).toMatchObject({ code: 0, err: '' });
    const other = await elsewhere('users');
    expect(await other.skerry('restore', '-f', path)).toMatchObject({ code: 0, err: '' });
    const copied = async (called: string) => (await kube.find<Secret>(secrets, other.at(`${name}-${called}`)))?.data;
    expect(Object.keys((await copied('user')) ?? {}).sort()).toEqual(Object.keys(content).sort());
    expect(await copied('keys')).toBeDefined();
    for (const called of ['artefact', 'once']) expect(await copied(called)).toBeUndefined();
    expect(await kube.find(RBAC_RESOURCES.roles, other.at(`${name}-made`))).toBeDefined();
    expect(await kube.find(RBAC_RESOURCES.roles, other.at(`${name}-of-kubectl`))).toBeUndefined();
  });

  test('the epoch log is restored only after everything else, so that nodes retain what could not be', async () => {
    const { kube } = cluster;
    const other = await elsewhere('part');
    const log = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'skerry-epochs' }, data: { epochs: '' } };
    const copied = (description: object) => manifest('EdgeNode', { name }, { ...description });
    const copyOf = (...items: object[]) => file(JSON.stringify({ apiVersion: 'v1', kind: 'List', items }), 'part.json');
    const refused = await other.skerry('restore', '-f', copyOf(log, copied({ ofNextYear: 1 })));
    expect(refused).toMatchObject({ code: 1, out: '0 created, 0 there already, 2 failed\n' });
    expect(refused.err).toMatch(/edgenode\/.*unknown field "spec.ofNextYear"/);
    expect(refused.err).toMatch(/configmap\/skerry-epochs: not created before all others are/);
    expect(await kube.find(RESOURCES.configMaps, other.at('skerry-epochs'))).toBeUndefined();
    const after = await other.skerry('restore', '-f', copyOf(log, copied({ description: 'hall' })));
    expect(after).toMatchObject({ code: 0, out: '2 created, 0 there already, 0 failed\n' });
    expect(await kube.find(RESOURCES.configMaps, other.at('skerry-epochs'))).toBeDefined();
  });

  test('a copy is written to the standard output, and over no folder', async () => {
    const { out, err, code } = await skerry('backup', '-f', '-');
    expect({ code, err }).toEqual({ code: 0, err: expect.stringMatching(/^\d+ objects of namespace /) });
    expect(JSON.parse(out)).toMatchObject({ kind: 'List', items: expect.any(Array) });
    expect(await skerry('backup', '-f', folder)).toMatchObject({
      code: 1,
      err: expect.stringContaining('is no regular file'),
    });
  });

  test('a file that is no copy is refused', async () => {
    const refused = await skerry('restore', '-f', file('kind: List'));
    expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(/is no file of kubectl skerry backup$/m) });
  });
});

describe('describe, doctor and completion', () => {
  test('a page has facts, microservices and events', async () => {
    await apply(plant());
    const { out } = await skerry('describe', 'app', name);
    expect(out).toContain(`Name:       ${name}`);
    expect(out).toMatch(/Microservices:\n {2}APPLICATION/);
    expect((await skerry('describe', 'ms', `${name}/reader`)).out).toContain('8080->80');
  });

  test('a page of an application or a microservice reads objects by name, however large the fleet', async () => {
    await apply(`${plant()}---\nkind: EdgeNode\nmetadata: {name: gw}\nspec: {}\n`);
    const lists: string[] = [];
    const { kube } = cluster;
    const watched: typeof kube = {
      ...kube,
      list(resource, options) {
        if (!options?.fieldSelector) lists.push(resource.plural);
        return kube.list(resource, options);
      },
    };
    const counted = createPlugin(watched, cluster.namespace);
    expect((await counted('describe', 'app', name)).out).toMatch(/reader +gw/);
    expect((await counted('describe', 'ms', `${name}/writer`)).out).toMatch(/Node: +gw/);
    expect(lists).toEqual([]);
    const node = await counted('describe', 'node', 'gw');
    expect(node.out).toContain(`${name} `);
    expect(lists).toEqual(['applications']);
  });

  test('the doctor says that no replica leads, and ends with 1', async () => {
    const { out, code } = await skerry('doctor');
    expect(code).toBe(1);
    expect(out).toMatch(/ok +definitions +all \d+ kinds/);
    expect(out).toMatch(/FAILED +controller +no replica leads in namespace/);
  });

  test('words are completed with what exists', async () => {
    await apply(plant());
    expect((await skerry('__complete', 'sto')).out).toBe('stop\n:4\n');
    expect((await skerry('__complete', 'stop', `${name}/r`)).out).toBe(`${name}/reader\n:4\n`);
    expect((await skerry('__complete', 'get', 'n')).out).toBe('nodes\n:4\n');
    expect((await skerry('__complete', 'get', 'nodes', '-o', 'y')).out).toBe('yaml\n:4\n');
    expect((await skerry('__complete', 'apply', '-f', '')).out).toBe(':0\n');
    expect((await skerry('__complete', 'logs', '-f', `${name}/r`)).out).toBe(`${name}/reader\n:4\n`);
    expect((await skerry('__complete', '-n', 'x', 'exec', '-it', `${name}/r`)).out).toBe(`${name}/reader\n:4\n`);
    expect((await skerry('__complete', '--context=x', 'sto')).out).toBe('stop\n:4\n');
  });
});

describe('a command line', () => {
  test.for([
    [['sail'], /there is no command "sail"; it must be one of get, /],
    [['get', 'boats'], /"boats" must be one of nodes, apps, ms/],
    [['get', 'nodes', '-o', 'xml'], /--output "xml" must be one of wide, json, yaml/],
    [['--fleet', 'get', 'nodes'], /the command goes before "--fleet"/],
    [['get', 'nodes', '--fleet'], /Unknown option '--fleet'/],
    [['exec', 'a/b', 'ls', '-l'], /Unknown option '-l'; flags of the program go behind --/],
    [['exec', 'a/b', '-c', 'c'], /"a\/b" and --container "c" name two microservices/],
    [['logs', 'a', '--since', '1h', '--since-time', '2026-05-01'], /one of --since and --since-time/],
    [['stop'], /usage: kubectl skerry stop APP\[\/MS\]/],
    [['stop', 'a/b/c'], /"a\/b\/c" must be <application> or/],
    [['apply'], /apply needs -f FILE/],
    [['backup'], /backup needs -f FILE/],
    [['upgrade-agent'], /needs either names of nodes or --selector LABELS/],
    [['upgrade-agent', 'a', '--version', 'new'], /--version "new" must be a version such as 1\.2\.3/],
    [['upgrade-agent', 'a', '--timeout', '5'], /--timeout "5" must be a time such as 90s/],
  ] as const)('%j that cannot be carried out ends with 2', async ([args, message]) => {
    const { code, err } = await skerry(...args);
    expect(err).toMatch(message);
    expect(code).toBe(2);
  });

  test('takes the flags of every command before the command too', async () => {
    const { client, namespace } = { client: cluster.kube, namespace: cluster.namespace };
    const asked: unknown[] = [];
    const elsewhere = createPlugin(client, namespace, { connected: (flags) => void asked.push(flags) });
    expect(await elsewhere('-n', 'plant', '--context=factory', 'get', '--kubeconfig', 'file', 'apps')).toMatchObject({
      code: 0,
    });
    expect(asked).toEqual([{ namespace: 'plant', context: 'factory', kubeconfig: 'file' }]);
    expect((await elsewhere('-n', 'plant')).out).toContain('kubectl skerry COMMAND --help');
  });

  test('with --help explains the command', async () => {
    expect((await skerry('--help')).out).toContain('rebuild APP[/MS]');
    expect((await skerry('apply', '--help')).out).toContain('--force-conflicts');
  });
});
