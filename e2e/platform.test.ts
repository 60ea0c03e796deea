import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../hack/ports.ts';
import type { EdgeNodeSpec } from '../src/api/v3/index.ts';
import type { PlatformPart } from '../src/rules/part.ts';
import { PARTS } from '../src/subjects/platform/rules/parts.ts';
import { type ControllerHere, startControllerHere } from './_controller-here.ts';
import { type AgentProcess, createStack, get, type Stack, until, untilReady, webApplication } from './_stack.ts';

/**
 * The platform of two nodes with real agents and a real engine. The part of routers is a sample server here, which binds a
 * certificate of its node as routers and buses do; it is on nodes with the tag `echo`.
 */
let stack: Stack;
let here: ControllerHere;
const agents: AgentProcess[] = [];
const NODES = ['gw-1', 'gw-2'] as const;
let image: string;
let port: number;
let tls: number;

const ECHO: PlatformPart = {
  condition: 'RouterReady',
  wants: ({ spec: { tags = [], messagingPort } }) =>
    tags.includes('echo')
      ? {
          entry: {
            name: 'router',
            images: { amd64: image, arm64: image },
            schedule: 0,
            container: {
              ports: [
                { internal: 8080, external: messagingPort ?? port },
                { internal: 8443, external: tls },
              ],
            },
          },
          binds: [{ set: 'router-local-server', containerDestination: '/etc/tls' }],
        }
      : undefined,
};

beforeAll(async () => {
  stack = await createStack();
  image = await stack.image('echo', { TLS: '/etc/tls' });
  [port, tls] = [await freePort(), await freePort()];
  here = await startControllerHere(stack, {}, { parts: [...PARTS, ECHO] });
  for (const node of NODES) agents.push(await stack.startAgent(node, here.controller));
}, 240_000);
afterAll(async () => {
  await here?.[Symbol.asyncDispose]();
  await stack?.[Symbol.asyncDispose]();
}, 60_000);

const set = (name: string, spec: Partial<Record<keyof EdgeNodeSpec, unknown>>) =>
  stack.kube.request(
    'PATCH',
    `/apis/skerry.dev/v3/namespaces/${stack.namespace}/edgenodes/${name}`,
    { spec },
    'application/merge-patch+json',
  );
const conditionOf = async (name: string, type: string) =>
  (await stack.node(name))?.status?.conditions?.find((one) => one.type === type);
const platformOf = async (name: string) => (await stack.node(name))?.status?.platformStatus;
const becomes = (name: string, type: string, reason: string) =>
  until(`${type} of ${name} to be ${reason}`, async () => {
    const condition = await conditionOf(name, type);
    return condition?.reason === reason && condition;
  });
/** A file of the system on a machine. */
const pathOn = (index: number, set: string, file = '') =>
  join(agents[index]?.dir ?? '', 'data', 'volumes', 'system', set, file);
const certificateOn = (index: number, set: string) => new X509Certificate(readFileSync(pathOn(index, set, 'tls.crt')));

test('a machine gets the certificates of its mode, which OpenSSL verifies, and the platform is Ready once they are on its disk', async () => {
  await set('gw-1', { routerMode: 'edge', host: 'gw-1.plant.example' });
  await becomes('gw-1', 'CertificatesReady', 'OnMachine');
  await until('the platform to be Ready', async () => (await platformOf('gw-1'))?.phase === 'Ready');
  for (const name of ['router-site-server', 'router-local-server', 'router-local-agent']) {
    const verified = execFileSync('openssl', [
      ...['verify', '-CAfile', pathOn(0, name, 'ca.crt'), '-verify_hostname', 'gw-1.plant.example'],
      pathOn(0, name, 'tls.crt'),
    ]);
    expect(String(verified)).toContain('OK');
  }
  expect(existsSync(pathOn(1, 'router-site-server'))).toBe(false);
  expect(await conditionOf('gw-2', 'CertificatesReady')).toBeUndefined();
}, 120_000);

test('a container of the platform reads its certificate, and a renewed one without being replaced', async () => {
  await set('gw-1', { tags: ['echo'] });
  await becomes('gw-1', 'RouterReady', 'OnMachine');
  const at = (path: string) => get(`http://127.0.0.1:${port}${path}`);
  const process = await at('/process');
  const before = await at('/file?path=/etc/tls/tls.crt');
  expect(before).toContain('BEGIN CERTIFICATE');
  await set('gw-1', { host: 'gw-1b.plant.example' });
  await until('the certificate of the new host in the container', async () => {
    const now = await at('/file?path=/etc/tls/tls.crt');
    return now && now !== before && new X509Certificate(now).checkHost('gw-1b.plant.example');
  });
  expect(await at('/process')).toBe(process);
  await becomes('gw-1', 'CertificatesReady', 'OnMachine');
}, 120_000);

test('a port that an application of a user holds is named with its holder, and the platform is Ready once it is free', async () => {
  const taken = await freePort();
  await stack.apply(webApplication('shop', 'gw-1', await stack.image('shop'), taken));
  await untilReady(stack, 'shop', 120_000);
  await set('gw-1', { messagingPort: taken });
  const condition = await becomes('gw-1', 'RouterReady', 'PortTaken');
  expect(condition.message).toContain('shop/');
  expect(await platformOf('gw-1')).toMatchObject({ phase: 'Failed', lastError: expect.stringContaining('shop/') });
  await stack.remove('applications', 'shop');
  await becomes('gw-1', 'RouterReady', 'OnMachine');
  await until('the platform to be Ready', async () => (await platformOf('gw-1'))?.phase === 'Ready');
  expect(await get(`http://127.0.0.1:${taken}/healthz`)).toBeDefined();
}, 180_000);

test('a machine that is away through a change is not Ready, and gets the file that it lacks when it is back', async () => {
  await set('gw-2', { routerMode: 'edge', host: 'gw-2.plant.example' });
  await becomes('gw-2', 'CertificatesReady', 'OnMachine');
  await agents[1]?.kill();
  await stack.annotate('certificateauthorities', 'router-site-ca', { 'skerry.dev/renew': new Date().toISOString() });
  const trusted = (index: number) =>
    readFileSync(pathOn(index, 'router-site-server', 'ca.crt'), 'utf8').match(/BEGIN CERTIFICATE/g)?.length;
  await until('the next authority on the machine that is there', async () => trusted(0) === 2);
  expect(trusted(1)).toBe(1);
  await becomes('gw-2', 'CertificatesReady', 'FilesPending');
  await agents[1]?.start();
  await until('the next authority on the machine that was away', async () => trusted(1) === 2);
  await becomes('gw-2', 'CertificatesReady', 'OnMachine');
  expect(certificateOn(1, 'router-site-server').checkHost('gw-2.plant.example')).toBeDefined();
}, 180_000);

test('a part that is removed takes its container with it, and a deleted node leaves nothing on the machine or in the cluster', async () => {
  await set('gw-1', { tags: [] });
  await until(
    'the container to be removed',
    async () =>
      !(await get(`http://127.0.0.1:${tls}/healthz`)) && (await stack.application('system-gw-1')) === undefined,
  );
  expect(await conditionOf('gw-1', 'RouterReady')).toBeUndefined();
  const uuid = (await stack.node('gw-1'))?.status?.uuid;
  await stack.remove('edgenodes', 'gw-1');
  await until('the node to be deleted', async () => (await stack.node('gw-1')) === undefined);
  await until('the files to be removed', async () => !existsSync(pathOn(0, 'router-site-server')));
  const secret = `/api/v1/namespaces/${stack.namespace}/secrets/skerry-platform-${uuid}`;
  await until('the Secret to be deleted', async () => (await stack.kube.get(secret)) === undefined);
}, 120_000);
