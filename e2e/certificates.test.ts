import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fakeTime } from '../hack/faketime.ts';
import { freePort } from '../hack/ports.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import {
  type AgentProcess,
  type ControllerProcess,
  createStack,
  get,
  type Rest,
  type Stack,
  until,
  untilReady,
} from './_stack.ts';

/**
 * HTTPS servers in containers with the files of their certificates, on two nodes, and clients that trust the `ca.crt` of a container:
 * across renewals and another key of the authority, through both of which one node is away.
 */
const run = promisify(execFile);
let stack: Stack;
let controller: ControllerProcess;
let rest: Rest;
const agents: AgentProcess[] = [];
const SITES = ['site-1', 'site-2'] as const;
type Site = (typeof SITES)[number];
const ports = new Map<Site, { http: number; https: number }>();
const portsOf = (site: Site) => ports.get(site) as { http: number; https: number };

const MINUTE_MS = 60_000;
/** The next key of the authority signs once half of its life is over: before the clock that is ahead of the clients by less than an hour. */
const [AUTHORITY_MS, SERVER_MS] = [90 * MINUTE_MS, 60 * MINUTE_MS];
const AHEAD = '+3300s';

async function call(method: string, path: string, body: unknown, status: number) {
  const reply = await rest(method, path, body);
  expect(reply.status, JSON.stringify(reply.body)).toBe(status);
  return reply.body;
}

async function start(env: Record<string, string> = {}) {
  const port = controller ? new URL(controller.url).port : String(await freePort());
  await controller?.stop();
  controller = await stack.startController({ env: { ...env, SERVER_PORT: port } });
  rest = stack.rest(controller);
}

beforeAll(async () => {
  stack = await createStack();
  await start();
  for (const node of ['gw-1', 'gw-2']) agents.push(await stack.startAgent(node, controller));
  await call('POST', '/certificates/ca', { name: 'plant', subject: 'Plant 3', expiration: AUTHORITY_MS }, 201);
  for (const [index, site] of SITES.entries()) await deploy(site, `gw-${index + 1}`);
}, 240_000);
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
}, 60_000);

/** An application with an HTTPS server, whose certificate has the name and the address by which it is reached. */
async function deploy(name: Site, agentName: string) {
  const ca = { type: 'direct', secretName: 'plant' };
  const hosts = 'localhost,127.0.0.1';
  await call('POST', '/certificates', { name, subject: name, hosts, expiration: SERVER_MS, ca }, 201);
  await until('the Secret', async () => (await rest('GET', `/secrets/${name}`)).status === 200);
  await call('POST', '/volumeMounts', { name, secretName: name }, 200);
  const own = { http: await freePort(), https: await freePort() };
  ports.set(name, own);
  const microservice = {
    ...{
      name: 'web',
      agentName,
      images: [{ containerImage: await stack.image(name, { TLS: '/etc/tls' }), archId: 1 }],
    },
    ports: [
      { internal: 8080, external: own.http },
      { internal: 8443, external: own.https },
    ],
    volumeMappings: [
      { type: 'volumeMount', hostDestination: name, containerDestination: '/etc/tls', accessMode: 'ro' },
    ],
  };
  await call('POST', '/application', { name, microservices: [microservice] }, 201);
  await untilReady(stack, name, 120_000);
}

/** A file of a running container. */
const file = async (site: Site, name: string) =>
  (await get(`http://127.0.0.1:${portsOf(site).http}/file?path=/etc/tls/${name}`)) ?? '';
const certificates = (pem: string) =>
  (pem.match(/-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g) ?? []).map(
    (one) => new X509Certificate(one),
  );

/** The certificate that a client of one site gets from a server of another one, by name and by address. Rejects when it does not trust it. */
async function visit(from: Site, to: Site): Promise<string> {
  const ca = await file(from, 'ca.crt');
  const seen = await Promise.all(['localhost', '127.0.0.1'].map((host) => serialOf(host, portsOf(to).https, ca)));
  return seen[0] as string;
}

const serialOf = (host: string, port: number, ca: string) =>
  new Promise<string>((resolve, reject) => {
    const sent = request({ host, port, path: '/healthz', ca, agent: false }, (response) => {
      response.resume();
      resolve((response.socket as TLSSocket).getPeerCertificate().serialNumber);
    });
    sent.once('error', reject).end();
  });

/** Every client reaches every server, however often files change meanwhile. */
const everybody = async () =>
  Object.fromEntries(
    await Promise.all(
      SITES.flatMap((from) => SITES.map(async (to) => [`${from} -> ${to}`, await visit(from, to)] as const)),
    ),
  );

const serial = async (site: Site) => certificates(await file(site, 'tls.crt'))[0]?.serialNumber;

/** Orders a renewal and waits for the next certificate in the running container. */
async function renew(site: Site) {
  const before = await serial(site);
  await call('POST', `/certificates/${site}/renew`, undefined, 200);
  await until('the next certificate in the container', async () => (await serial(site)) !== before);
  expect(await visit(site, site)).toBe(await serial(site));
}

const CLIENT = `
  const [port, ca] = process.argv.slice(1);
  require('node:https')
    .get({ host: '127.0.0.1', port, path: '/healthz', ca: require('node:fs').readFileSync(ca), agent: false })
    .on('response', ({ statusCode }) => { console.log(statusCode); process.exit(); })
    .on('error', ({ code }) => console.log(code));
`;

test.each([
  ['an hour slow', '-3600s', '200', '0 (ok)'],
  ['half an hour fast', '+1800s', '200', '0 (ok)'],
  ['two hours fast', '+7200s', 'CERT_HAS_EXPIRED', '10 (certificate has expired)'],
  ['at 1970', '@1970-01-01 00:10:00', 'CERT_NOT_YET_VALID', '9 (certificate is not yet valid)'],
])(
  'clients of a machine whose clock is %s (%s) get %s with Node and "%s" with OpenSSL for a certificate of one hour',
  async (_, clock, node, openssl) => {
    const env = { ...process.env, ...(await fakeTime(clock)) };
    const ca = join(temporaryFolder(), 'ca.crt');
    writeFileSync(ca, await file('site-1', 'ca.crt'));
    const port = String(portsOf('site-1').https);
    const byNode = await run(process.execPath, ['-e', CLIENT, port, ca], { env });
    expect(byNode.stdout.trim()).toBe(node);
    const visit = run(
      'openssl',
      ['s_client', '-connect', `127.0.0.1:${port}`, '-verify_ip', '127.0.0.1', '-CAfile', ca],
      {
        env,
        timeout: 10_000,
      },
    );
    visit.child.stdin?.end();
    expect((await visit).stdout).toContain(`Verify return code: ${openssl}`);
  },
);

test('clients and servers in containers trust each other across renewals and a change of the authority, with a node away', async () => {
  const processes = new Map(
    await Promise.all(
      SITES.map(async (site) => [site, await get(`http://127.0.0.1:${portsOf(site).http}/process`)] as const),
    ),
  );
  await everybody();
  await agents[1]?.kill();

  await renew('site-1');
  await everybody();
  const trusted = async (site: Site) => certificates(await file(site, 'ca.crt')).length;
  await stack.annotate('certificateauthorities', 'plant', { 'skerry.dev/renew': new Date().toISOString() });
  await until('the next authority in the container', async () => (await trusted('site-1')) === 2);
  // The next key does not sign yet: a node that is away trusts renewed certificates.
  await renew('site-1');
  await everybody();

  await start(await fakeTime(AHEAD));
  const authority = async () => certificates(await file('site-1', 'ca.crt'))[0];
  await renew('site-1');
  await until('a certificate of the next key', async () => {
    const [server] = certificates(await file('site-1', 'tls.crt'));
    const by = await authority();
    return by && server?.verify(by.publicKey);
  });
  // The server of the node that is away has a certificate of the former key, and is trusted.
  expect(await trusted('site-1')).toBe(2);
  for (const to of SITES) await visit('site-1', to);

  await agents[1]?.start();
  await until('the next authority on the node that was away', async () => (await trusted('site-2')) === 2);
  await renew('site-2');
  await everybody();
  // No container was replaced for it.
  for (const site of SITES)
    expect(await get(`http://127.0.0.1:${portsOf(site).http}/process`)).toBe(processes.get(site));
}, 180_000);
