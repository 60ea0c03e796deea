import { z } from 'zod';
import { ANNOTATIONS } from '../../../api/names.ts';
import { replyShape } from '../../../kinds/rest.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { badRequest, notFound } from '../../../rest/contract/errors.ts';
import { grouped, route } from '../../../rest/contract/route.ts';
import { uuidParam } from '../../../rest/crud/shapes.ts';
import { edit, withChanges } from '../../../rest/objects/edit.ts';
import { accessByKey, presentObject } from '../../../rest/objects/lookup.ts';
import { v3Name } from '../../../rules/names.ts';
import { NO_TUNNEL_SERVER } from '../../../rules/tunnel.ts';
import { KINDS } from '../../kinds.ts';
import { TUNNEL_ACTIONS, type TunnelAction, tunnelRead } from '../rules/tunnel.ts';

const byUuid = accessByKey(KINDS.nodes);
const nodeByUuid = (deps: RestDependencies, uuid: string, signal: AbortSignal) =>
  presentObject(deps, KINDS.nodes, uuid, signal);
type Node = Awaited<ReturnType<typeof nodeByUuid>>;

const port = z.number().int();
const tunnelShape = replyShape(
  {
    username: z.string(),
    host: z.string().describe('ssh server that the machine connects to'),
    remotePort: port.describe('port of the ssh server that leads to the machine; 0 until the controller has given one'),
    localPort: port.describe('port of the machine'),
    status: z
      .enum(['open', 'closed'])
      .describe('what was asked for; `tunnelStatus` of the node says what the machine has'),
  },
  'NodeTunnel',
);

function actionOf(body: unknown): TunnelAction {
  const { action } = (body ?? {}) as { action?: unknown };
  const found = TUNNEL_ACTIONS.find((each) => each === action);
  if (found) return found;
  const given = action === undefined ? 'is required' : `${JSON.stringify(action).slice(0, 64)}; must be open or close`;
  throw badRequest(`action: ${given}`, 'INVALID_ACTION_PROPERTY');
}

function tunnelOf({ lookups }: RestDependencies, node: Node): Record<string, unknown> {
  const read = tunnelRead(node, lookups.tunnels?.settings);
  if (!read) throw notFound('TUNNEL_NOT_FOUND', `the node ${v3Name(node)} has no tunnel`);
  return read;
}

/** Why no tunnel can be opened in this installation. */
function requireServer({ lookups: { tunnels } }: RestDependencies): void {
  const found = tunnels?.server() ?? { problem: NO_TUNNEL_SERVER };
  if ('problem' in found) throw badRequest(found.problem, 'TUNNEL_NOT_CONFIGURED');
}

export const tunnelRoutes = grouped('Nodes', [
  route({
    method: 'GET',
    path: '/node/{uuid}/tunnel',
    operation: 'getNodeTunnel',
    summary: 'The tunnel of a node: a port of an ssh server that leads to a port of the machine',
    access: { resource: 'edgenodes/tunnel', verb: 'get', ...byUuid },
    params: uuidParam,
    reply: { status: 200, schema: tunnelShape },
    async handler({ deps, params, signal }) {
      return tunnelOf(deps, await nodeByUuid(deps, params.uuid, signal));
    },
  }),
  route({
    method: 'PATCH',
    path: '/node/{uuid}/tunnel',
    operation: 'changeNodeTunnel',
    summary: 'Open or close the tunnel of a node',
    description:
      'Answers before the machine has done so. `open` needs an ssh server, which the settings of the controller name; `close` of a node that never had a tunnel is 404.',
    access: { resource: 'edgenodes/tunnel', verb: 'patch', ...byUuid },
    params: uuidParam,
    body: { kind: 'json', schema: z.unknown(), documents: z.object({ action: z.enum(TUNNEL_ACTIONS) }) },
    reply: { status: 204 },
    errors: [400, 404, 409],
    async handler({ deps, params, body, signal }) {
      const action = actionOf(body);
      const change = (node: Node) => {
        if (action === 'open') requireServer(deps);
        else tunnelOf(deps, node);
        return withChanges(node, { annotations: { [ANNOTATIONS.tunnel]: action } });
      };
      await edit(deps.nodes, () => nodeByUuid(deps, params.uuid, signal), change, signal);
    },
  }),
]);
