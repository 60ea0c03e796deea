import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { API_VERSION, DEFAULT_NAMESPACE, ROUTER_HUB_CERTIFICATES, SYSTEM_AUTHORITY } from '../../src/api/names.ts';
import type { RouterHub } from '../../src/api/v3/index.ts';
import { ROUTER_HUB_OBJECT } from '../../src/rules/router-hub.ts';
import { routerPairs } from '../../src/subjects/routers/rules/config.ts';
import { ROUTER_FILES, ROUTER_SETS } from '../../src/wire/router.ts';
import type { KubeObject } from '../kube.ts';
import { type Daemon, startDaemon } from '../process.ts';
import { routerCommand, routerPairsHere } from '../router.ts';
import { waitFor } from '../wait.ts';
import { keepPorts } from './files.ts';
import { keepHubCertificate, machineAddress } from './hub-certificate.ts';
import type { LocalHubOptions } from './local-hub.ts';

/** Ports of the default router on this machine; the same in a later run. */
interface LocalRouterPorts {
  messaging: number;
  edge: number;
  interRouter: number;
}

const ANY_PORTS = { messaging: undefined, edge: undefined, interRouter: undefined };

/** The default router as a process. */
export interface LocalRouter extends Daemon {
  /** the address of this machine under which containers reach it */
  host: string;
  ports: LocalRouterPorts;
}

/**
 * Runs the default router as a process, and names it to the controller, which sends it the services. It listens at an address of this
 * machine that containers reach. Returns when the controller has sent it every service.
 */
export async function startLocalRouter(options: LocalHubOptions): Promise<LocalRouter> {
  const { kube, namespace = DEFAULT_NAMESPACE, log, again, signal } = options;
  const dir = join(options.dir, 'router');
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const wait = { timeoutMs: 60_000, ...(signal && { signal }) };
  const ports = await keepPorts(join(dir, 'ports.json'), ANY_PORTS);
  const host = machineAddress();
  for (const [set, name, authority] of [
    [ROUTER_SETS.site, ROUTER_HUB_CERTIFICATES.site, SYSTEM_AUTHORITY.routerSite],
    [ROUTER_SETS.local, ROUTER_HUB_CERTIFICATES.local, SYSTEM_AUTHORITY.routerLocal],
  ] as const)
    await keepHubCertificate({ kube, namespace, dir: join(dir, set), name, authority, host, wait });
  const pairs = routerPairs({
    ...{ id: ROUTER_HUB_OBJECT, mode: 'interior', place: 'node', upstreams: [], ports },
    site: { platform: 'linux', namespace },
    bridges: { listeners: [], connectors: [] },
  });
  const config = join(dir, ROUTER_FILES.config);
  const here = routerPairsHere(pairs, { certificates: dir, probes: 0 });
  writeFileSync(config, JSON.stringify(here), { mode: 0o600 });
  const daemon = await startDaemon({ name: 'router-hub', dir: options.dir, again, ...routerCommand(config) });
  try {
    const spec = {
      ...{ host, isExternal: true, messagingPort: ports.messaging },
      ...{ edgeRouterPort: ports.edge, interRouterPort: ports.interRouter },
    };
    const metadata = { name: ROUTER_HUB_OBJECT, namespace };
    await kube.apply({ apiVersion: API_VERSION, kind: 'RouterHub', metadata, spec } as KubeObject);
    const path = `/apis/${API_VERSION}/namespaces/${namespace}/routerhubs/${ROUTER_HUB_OBJECT}`;
    const isCurrent = async () => {
      daemon.assertRunning();
      return (await kube.get<RouterHub>(path))?.status?.isCurrent;
    };
    await waitFor(isCurrent, { what: 'the default router to have every service', ...wait });
  } catch (error) {
    await daemon.stop();
    throw error;
  }
  log(`The default router listens at ${host}:${ports.edge}`);
  return Object.assign(daemon, { host, ports });
}
