import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, expect, inject, test } from 'vitest';
import { makeCertificate } from '../hack/certificate.ts';
import { pushImage } from '../hack/image.ts';
import { freePort } from '../hack/ports.ts';
import { REGISTRY_USERS, startRegistry } from '../hack/registry.ts';
import { sampleImage } from '../hack/sample.ts';
import { API_VERSION } from '../src/api/names.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { createNetwork } from './_network.ts';
import { type AgentProcess, createStack, get, until, untilReady } from './_stack.ts';

/** A registry with a private CA and a password, from the REST request to the machine that pulls from it. */
const cleanup = new AsyncDisposableStack();
afterAll(() => cleanup.disposeAsync(), 60_000);
const now = REGISTRY_USERS.limpet.password;
const later = REGISTRY_USERS['limpet-later'].password;
let id: number;
const dir = temporaryFolder();

const network = cleanup.use(await createNetwork());
const certificate = makeCertificate(join(dir, 'tls'), [network.inside]);
const images = await (async () => {
  await using pier = await startRegistry({ dir: join(dir, 'pier') });
  await pushImage(pier.url, 'team/app', '1', await sampleImage({ env: { GREETING: dir } }));
  return pier.images;
})();
const registry = cleanup.use(
  await startRegistry({
    dir: join(dir, 'registry'),
    images,
    network: { command: network.command, address: network.inside },
    tls: certificate,
    auth: 'basic',
  }),
);
const stack = await createStack();
const controller = await stack.startController();
const rest = stack.rest(controller);
const user = await stack.startAgent('user', controller);
const other = await stack.startAgent('other', controller);
const port = await freePort();

const application = (name: string, microservice: Record<string, unknown>) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name },
  spec: { microservices: [{ name: 'web', agent: { name: 'user' }, ...microservice }] },
});

/** The content of all files of an agent. */
const diskOf = ({ dir }: AgentProcess): string =>
  readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    .join('\n');

/** Waits until the status of the Application's microservice matches, and returns it. */
const told = (name: string, text: RegExp) =>
  until(`${name} to say ${text}`, async () => {
    const status = JSON.stringify((await stack.application(name))?.status ?? {});
    return text.test(status) ? status : undefined;
  });

/** Requests a rebuild, which pulls again; returns the id of the container that ran before. */
async function rebuild(): Promise<string | undefined> {
  const before = (await running())?.id;
  const uuid = (await stack.application('shop'))?.status?.microservices?.[0]?.uuid;
  expect(await rest('PATCH', `/microservices/${uuid}/rebuild`)).toMatchObject({ status: 204 });
  return before;
}

async function running() {
  const uuid = (await stack.application('shop'))?.status?.microservices?.[0]?.uuid;
  return uuid ? runningOf(uuid) : undefined;
}

const runningOf = async (uuid: string) =>
  (await stack.containers()).find(({ state, name }) => state === 'running' && name.includes(uuid));

const replaced = (before: string | undefined) =>
  until('a new container', async () => {
    const container = await running();
    return container && container.id !== before ? container : undefined;
  });

test('a wrong password is reported in the status, and a new one reaches the machine that needs it, and no other machine', async () => {
  const { status, body } = await rest('POST', '/registries', {
    url: registry.url,
    isPublic: false,
    username: 'limpet',
    password: 'wrong',
    ca: Buffer.from(certificate.ca).toString('base64'),
  });
  expect(status).toBe(201);
  id = body.id;
  const images = { amd64: 'team/app:1', arm64: 'team/app:1', registry: id };
  const container = { ports: [{ internal: 8080, external: port }] };
  await stack.apply(application('shop', { images, container }));
  const said = await told('shop', /refuses the user \\"limpet\\" or the password/);
  expect(said).toContain(`pull ${registry.host}/team/app:1`);

  expect(await rest('PATCH', `/registries/${id}`, { password: now })).toMatchObject({ status: 204 });
  await untilReady(stack, 'shop');
  expect((await running())?.image).toBe(`${registry.host}/team/app:1`);
  expect(await get(`http://127.0.0.1:${port}/`)).toContain('skerry-test-');
  expect(diskOf(user)).toContain(now);
  for (const secret of [now, 'limpet', registry.host]) expect(diskOf(other)).not.toContain(secret);
});

test('a password that is changed in its Secret with kubectl reaches the machine', async () => {
  registry.login('limpet-later');
  const before = await rebuild();
  await told('shop', /refuses the user/);
  expect((await running())?.id).toBe(before);
  const stored = await stack.kube.get<{ spec: { passwordSecretRef: { name: string; key: string } } }>(
    `/apis/${API_VERSION}/namespaces/${stack.namespace}/registries/registry-${id}`,
  );
  const { name, key } = stored?.spec.passwordSecretRef ?? { name: '', key: '' };
  const path = `/api/v1/namespaces/${stack.namespace}/secrets/${name}`;
  const secret = await stack.kube.get<{ data: Record<string, string> }>(path);
  await stack.kube.request('PUT', path, { ...secret, data: { [key]: Buffer.from(later).toString('base64') } });
  await replaced(before);
  await untilReady(stack, 'shop');
});

test('the certificate of a registry is refused without its CA, and accepted when the CA is set again', async () => {
  const ca = Buffer.from(certificate.ca).toString('base64');
  expect(await rest('PATCH', `/registries/${id}`, { ca: null })).toMatchObject({ status: 204 });
  const before = await rebuild();
  await told('shop', /certificate/);
  expect((await running())?.id).toBe(before);
  // A change of the CA removes the password unless the same request has it.
  expect(await rest('PATCH', `/registries/${id}`, { ca, password: later })).toMatchObject({ status: 204 });
  await replaced(before);
});

test('a user who moves a registry to a listener of their own gets no password from the machine', async () => {
  const heard: (string | undefined)[] = [];
  const listener = createServer(({ headers }, response) => {
    heard.push(headers.authorization);
    response.writeHead(401, { 'www-authenticate': 'Basic realm="registry"' }).end();
  });
  await new Promise<void>((resolve) => listener.listen(0, network.outside[0], resolve));
  const { port: listens } = listener.address() as AddressInfo;
  const elsewhere = { url: `http://${network.outside[0]}:${listens}`, insecure: true };
  expect(await rest('PATCH', `/registries/${id}`, elsewhere)).toMatchObject({ status: 204 });
  const before = await rebuild();
  await told('shop', /wants credentials/);
  listener.close();
  expect(heard.length).toBeGreaterThan(0);
  expect(heard.filter((header) => header !== undefined)).toEqual([]);
  const ca = Buffer.from(certificate.ca).toString('base64');
  const back = { url: registry.url, insecure: false, ca, username: 'limpet', password: later };
  expect(await rest('PATCH', `/registries/${id}`, back)).toMatchObject({ status: 204 });
  await replaced(before);
});

test('when the policy of a machine does not allow a bind, the status of the Application has the reason', async () => {
  const socket = inject('engineUrl').replace('unix://', '');
  const volumes = [{ hostDestination: socket, containerDestination: '/engine.sock', accessMode: 'rw', type: 'bind' }];
  const image = await stack.image('greedy');
  await stack.apply(application('greedy', { images: { amd64: image, arm64: image }, container: { volumes } }));
  expect(await told('greedy', /may not be bound/)).toContain(`${socket} may not be bound`);
  await stack.remove('applications', 'greedy');
});

test('a registry can be deleted only when no application uses it, and the log of no agent has its passwords', async () => {
  expect(await rest('DELETE', `/registries/${id}`)).toMatchObject({ status: 400 });
  const uuid = (await stack.application('shop'))?.status?.microservices?.[0]?.uuid ?? '';
  expect((await runningOf(uuid))?.image).toBe(`${registry.host}/team/app:1`);
  await stack.remove('applications', 'shop');
  await until('the container to be gone', async () => (await runningOf(uuid)) === undefined);
  await until('the registry to go', async () => (await rest('DELETE', `/registries/${id}`)).status === 204);
  const logs = [user, other].map(({ logFile }) => readFileSync(logFile, 'utf8')).join('');
  for (const secret of [now, later]) expect(logs).not.toContain(secret);
}, 180_000);
