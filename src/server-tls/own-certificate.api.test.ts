import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request as plainRequest } from 'node:http';
import { Agent, request } from 'node:https';
import { connect, type TLSSocket } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { ANNOTATIONS, CONTROLLER_AUTHORITY, CONTROLLER_CERTIFICATE } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import type { Certificate } from '../api/v3/certificate.ts';
import { decodeData } from '../datastore/keyed-text.ts';
import type { KubeObject } from '../kube/mod.ts';
import { poll, startTestCluster, type TestCluster } from '../rest/_cluster.ts';
import { KINDS, RESOURCES } from '../subjects/kinds.ts';

/** Replicas of the controller that serve the certificate which the controller makes for itself, on a real API server. */
const HOSTS = ['localhost', '127.0.0.1'];

async function startReplica(cluster: TestCluster, hosts = HOSTS) {
  const env = { SKERRY_TLS_HOSTS: hosts.join(',') };
  const { app } = await cluster.startController(env);
  const [port = 0, metrics = 0] = [app.addresses.rest, app.addresses.metrics];
  const readiness = async () => {
    const response = await fetch(`http://127.0.0.1:${metrics}/readyz`);
    return response.ok ? 'ready' : await response.text();
  };
  return { app, port, readiness };
}

const refOf = (cluster: TestCluster, name = CONTROLLER_CERTIFICATE) => ({ namespace: cluster.namespace, name });
const secretIn = async (cluster: TestCluster) =>
  decodeData((await cluster.kube.find<Secret>(RESOURCES.secrets, refOf(cluster)))?.data);
const certificateIn = (cluster: TestCluster) =>
  cluster.kube.find<Certificate>(KINDS.certificates.resource, refOf(cluster));
const merge = (cluster: TestCluster, body: object) =>
  cluster.kube.patch(KINDS.certificates.resource, refOf(cluster), { type: 'merge', body });

/** The fingerprint of the certificate that a replica shows to a client which trusts this authority. */
async function fingerprint(port: number, ca: string | undefined, servername = 'localhost'): Promise<string> {
  const socket: TLSSocket = connect({ host: '127.0.0.1', port, servername, ...(ca !== undefined && { ca }) });
  try {
    await once(socket, 'secureConnect');
    return socket.getPeerCertificate().fingerprint256;
  } finally {
    socket.destroy();
  }
}

/** A request over one connection that stays open. */
const get = (port: number, ca: string | undefined, agent: Agent) =>
  new Promise<{ status: number | undefined; socket: unknown }>((resolve, reject) => {
    const sent = request(
      { host: '127.0.0.1', port, path: '/api/v3/live', servername: 'localhost', ca, agent },
      (response: IncomingMessage) => {
        response.resume().once('end', () => resolve({ status: response.statusCode, socket: response.socket }));
      },
    );
    sent.once('error', reject).end();
  });

describe('a controller that makes its own certificate', () => {
  test('serves the same one on each replica, and the next one without a restart, while open connections stay', async () => {
    const cluster = await startTestCluster();
    const replicas = [await startReplica(cluster), await startReplica(cluster)];
    for (const { readiness } of replicas) await poll(readiness).toBe('ready');
    const { 'ca.crt': ca } = await secretIn(cluster);
    const shown = () => Promise.all(replicas.map(({ port }) => fingerprint(port, ca)));
    const [first] = await shown();
    expect(await shown()).toEqual([first, first]);
    expect(await fingerprint(replicas[0]?.port ?? 0, ca, '')).toBe(first);
    // No system knows this authority.
    await expect(fingerprint(replicas[0]?.port ?? 0, undefined)).rejects.toThrow(/certificate/);

    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const { port = 0 } = replicas[0] ?? {};
    const before = await get(port, ca, agent);
    // An order renews a certificate that is at least a second older.
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await merge(cluster, { metadata: { annotations: { [ANNOTATIONS.renew]: new Date().toISOString() } } });
    await poll(async () => new Set([first, ...(await shown())]).size).toBe(2);
    await poll(async () => new Set(await shown()).size).toBe(1);
    expect(await get(port, ca, agent)).toEqual({ status: 200, socket: before.socket });
    agent.destroy();
  });

  test('refuses every connection until it has one, says so, and never answers over plain HTTP', async () => {
    const cluster = await startTestCluster();
    // Its name is taken.
    const data = { a: Buffer.from('b').toString('base64') };
    await cluster.kube.create(RESOURCES.secrets, {
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: refOf(cluster), data },
    } as KubeObject as Secret);
    const { port, readiness } = await startReplica(cluster);
    await poll(readiness).toMatch(/the Certificate skerry-controller has no Secret: SecretTaken: .*delete it/);
    await expect(fingerprint(port, undefined)).rejects.toThrow(/alert|handshake/i);
    const plain = new Promise<number | undefined>((resolve, reject) => {
      plainRequest({ host: '127.0.0.1', port, path: '/api/v3/live' }, ({ statusCode }) => resolve(statusCode))
        .once('error', reject)
        .end();
    });
    await expect(plain).rejects.toThrow();

    await cluster.kube.delete(RESOURCES.secrets, refOf(cluster));
    await poll(readiness).toBe('ready');
    const { 'ca.crt': ca } = await secretIn(cluster);
    expect(await fingerprint(port, ca)).toMatch(/:/);
  });

  test('keeps what an admin chose of the Certificate, and makes it for other hosts when its settings name others', async () => {
    const cluster = await startTestCluster();
    const first = await startReplica(cluster);
    await poll(first.readiness).toBe('ready');
    await merge(cluster, { spec: { keyAlgorithm: 'RSA', expiration: 6 } });
    await first.app[Symbol.asyncDispose]();
    const second = await startReplica(cluster, [...HOSTS, 'skerry.example']);
    await poll(second.readiness).toBe('ready');
    await poll(async () => (await certificateIn(cluster))?.spec).toMatchObject({
      hosts: 'localhost,127.0.0.1,skerry.example',
      keyAlgorithm: 'RSA',
      expiration: 6,
    });
    const { 'ca.crt': ca } = await secretIn(cluster);
    await poll(() => fingerprint(second.port, ca, 'skerry.example').catch(() => '')).toMatch(/:/);
  });

  test('has an authority again that can sign when somebody lets the Certificate sign itself', async () => {
    const cluster = await startTestCluster();
    const first = await startReplica(cluster);
    await poll(first.readiness).toBe('ready');
    await merge(cluster, { spec: { ca: null } });
    await first.app[Symbol.asyncDispose]();
    await startReplica(cluster);
    await poll(async () => (await certificateIn(cluster))?.spec.ca).toEqual({
      type: 'direct',
      secretName: CONTROLLER_AUTHORITY,
    });
  });

  test('makes the Certificate again when it is deleted, and serves the present one meanwhile', async () => {
    const cluster = await startTestCluster();
    const { port, readiness } = await startReplica(cluster);
    await poll(readiness).toBe('ready');
    const { 'ca.crt': ca } = await secretIn(cluster);
    const [before, uid] = [await fingerprint(port, ca), (await certificateIn(cluster))?.metadata.uid];
    await cluster.kube.delete(KINDS.certificates.resource, refOf(cluster));
    await poll(async () => [undefined, uid].includes((await certificateIn(cluster))?.metadata.uid)).toBe(false);
    await poll(() => fingerprint(port, ca)).not.toBe(before);
    expect(await readiness()).toBe('ready');
  });
});
