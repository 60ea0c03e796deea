import { ROUTER_PLACES, ROUTER_SETS, type RouterPair } from '../../../wire/router.ts';
import type { Bridges, RunningMode } from './bridges.ts';

/** A router that another one connects to. */
interface RouterUpstream {
  /** uuid of its node, or `default-router` */
  name: string;
  host: string;
  /** for routers of the mode of this router */
  port: number;
}

interface RouterPorts {
  messaging: number;
  edge: number;
  interRouter: number;
}

/** What the configuration of one router follows from. */
export interface RouterConfigInput {
  /** uuid of its node, or `default-router` */
  id: string;
  mode: RunningMode;
  /** `hub`: a pod, which probes ask; `node`: a container of a machine */
  place: 'hub' | 'node';
  /** what its site is called among the tools of the program */
  site: { platform: string; namespace?: string };
  ports: RouterPorts;
  upstreams: readonly RouterUpstream[];
  bridges: Bridges;
}

/** The port of the hub's probes and metrics. */
export const HUB_PROBE_PORT = 9090;
/** A version of its own would replace all routers with each release. */
const SITE_VERSION = 'v3';

const CERTIFIED = { saslMechanisms: 'EXTERNAL', authenticatePeer: true } as const;

/** The whole configuration, in an order that never changes: the same input gives the same text. */
export function routerPairs(input: RouterConfigInput): RouterPair[] {
  const { bridges } = input;
  return [
    ...startPairs(input),
    ...[ROUTER_SETS.site, ROUTER_SETS.local].map(sslProfile),
    ...listeners(input),
    ...connectors(input),
    ...bridges.connectors.map((one): RouterPair => ['tcpConnector', { ...one }]),
    ...bridges.listeners.map((one): RouterPair => ['tcpListener', { ...one }]),
  ];
}

/** What no management of a running router changes: other content needs a new start. */
export function startPairs({
  id,
  mode,
  place,
  site,
}: Pick<RouterConfigInput, 'id' | 'mode' | 'place' | 'site'>): RouterPair[] {
  const router = { id, mode, helloMaxAgeSeconds: '3' };
  return [
    // Tools of the program show the metadata.
    ['router', place === 'hub' ? { ...router, metadata: JSON.stringify({ id, platform: site.platform }) } : router],
    ['site', { name: id, ...site, version: SITE_VERSION }],
    ['address', { prefix: 'mc', distribution: 'multicast' }],
    ['log', { module: 'ROUTER_CORE', enable: 'error+' }],
  ];
}

/** The text of the file of the program. A line for each pair: one changed service is one changed line. */
export const routerConfigText = (pairs: readonly RouterPair[]): string =>
  `[\n${pairs.map((pair) => JSON.stringify(pair)).join(',\n')}\n]\n`;

function sslProfile(name: string): RouterPair {
  const file = (of: string) => `${ROUTER_PLACES.certificates}/${name}/${of}`;
  return [
    'sslProfile',
    { name, caCertFile: file('ca.crt'), certFile: file('tls.crt'), privateKeyFile: file('tls.key') },
  ];
}

/**
 * Whoever reaches a port for clients may command the router, so that none is without certificates, not even on loopback: a container in the
 * network of the machine reaches it there, and so does a service that leads to `localhost`.
 */
function listeners({ id, mode, place, ports }: RouterConfigInput): RouterPair[] {
  const name = (of: string) => (place === 'hub' ? of : `${id}-${of}`);
  const between = (of: string, role: string, port: number): RouterPair => [
    'listener',
    { name: name(of), role, port, sslProfile: ROUTER_SETS.site, ...CERTIFIED },
  ];
  const certified: RouterPair = [
    'listener',
    { name: name('amqps'), role: 'normal', port: ports.messaging, sslProfile: ROUTER_SETS.local, ...CERTIFIED },
  ];
  // A client that asks for a WebSocket ends a router of 3.4 that admits them.
  const probes: RouterPair = [
    'listener',
    {
      ...{ name: `@${HUB_PROBE_PORT}`, role: 'normal', port: HUB_PROBE_PORT, http: true, httpRootDir: 'disabled' },
      ...{ healthz: true, metrics: true, websockets: false },
    },
  ];
  return [
    certified,
    ...(mode === 'interior'
      ? [between('inter-router', 'inter-router', ports.interRouter), between('edge', 'edge', ports.edge)]
      : []),
    ...(place === 'hub' ? [probes] : []),
  ];
}

function connectors({ mode, upstreams }: RouterConfigInput): RouterPair[] {
  const role = mode === 'interior' ? 'inter-router' : 'edge';
  return [...upstreams]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, host, port }) => [
      'connector',
      { name, role, host, port: String(port), sslProfile: ROUTER_SETS.site },
    ]);
}
