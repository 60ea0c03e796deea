import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { API_VERSION, BUS_HUB_CERTIFICATES, DEFAULT_NAMESPACE, SYSTEM_AUTHORITY } from '../../src/api/names.ts';
import type { BusAccount } from '../../src/api/v3/index.ts';
import { SYSTEM_ACCOUNT } from '../../src/rules/bus-accounts.ts';
import { HUB_OBJECT } from '../../src/rules/bus-hub.ts';
import { objectName } from '../../src/rules/names.ts';
import { trustedOperators } from '../../src/subjects/bus-accounts/rules/operator.ts';
import { accountSecretName, BUS_KEYS, operatorSecretName } from '../../src/subjects/bus-accounts/rules/secret.ts';
import { memberName } from '../../src/subjects/bus-servers/rules/hub.ts';
import { serverConfig } from '../../src/subjects/bus-servers/rules/server-config.ts';
import { serverName } from '../../src/subjects/bus-servers/rules/server-names.ts';
import { findTools } from '../binaries.ts';
import type { KubeObject } from '../kube.ts';
import { type Daemon, startDaemon } from '../process.ts';
import { waitFor } from '../wait.ts';
import { keepPorts } from './files.ts';
import { keepHubCertificate, machineAddress, secretTexts } from './hub-certificate.ts';
import type { LocalHubOptions } from './local-hub.ts';

/** Ports of a server of the hub; the same in a later run. */
interface HubPorts {
  serverPort: number;
  leafPort: number;
  mqttPort: number;
  httpPort: number;
}

/** Ports of a server beside others. */
export interface HubMemberPorts extends HubPorts {
  clusterPort: number;
}

/** The bus server of the node has the usual ports. */
const ANY_PORTS = { serverPort: undefined, leafPort: undefined, mqttPort: undefined, httpPort: undefined };

const GIB = 2 ** 30;

/**
 * Runs the hub of the message bus as a process, by the configuration that its pods have in a cluster, and names it to the controller.
 * It listens at an address of this machine that containers reach. Returns when the controller has sent it every token.
 */
export async function startBusHub(options: LocalHubOptions): Promise<Daemon> {
  const dir = join(options.dir, 'bus');
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const ports = await keepPorts(join(dir, 'ports.json'), ANY_PORTS);
  const hub = await prepareBusHub(options);
  const daemon = await hub.start(0, [{ ...ports, clusterPort: 0 }]);
  try {
    await hub.announce(ports, () => daemon.assertRunning());
  } catch (error) {
    await daemon.stop();
    throw error;
  }
  options.log(`The hub of the message bus listens at nats://${hub.host}:${ports.serverPort}`);
  return daemon;
}

/** A hub of processes on this machine. */
export interface PreparedHub {
  /** the address of its servers */
  host: string;
  /** the domain of its streams */
  domain: string;
  /** Starts one server of the hub; `members` are the ports of all, by number. */
  start(index: number, members: readonly HubMemberPorts[]): Promise<Daemon>;
  /** Names the hub to the controller, and returns when the controller has sent it every token. Rejects with what `assertRunning` throws. */
  announce(ports: HubPorts, assertRunning: () => void): Promise<void>;
}

/** Makes what servers of a hub on this machine need: certificates, and what they trust. The controller has to run. */
export async function prepareBusHub(options: LocalHubOptions): Promise<PreparedHub> {
  const { dir: stack, kube, namespace = DEFAULT_NAMESPACE, log, again, signal } = options;
  const dir = join(stack, 'bus');
  const { 'nats-server': command } = await findTools(['nats-server'], { log, ...(signal && { signal }) });
  const host = machineAddress();
  const wait = { timeoutMs: 60_000, ...(signal && { signal }) };
  const path = (plural: string, name: string) => `/apis/${API_VERSION}/namespaces/${namespace}/${plural}/${name}`;
  const texts = (name: string) => secretTexts(kube, namespace, name);
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
  const certificate = (which: keyof typeof BUS_HUB_CERTIFICATES, authority: string) => {
    const files = { dir: join(dir, 'tls', which), name: BUS_HUB_CERTIFICATES[which], authority };
    return keepHubCertificate({ kube, namespace, host, wait, ...files });
  };
  const tls = {
    site: await certificate('site', SYSTEM_AUTHORITY.busSite),
    mqtt: await certificate('mqtt', SYSTEM_AUTHORITY.busLocal),
  };
  const domain = serverName(namespace);
  return {
    host,
    domain,
    async start(index, members) {
      const name = memberName(index);
      const ports = members[index] as HubMemberPorts;
      const own = index === 0 ? dir : join(dir, name);
      mkdirSync(join(own, 'tokens'), { recursive: true, mode: 0o700 });
      const routes = members.map(({ clusterPort }) => `nats://${host}:${clusterPort}`);
      const cluster = { name: domain, port: ports.clusterPort, routes, tls: tls.site };
      const text = serverConfig({
        mode: 'hub',
        ...{ name, address: host, serverPort: ports.serverPort, monitor: { port: ports.httpPort } },
        ...{ operators: trust.operators, systemAccount: trust.key },
        resolver: { dir: join(own, 'tokens'), preload: { [trust.key]: trust.token } },
        store: { dir: join(own, 'streams'), domain, memory: GIB / 4, file: 2 * GIB },
        ...(members.length > 1 && { cluster }),
        leafs: { port: ports.leafPort, tls: tls.site },
        mqtt: { port: ports.mqttPort, tls: tls.mqtt },
      });
      const config = join(own, 'server.conf');
      writeFileSync(config, text, { mode: 0o600 });
      const daemon = members.length > 1 ? `bus-hub-${index}` : 'bus-hub';
      return startDaemon({ name: daemon, dir: stack, command, args: ['--config', config], again });
    },
    async announce(ports, assertRunning) {
      const spec = { host, ...ports, isExternal: true };
      const metadata = { name: HUB_OBJECT, namespace };
      await kube.apply({ apiVersion: API_VERSION, kind: 'BusHub', metadata, spec } as KubeObject);
      const isCurrent = async () => {
        assertRunning();
        const hub = await kube.get<{ status?: { current?: number } }>(path('bushubs', HUB_OBJECT));
        return hub?.status?.current === 1;
      };
      await waitFor(isCurrent, { what: 'the hub of the message bus to have every token', ...wait });
    },
  };
}
