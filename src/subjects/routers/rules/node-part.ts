import { hash } from 'node:crypto';
import { BUILT_IN_CATALOG_ITEMS } from '../../../api/names.ts';
import type { EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import type { ServiceLookups } from '../../../rules/bridges.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { objectName, v3Name } from '../../../rules/names.ts';
import type { PartFiles, PartInputs, PlatformPart } from '../../../rules/part.ts';
import { ROUTER_HUB_OBJECT } from '../../../rules/router-hub.ts';
import { ROUTER_FILES, ROUTER_PLACES, ROUTER_SETS, type RouterPair } from '../../../wire/router.ts';
import { isInteriorRouter, routerModeOf } from '../../nodes/rules/modes.ts';
import { canonicalEngine } from '../../nodes/rules/settings.ts';
import { systemApplicationName } from '../../nodes/rules/system-application.ts';
import { type Bridges, bridgesOfHub, bridgesOfNode, joinBridges, type RunningMode } from './bridges.ts';
import { type RouterConfigInput, routerConfigText, routerPairs, startPairs } from './config.ts';
import { mapForm } from './forms.ts';
import { routerHubSettingsOfNode } from './hub.ts';
import { NO_ROOM } from './interior.ts';

const ROUTER_NAME = 'router';

/** The router on a node (docs/resources/platform.md#the-router). */
export const ROUTER: PlatformPart = {
  condition: 'RouterReady',
  wants(node, facts) {
    const mode = facts.hasRouters ? routerModeOf(node, facts) : 'none';
    if (mode === 'none') return undefined;
    if (mode === 'interior' && facts.hasNoRoomFor?.(node)) return { files: () => ({ sets: [], lacks: NO_ROOM }) };
    return {
      entry: entryOf(node, mode),
      binds: [
        { set: ROUTER_SETS.config, containerDestination: ROUTER_PLACES.config },
        // Another content of one file replaces the container: what no management changes is in it.
        {
          set: ROUTER_SETS.config,
          path: ROUTER_FILES.start,
          containerDestination: `${ROUTER_PLACES.root}/${ROUTER_FILES.start}`,
        },
        ...[ROUTER_SETS.site, ROUTER_SETS.local].map((set) => ({
          set,
          containerDestination: `${ROUTER_PLACES.certificates}/${set}`,
        })),
      ],
      files: (inputs) => {
        const pairs = pairsOf(node, mode, inputs);
        const ofEntry = placedMode(node, inputs) ?? mode;
        return filesOf(pairs, ofEntry === mode ? pairs : pairsOf(node, ofEntry, inputs));
      },
      config: (inputs) => mapForm(pairsOf(node, mode, inputs)),
    };
  },
};

/**
 * The microservice of the router. Its image is the unchanged public one, whose program any other image with `skrouterd` has too; images of v3
 * fetch their configuration by the variables.
 */
function entryOf(node: EdgeNode, mode: RunningMode): MicroserviceEntry {
  const { messagingPort, edgeRouterPort, interRouterPort } = routerHubSettingsOfNode(node);
  const published = mode === 'interior' ? [messagingPort, edgeRouterPort, interRouterPort] : [messagingPort];
  const config = `${ROUTER_PLACES.config}/${ROUTER_FILES.config}`;
  return {
    name: ROUTER_NAME,
    images: { catalogId: BUILT_IN_CATALOG_ITEMS.router.id },
    schedule: 0,
    container: {
      entrypoint: ['skrouterd'],
      commands: ['-c', config],
      hostNetworkMode: mode === 'interior',
      capAdd: ['NET_RAW'],
      logSize: 1,
      env: Object.entries({
        QDROUTERD_CONF: config,
        QDROUTERD_CONF_TYPE: 'json',
        SSL_PROFILE_PATH: ROUTER_PLACES.certificates,
        SKUPPER_SITE_ID: nodeUuid(node),
        SKUPPER_PLATFORM: platformOf(node),
      }).map(([key, value]) => ({ key, value })),
      ports: published.map((port) => ({ internal: port, external: port, protocol: 'tcp' })),
    },
  };
}

/** By the spec alone: what the machine reports would replace the container after its first report. */
const platformOf = ({ spec }: EdgeNode): string => canonicalEngine(spec.containerEngine) ?? 'docker';

/**
 * The mode of the microservice as it is stored. Its container is replaced once for another mode: by the entry, with which the file that replaces
 * it follows.
 */
function placedMode(node: EdgeNode, { placed }: PartInputs): RunningMode | undefined {
  const application = systemApplicationName(node);
  const found = placed?.().find((one) => objectName(one.application) === application && one.name === ROUTER_NAME);
  return found && (found.isOnHostNetwork ? 'interior' : 'edge');
}

function filesOf(pairs: readonly RouterPair[], ofEntry: readonly RouterPair[]): PartFiles {
  const started = ofEntry.filter(([entity]) => START_ENTITIES.has(entity));
  return {
    sets: [
      {
        name: ROUTER_SETS.config,
        files: {
          [ROUTER_FILES.config]: base64(routerConfigText(pairs)),
          [ROUTER_FILES.start]: base64(`${hash('sha256', routerConfigText(started))}\n`),
        },
      },
    ],
  };
}

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** What no management of a running router changes. */
const START_ENTITIES: ReadonlySet<string> = new Set(
  startPairs({ id: '', mode: 'edge', place: 'node', site: { platform: '' } }).map(([entity]) => entity),
);

/** The configuration of the router of a node. */
function pairsOf(node: EdgeNode, mode: RunningMode, inputs: PartInputs): RouterPair[] {
  const { messagingPort, edgeRouterPort, interRouterPort } = routerHubSettingsOfNode(node);
  const { namespace } = node.metadata;
  return routerPairs({
    ...{ id: nodeUuid(node), mode, place: 'node', upstreams: upstreamsOf(node, mode, inputs) },
    site: { platform: platformOf(node), ...(namespace !== undefined && { namespace }) },
    ports: { messaging: messagingPort, edge: edgeRouterPort, interRouter: interRouterPort },
    bridges: inputs.services ? bridgesOf(node, mode, inputs.services, inputs) : NO_BRIDGES,
  });
}

type RouterUpstreams = RouterConfigInput['upstreams'][number][];

const NO_BRIDGES: Bridges = { listeners: [], connectors: [] };

function bridgesOf(node: EdgeNode, mode: RunningMode, services: ServiceLookups, inputs: PartInputs): Bridges {
  const meant = inputs.upstreamNode(v3Name(node));
  const isMeantByName = meant !== undefined && isSameNode(meant, node);
  const own = bridgesOfNode(node, { mode, microservices: inputs.placed?.() ?? [], services, isMeantByName });
  const [first] = node.spec.isSystem ? (inputs.systemNodes?.() ?? []) : [];
  // Outside of a cluster the router of the first node of the system is the default router.
  return first && isSameNode(first, node) ? joinBridges(own, bridgesOfHub(services.all())) : own;
}

const isSameNode = (one: EdgeNode, other: EdgeNode) => nodeUuid(one) === nodeUuid(other);

/**
 * The routers that a node connects to: what it names, else the default router, and the routers of the nodes of the system. Of two nodes of the
 * system the younger one connects to the older one.
 */
function upstreamsOf(node: EdgeNode, mode: RunningMode, inputs: PartInputs): RouterUpstreams {
  const { upstreamRouters = [], isSystem } = node.spec;
  const ofSystem = inputs.systemNodes?.() ?? [];
  const before = isSystem
    ? ofSystem.slice(
        0,
        Math.max(
          0,
          ofSystem.findIndex((one) => isSameNode(one, node)),
        ),
      )
    : ofSystem;
  const toNode = (other: EdgeNode | undefined): RouterUpstreams => {
    const { host, edgeRouterPort, interRouterPort } = other ? routerHubSettingsOfNode(other) : {};
    if (!other || host === undefined || isSameNode(other, node) || !isInteriorRouter(other)) return [];
    return [{ name: nodeUuid(other), host, port: (mode === 'interior' ? interRouterPort : edgeRouterPort) ?? 0 }];
  };
  const toDefault = (): RouterUpstreams => {
    const router = inputs.defaultRouter?.();
    if (!router) return before.slice(0, 1).flatMap(toNode);
    const port = mode === 'interior' ? router.interRouterPort : router.edgeRouterPort;
    return [{ name: ROUTER_HUB_OBJECT, host: router.host, port }];
  };
  const found =
    upstreamRouters.length === 0
      ? [...toDefault(), ...before.flatMap(toNode)]
      : upstreamRouters.flatMap((name) =>
          name === ROUTER_HUB_OBJECT ? toDefault() : toNode(inputs.upstreamNode(name)),
        );
  return [...new Map(found.map((one) => [one.name, one])).values()];
}
