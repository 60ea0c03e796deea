import { mkdirSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { API_VERSION, BUS_HUB_CERTIFICATES, DEFAULT_NAMESPACE, SYSTEM_AUTHORITY } from '../../src/api/names.ts';
import type { BusAccount } from '../../src/api/v3/index.ts';
import { SYSTEM_ACCOUNT } from '../../src/rules/bus-accounts.ts';
import { HUB_OBJECT } from '../../src/rules/bus-hub.ts';
import { objectName } from '../../src/rules/names.ts';
import { trustedOperators } from '../../src/subjects/bus-accounts/rules/operator.ts';
import { accountSecretName, BUS_KEYS, operatorSecretName } from '../../src/subjects/bus-accounts/rules/secret.ts';
import { serverConfig } from '../../src/subjects/bus-servers/rules/server-config.ts';
import { serverName } from '../../src/subjects/bus-servers/rules/server-names.ts';
import { findTools } from '../binaries.ts';
import { busServerImage } from '../bus-image.ts';
import type { Engine } from '../engine.ts';
import { loadImage } from '../engine-api.ts';
import { saveImage } from '../image.ts';
import type { Kube, KubeObject } from '../kube.ts';
import { freePort } from '../ports.ts';
import { type Again, type Daemon, startDaemon } from '../process.ts';
import type { Log } from '../progress.ts';
import { waitFor } from '../wait.ts';
import { readJson, writeAtomically } from './files.ts';

export interface BusHubOptions {
  /** Data folder of the stack. */
  dir: string;
  /** a superuser */
  kube: Kube;
  log: Log;
  again?: Again;
  signal?: AbortSignal;
}

/** Ports of the hub; the same in a later run. */
interface HubPorts {
  serverPort: number;
  leafPort: number;
  mqttPort: number;
  httpPort: number;
}

const GIB = 2 ** 30;

/**
 * Runs the hub of the message bus as a process, by the configuration that its pods have in a cluster, and names it to the controller.
 * It listens at an address of this machine that containers reach. Returns when the controller has sent it every token.
 */
export async function startBusHub({ dir: stack, kube, log, again, signal }: BusHubOptions): Promise<Daemon> {
  const dir = join(stack, 'bus');
  mkdirSync(join(dir, 'tls'), { recursive: true, mode: 0o700 });
  const { 'nats-server': command } = await findTools(['nats-server'], { log, ...(signal && { signal }) });
  const host = machineAddress();
  const ports = await choosePorts(join(dir, 'ports.json'));
  const texts = (name: string) => secretTexts(kube, name);
  const wait = { timeoutMs: 60_000, ...(signal && { signal }) };

  const trust = await waitFor(
    async () => {
      const operators = trustedOperators(await texts(operatorSecretName()));
      const system = await kube.get<BusAccount>(path('busaccounts', objectName(SYSTEM_ACCOUNT)));
      const { [BUS_KEYS.token]: token } = system ? await texts(accountSecretName(system.status?.uuid ?? '')) : {};
      const key = system?.status?.publicKey;
      return operators.length > 0 && token && key ? { operators, key, token } : undefined;
    },
    { what: 'the operator of the message bus and the account of its servers', ...wait },
  );
  const tls = {
    site: await keepCertificate(kube, dir, 'site', host, wait),
    mqtt: await keepCertificate(kube, dir, 'mqtt', host, wait),
  };
  const config = join(dir, 'server.conf');
  const text = serverConfig({
    mode: 'hub',
    name: 'bus-0',
    ...{ address: host, serverPort: ports.serverPort, monitor: { port: ports.httpPort } },
    ...{ operators: trust.operators, systemAccount: trust.key },
    resolver: { dir: join(dir, 'tokens'), preload: { [trust.key]: trust.token } },
    store: { dir: join(dir, 'streams'), domain: serverName(DEFAULT_NAMESPACE), memory: GIB / 4, file: 2 * GIB },
    leafs: { port: ports.leafPort, tls: tls.site },
    mqtt: { port: ports.mqttPort, tls: tls.mqtt },
  });
  writeFileSync(config, text, { mode: 0o600 });
  mkdirSync(join(dir, 'tokens'), { recursive: true });
  const daemon = await startDaemon({ name: 'bus-hub', dir: stack, command, args: ['--config', config], again });
  try {
    const spec = { host, ...ports, isExternal: true };
    const metadata = { name: HUB_OBJECT, namespace: DEFAULT_NAMESPACE };
    await kube.apply({ apiVersion: API_VERSION, kind: 'BusHub', metadata, spec } as KubeObject);
    await waitFor(
      async () => {
        daemon.assertRunning();
        const hub = await kube.get<{ status?: { current?: number } }>(path('bushubs', HUB_OBJECT));
        return hub?.status?.current === 1;
      },
      { what: 'the hub of the message bus to have every token', ...wait },
    );
  } catch (error) {
    await daemon.stop();
    throw error;
  }
  log(`The hub of the message bus listens at nats://${host}:${ports.serverPort}`);
  return daemon;
}

const path = (plural: string, name: string) => `/apis/${API_VERSION}/namespaces/${DEFAULT_NAMESPACE}/${plural}/${name}`;

async function secretTexts(kube: Kube, name: string): Promise<Record<string, string>> {
  const secret = await kube.get<{ data?: Record<string, string> }>(
    `/api/v1/namespaces/${DEFAULT_NAMESPACE}/secrets/${name}`,
  );
  const decoded = Object.entries(secret?.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64')]);
  return Object.fromEntries(decoded.map(([key, value]) => [key, String(value)]));
}

/** An address under which containers of this machine and other machines reach it. */
function machineAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1';
}

async function choosePorts(file: string): Promise<HubPorts> {
  const last = readJson<Partial<HubPorts>>(file) ?? {};
  const ports = {
    // The bus server of the node has the usual ports.
    serverPort: await freePort(last.serverPort),
    leafPort: await freePort(last.leafPort),
    mqttPort: await freePort(last.mqttPort),
    httpPort: await freePort(last.httpPort),
  };
  writeAtomically(file, JSON.stringify(ports));
  return ports;
}

/** The files of a certificate that the controller makes for the hub. */
async function keepCertificate(
  kube: Kube,
  dir: string,
  which: keyof typeof BUS_HUB_CERTIFICATES,
  host: string,
  wait: { timeoutMs: number; signal?: AbortSignal },
) {
  const name = BUS_HUB_CERTIFICATES[which];
  const authority = which === 'site' ? SYSTEM_AUTHORITY.busSite : SYSTEM_AUTHORITY.busLocal;
  const object = (kind: string, of: string, spec: object) =>
    ({ apiVersion: API_VERSION, kind, metadata: { name: of, namespace: DEFAULT_NAMESPACE }, spec }) as KubeObject;
  await kube.apply(object('CertificateAuthority', authority, { type: 'self-signed' }));
  const hosts = [...new Set([host, 'localhost', '127.0.0.1'])].join(',');
  const ca = { type: 'direct', secretName: authority };
  await kube.apply(object('Certificate', name, { subject: name, hosts, keyAlgorithm: 'ECDSA', ca }));
  const found = await waitFor(
    async () => {
      const { 'tls.crt': cert, 'tls.key': key, 'ca.crt': trusted } = await secretTexts(kube, name);
      return cert && key && trusted ? { cert, key, ca: trusted } : undefined;
    },
    { what: `the certificate ${name}`, ...wait },
  );
  const file = (what: keyof typeof found) => {
    const at = join(dir, 'tls', `${which}.${what}`);
    writeFileSync(at, found[what], { mode: 0o600 });
    return at;
  };
  return { ca: file('ca'), cert: file('cert'), key: file('key') };
}

/**
 * Loads an image of the bus server into the engine, so that the stack needs no other registry. Returns the settings by which nodes
 * use it; the environment of the stack comes first.
 */
export async function loadBusServer({ url }: Pick<Engine, 'url'>, registry: string): Promise<Record<string, string>> {
  const image = await busServerImage();
  const name = `${registry}/bus:${image.top.digest.slice('sha256:'.length).slice(0, 12)}`;
  await loadImage(url, saveImage(image, name));
  return { BUS_IMAGE_1: name, BUS_IMAGE_2: name };
}
