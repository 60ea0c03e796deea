import type { EdgeNode } from '../../../api/v3/index.ts';
import { canonicalJson } from '../../../wire/digest.ts';
import { settingShown } from './settings.ts';

type Setting = keyof EdgeNode['spec'];

/** Settings that are stored and have no effect yet. */
const NOT_ACTING: readonly { field: Setting; is: (spec: EdgeNode['spec']) => boolean }[] = [
  ...(
    [
      'busClusterPort',
      'busHttpPort',
      'busLeafPort',
      'busMqttPort',
      'busServerPort',
      'edgeRouterPort',
      'interRouterPort',
      'jsMemoryStoreSize',
      'jsStorageSize',
      'messagingPort',
    ] as const
  ).map((field) => ({ field, is: (spec: EdgeNode['spec']) => spec[field] !== undefined })),
  { field: 'busClientTls', is: ({ busClientTls }) => busClientTls === true },
  { field: 'deploymentType', is: ({ deploymentType }) => deploymentType === 'container' },
  { field: 'busMode', is: ({ busMode }) => busMode === 'leaf' || busMode === 'server' },
  { field: 'networkRouter', is: ({ networkRouter }) => networkRouter !== undefined && networkRouter !== '' },
  { field: 'routerMode', is: ({ routerMode }) => routerMode === 'edge' || routerMode === 'interior' },
  { field: 'upgradeScanFrequency', is: ({ upgradeScanFrequency }) => (upgradeScanFrequency ?? 0) > 0 },
  { field: 'upstreamBusServers', is: ({ upstreamBusServers }) => (upstreamBusServers ?? []).length > 0 },
  { field: 'upstreamRouters', is: ({ upstreamRouters }) => (upstreamRouters ?? []).length > 0 },
];

/** The settings of a spec that nothing acts on; a setting at the value of its absence is not named. */
export const settingsNotActing = (spec: EdgeNode['spec'], { hasBus, hasRouter }: Acting) =>
  NOT_ACTING.filter(
    ({ field, is }) => is(spec) && !(hasBus && OF_BUS.has(field)) && !(hasRouter && OF_ROUTER.has(field)),
  ).map(({ field }) => field);

/** What a node has that acts on settings. */
export interface Acting {
  hasBus: boolean;
  hasRouter: boolean;
}

/** Settings that act while the bus is on: servers of nodes are members of no cluster. */
const OF_BUS: ReadonlySet<Setting> = new Set<Setting>([
  'busMode',
  'busServerPort',
  'busLeafPort',
  'busMqttPort',
  'busHttpPort',
  'busClientTls',
  'jsMemoryStoreSize',
  'jsStorageSize',
  'upstreamBusServers',
]);

/** Settings that act while the node has a router. */
const OF_ROUTER: ReadonlySet<Setting> = new Set<Setting>([
  'routerMode',
  'messagingPort',
  'edgeRouterPort',
  'interRouterPort',
  'upstreamRouters',
]);

/** What a condition and a warning say of settings that nothing acts on; undefined without one. */
export const storedWithoutEffect = (fields: readonly string[]): string | undefined =>
  fields.length === 0 ? undefined : `stored, but without effect yet: ${fields.toSorted().join(', ')}`;

/**
 * The settings that nothing acts on and that a write asks for. What a read of the node showed before, the defaults of v3
 * included, is not asked for by who sends it back.
 */
export const newlyNotActing = (after: EdgeNode, acting: Acting, before: EdgeNode = { ...after, spec: {} }): string[] =>
  settingsNotActing(after.spec, acting).filter(
    (field) => textShown(after, field, acting.hasBus) !== textShown(before, field, acting.hasBus),
  );

const textShown = (node: EdgeNode, field: Setting, isBusOn: boolean) =>
  canonicalJson(settingShown(node, field, isBusOn) ?? null);
