import type { VerdictReason } from '../../../api/conditions.ts';
import type { RestErrorCode } from '../../../api/error-codes.ts';
import type { EdgeNode, EdgeNodeSpec } from '../../../api/v3/index.ts';
import { HUB_UPSTREAM } from '../../../rules/bus-hub.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { Lookups } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import type { Verdict } from '../../../rules/verdict.ts';
import { settingShown } from './settings.ts';

/**
 * The nodes that a node names: the routers and bus servers that it connects to (docs/spec/rest-v3.md#node-body). One rule for
 * REST, which refuses a write, and for the reconciler, which says it in SettingsRefused.
 */
interface Upstreams {
  field: 'upstreamRouters' | 'networkRouter' | 'upstreamBusServers';
  /** what is named, in messages */
  what: 'router' | 'bus server';
  mode: 'routerMode' | 'busMode';
  /** modes in which a node accepts the connection */
  accepts: readonly string[];
  /** what the control plane has, which is no node */
  own: string;
  code: RestErrorCode<400 | 404>;
  reason: VerdictReason;
}

const ROUTER = {
  what: 'router',
  mode: 'routerMode',
  own: 'default-router',
  code: 'INVALID_ROUTER',
  reason: 'RouterWrongMode',
} as const;

const UPSTREAMS: readonly Upstreams[] = [
  { ...ROUTER, field: 'upstreamRouters', accepts: ['interior'] },
  { ...ROUTER, field: 'networkRouter', accepts: ['interior', 'edge'] },
  {
    field: 'upstreamBusServers',
    what: 'bus server',
    mode: 'busMode',
    accepts: ['server'],
    own: HUB_UPSTREAM,
    code: 'INVALID_BUS_SERVER',
    reason: 'BusServerWrongMode',
  },
];

type Field = Upstreams['field'];
type Spec = Pick<EdgeNodeSpec, Field>;
type NodeLookups = Pick<Lookups, 'nodeByName' | 'nodeByUuid' | 'bus'>;

const namedIn = (spec: Spec, { field, own }: Upstreams): readonly string[] =>
  [spec[field] ?? []].flat().filter((name) => name !== '' && name !== own);

/** Names and uuids of the nodes that a node names. */
export const upstreamsOf = (spec: Spec): ReadonlySet<string> => new Set(UPSTREAMS.flatMap((one) => namedIn(spec, one)));

/** The bus servers that the server of a node links to: the named ones, else the hub. A node of the system is part of the hub. */
export const namedBusServers = ({ upstreamBusServers = [], isSystem }: EdgeNodeSpec): readonly string[] =>
  upstreamBusServers.length > 0 ? upstreamBusServers : isSystem ? [] : [HUB_UPSTREAM];

/** The node that an upstream means: by its uuid, else by its name. One that is being deleted accepts no connection. */
export function upstreamNode(
  name: string,
  { nodeByName, nodeByUuid }: Pick<NodeLookups, 'nodeByName' | 'nodeByUuid'>,
): EdgeNode | undefined {
  const found = nodeByUuid(name) ?? nodeByName(name);
  return found?.metadata.deletionTimestamp === undefined ? found : undefined;
}

/** Why a node cannot connect to what it names, in the order of the fields. What `before` named already is not judged. */
export function upstreamVerdicts(node: EdgeNode, lookups: NodeLookups, before?: EdgeNode): Verdict[] {
  return UPSTREAMS.flatMap((upstreams) => {
    const kept = before ? namedIn(before.spec, upstreams) : [];
    const added = namedIn(node.spec, upstreams).filter((name) => !kept.includes(name));
    return added.flatMap((name) => upstreamVerdict(node, name, upstreams, lookups) ?? []);
  });
}

function upstreamVerdict(
  node: EdgeNode,
  name: string,
  { field, what, mode, accepts, code, reason }: Upstreams,
  lookups: NodeLookups,
): Verdict | undefined {
  const found = upstreamNode(name, lookups);
  const shown = JSON.stringify(name);
  if (!found)
    return { reason: 'NodeNotFound', status: 404, code, field, message: `${field}: there is no node ${shown}` };
  const wrong = (message: string): Verdict => ({ reason, status: 400, code, field, message: `${field}: ${message}` });
  if (node.metadata.uid !== undefined && found.metadata.uid === node.metadata.uid)
    return wrong(`${shown} is this node, which cannot connect to itself`);
  const is = String(settingShown(found, mode, lookups.bus !== undefined));
  if (accepts.includes(is)) return undefined;
  return wrong(`the ${what} of ${shown} is of mode ${is}; others connect to those of mode ${accepts.join(' or ')}`);
}

/** Whether verdicts on the nodes that name a node may depend on its change. */
export const concernsDownstream = (node: EdgeNode, before: EdgeNode): boolean => facts(node) !== facts(before);

const facts = (node: EdgeNode) =>
  JSON.stringify([
    node.metadata.uid,
    nodeUuid(node),
    v3Name(node),
    node.metadata.deletionTimestamp !== undefined,
    settingShown(node, 'routerMode', true),
    settingShown(node, 'busMode', true),
  ]);
