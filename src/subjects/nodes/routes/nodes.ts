import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { API_VERSION } from '../../../api/names.ts';
import { edgeNodeResource } from '../../../api/v3/index.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { badRequest, forbidden } from '../../../rest/contract/errors.ts';
import { grouped, route } from '../../../rest/contract/route.ts';
import * as shapes from '../../../rest/crud/shapes.ts';
import { createNamed, deleteObject, isPresent, MACHINES } from '../../../rest/objects/deletion.ts';
import { edit, withChanges } from '../../../rest/objects/edit.ts';
import { listReply } from '../../../rest/objects/list-reply.ts';
import { accessByKey, presentObject } from '../../../rest/objects/lookup.ts';
import { liveNodes, presentNodes } from '../../../rest/objects/present.ts';
import { verdictError } from '../../../rules/errors.ts';
import { identityLabels, nodeUuid } from '../../../rules/identity.ts';
import { objectName, v3Name } from '../../../rules/names.ts';
import { KINDS } from '../../kinds.ts';
import { requestAction } from '../rules/actions.ts';
import { nodeFromBody, patchNode } from '../rules/body.ts';
import { newlyNotActing, storedWithoutEffect } from '../rules/not-acting.ts';
import { type LiveNode, matches, nodeRead, readFilters } from '../rules/read.ts';
import { settingShown } from '../rules/settings.ts';
import { notReadyToUpgrade } from '../rules/update.ts';
import { upstreamNode, upstreamVerdicts } from '../rules/upstreams.ts';

const byUuid = accessByKey(KINDS.nodes);
const nodeByUuid = (deps: RestDependencies, uuid: string, signal: AbortSignal) =>
  presentObject(deps, KINDS.nodes, uuid, signal);
const KEY_LIFETIME_MS = 20 * 60_000;

const versionBody = z.object({
  semver: z
    .string()
    .max(64)
    .regex(/^v?\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$/, 'must be a semantic version')
    .optional(),
});

const what = (node: Parameters<typeof v3Name>[0]) => `the node ${v3Name(node)}`;

const isBusOnIn = ({ lookups }: Pick<RestDependencies, 'lookups'>): boolean => lookups.bus !== undefined;

function withoutEffect({ lookups, self }: Pick<RestDependencies, 'lookups' | 'self'>, after: Node, before?: Node) {
  const acting = { hasBus: isBusOnIn({ lookups }), hasRouter: self.hasRouters === true };
  return [storedWithoutEffect(newlyNotActing(after, acting, before)) ?? []].flat();
}

/**
 * Refuses routers and bus servers that a node newly names and cannot connect to. The store may lack a node that another replica
 * has just created.
 */
async function requireUpstreams(
  { nodes, lookups }: RestDependencies,
  after: Node,
  before: Node | undefined,
  signal: AbortSignal,
): Promise<void> {
  const judge = () => upstreamVerdicts(after, lookups, before);
  if (judge().some(({ reason }) => reason === 'NodeNotFound')) await nodes.refresh(signal);
  const [first] = judge();
  if (first) throw verdictError(first);
}

/** A router that others connect to stays one that accepts connections: 400 with the nodes that name it. */
function requireNoDownstream({ nodes, lookups }: RestDependencies, after: Node, before: Node): void {
  if (settingShown(before, 'routerMode', false) !== 'interior' || settingShown(after, 'routerMode', false) !== 'edge')
    return;
  const named = [nodeUuid(before), v3Name(before)].flatMap((name) => nodes.find('upstream', name));
  const downstream = new Set(
    named.filter(
      (one) =>
        isPresent(one) &&
        one.spec.upstreamRouters?.some((name) => upstreamNode(name, lookups)?.metadata.uid === before.metadata.uid),
    ),
  );
  if (downstream.size > 0)
    throw badRequest(
      `routerMode: must be interior while others connect to this router: ${[...downstream].map(v3Name).sort().join(', ')}`,
      'EDGE_ROUTER_HAS_DOWNSTREAM',
    );
}

/** Further members of nodes in reads, which later subjects know: of one node, and of nodes in a list. */
export interface MembersOfNodes {
  one(deps: RestDependencies, node: Node): Pick<LiveNode, 'volumeMounts'>;
  /** called once for a list */
  each(deps: RestDependencies): (node: Node) => Pick<LiveNode, 'volumeMounts'>;
}

export const nodeRoutes = (membersOf: MembersOfNodes) =>
  grouped('Nodes', [
    route({
      method: 'GET',
      path: '/node-list',
      operation: 'listNodes',
      summary: 'All nodes, or those that pass all filters',
      description:
        'Filters come as a JSON array in the body, or as query parameters `filters[0][key]`, `filters[0][value]` and `filters[0][condition]`. A condition is `equals` or `has`.',
      access: { resource: 'edgenodes', verb: 'list' },
      query: z.record(z.string(), z.unknown()),
      body: { kind: 'json', schema: z.unknown(), documents: shapes.filtersBody, optional: true },
      reply: { status: 200, schema: shapes.nodeList },
      async handler({ deps, query, body, signal }) {
        const filters = [...readFilters(body ?? []), ...readFilters(filtersOfQuery(query))];
        const nodes = deps.nodes.list().filter(isPresent);
        const live = await liveNodes(deps, nodes, signal);
        const isBusOn = isBusOnIn(deps);
        const members = membersOf.each(deps);
        return listReply('fogs', nodes, (node) => {
          const read = nodeRead(node, { ...live(node), ...members(node) }, { isBusOn, platformStatus: false });
          return matches(read, filters) ? [read] : [];
        });
      },
    }),
    route({
      method: 'POST',
      path: '/node',
      operation: 'createNode',
      summary: 'Create a node',
      access: { resource: 'edgenodes', verb: 'create' },
      body: shapes.objectBody({ documents: shapes.nodeCreateBody, shows: shapes.nodeShape }),
      reply: { status: 201, schema: shapes.nodeCreated },
      errors: [400, 404, 409],
      async handler({ deps, caller, body, signal, warnings }) {
        const { name, spec } = nodeFromBody(body, deps.self.controlPlane);
        if (spec.isSystem && !(await caller.may({ resource: 'edgenodes/system', verb: 'create' })))
          throw forbidden(
            'isSystem: only who may create edgenodes/system, such as an admin, creates a node of the system',
          );
        const uuid = spec.uuid ?? randomUUID();
        const object = objectName(name);
        const node = {
          apiVersion: API_VERSION,
          kind: edgeNodeResource.kind,
          metadata: { name: object, labels: identityLabels({ uuid }) },
          spec: { ...spec, ...(object !== name && { name }) },
        };
        const make = async () => {
          await requireUpstreams(deps, node, undefined, signal);
          return node;
        };
        await createNamed(deps.nodes, { kind: 'node', name, waitsFor: MACHINES }, make, signal);
        warnings.push(...withoutEffect(deps, node));
        return { id: uuid, uuid };
      },
    }),
    route({
      method: 'GET',
      path: '/node/{uuid}',
      operation: 'getNode',
      summary: 'One node',
      access: { resource: 'edgenodes', verb: 'get', ...byUuid },
      params: shapes.uuidParam,
      reply: { status: 200, schema: shapes.nodeShape },
      async handler({ deps, params, signal }) {
        const node = await nodeByUuid(deps, params.uuid, signal);
        const live = await liveNodes(deps, [node], signal);
        return nodeRead(node, { ...live(node), ...membersOf.one(deps, node) }, { isBusOn: isBusOnIn(deps) });
      },
    }),
    route({
      method: 'PATCH',
      path: '/node/{uuid}',
      operation: 'updateNode',
      summary: 'Change settings of a node',
      access: { resource: 'edgenodes', verb: 'patch', ...byUuid },
      params: shapes.uuidParam,
      body: shapes.objectBody({ documents: shapes.nodeBody, shows: shapes.nodeShape }),
      reply: { status: 204 },
      async handler({ deps, params, body, signal, warnings }) {
        let ignored: string[] = [];
        await editNode(deps, params.uuid, signal, async (node) => {
          const patched = withChanges(node, { spec: patchNode(node, body, isBusOnIn(deps)) });
          requireNoDownstream(deps, patched, node);
          await requireUpstreams(deps, patched, node, signal);
          ignored = withoutEffect(deps, patched, node);
          return patched;
        });
        warnings.push(...ignored);
      },
    }),
    route({
      method: 'DELETE',
      path: '/node/{uuid}',
      operation: 'deleteNode',
      summary: 'Delete a node',
      description:
        'Answers once it is gone, after 3 s at the latest; from then on no read shows it. Applications keep their entries. A live node ends its containers before it gives up its identity.',
      access: { resource: 'edgenodes', verb: 'delete', ...byUuid },
      params: shapes.uuidParam,
      reply: { status: 202 },
      async handler({ deps, params, signal }) {
        await deleteObject(deps.nodes, await nodeByUuid(deps, params.uuid, signal), signal);
      },
    }),
    route({
      method: 'POST',
      path: '/node/{uuid}/reconcile',
      operation: 'reconcileNode',
      summary: 'Run the platform reconcile of a node once more',
      access: { resource: 'edgenodes/reconcile', verb: 'create', ...byUuid },
      params: shapes.uuidParam,
      reply: { status: 200, schema: shapes.uuidReply },
      async handler({ deps, params, signal }) {
        await editNode(deps, params.uuid, signal, async (node) =>
          withChanges(node, { annotations: requestAction(await shown(deps, node, signal), 'reconcile') }),
        );
        return { uuid: params.uuid };
      },
    }),
    ...(['reboot', 'prune'] as const).map((action) =>
      route({
        method: 'POST',
        path: `/node/{uuid}/${action}`,
        operation: `${action}Node`,
        summary:
          action === 'reboot'
            ? 'Restart the agent of a node; its containers run on'
            : 'Remove what the agent of a node no longer needs',
        access: { resource: 'edgenodes/command', verb: 'create', ...byUuid },
        params: shapes.uuidParam,
        reply: { status: 204 },
        async handler({ deps, params, signal }) {
          await editNode(deps, params.uuid, signal, async (node) =>
            withChanges(node, { annotations: requestAction(await shown(deps, node, signal), action) }),
          );
        },
      }),
    ),
    route({
      method: 'POST',
      path: '/node/{uuid}/version/{versionCommand}',
      operation: 'changeNodeVersion',
      summary: 'Let the agent of a node change to another version, or back',
      access: { resource: 'edgenodes/command', verb: 'create', ...byUuid },
      params: shapes.uuidParam.extend({ versionCommand: z.enum(['upgrade', 'rollback']) }),
      body: { kind: 'json', schema: versionBody, optional: true },
      reply: { status: 204 },
      async handler({ deps, params, body, signal }) {
        const { uuid, versionCommand: command } = params;
        await editNode(deps, uuid, signal, async (node) => {
          const present = await shown(deps, node, signal);
          const reason = notReady(present, command, deps.self.releasesUrl);
          if (reason)
            throw badRequest(
              `${what(node)} is not ready to ${command}: ${reason}`,
              command === 'upgrade' ? 'INVALID_VERSION_COMMAND_UPGRADE' : 'INVALID_VERSION_COMMAND_ROLLBACK',
            );
          const semver = body?.semver;
          return withChanges(node, {
            annotations: requestAction(present, 'version', { command, ...(semver && { semver }) }),
          });
        });
      },
    }),
    route({
      method: 'GET',
      path: '/node/{uuid}/provisioning-key',
      operation: 'createProvisioningKey',
      summary: 'Make a key with which an agent takes the identity of this node',
      description: 'Valid for 20 minutes, for one agent. It replaces the key before it.',
      access: { resource: 'edgenodes/provisioning-key', verb: 'create', ...byUuid },
      params: shapes.uuidParam,
      reply: { status: 201, schema: shapes.provisioningKey },
      errors: [404, 409],
      async handler({ deps, params, signal }) {
        const node = await nodeByUuid(deps, params.uuid, signal);
        const key = randomUUID();
        const expiresAt = deps.clock() + KEY_LIFETIME_MS;
        await deps.provisioningKeys.issue(node, { key, expiresAt }, signal);
        return { key, expirationTime: expiresAt, caCert: deps.self.caCert() };
      },
    }),
  ]);

type Node = Awaited<ReturnType<typeof nodeByUuid>>;

const WITHOUT_AGENT: ReadonlySet<string> = new Set(['NOT_PROVISIONED', 'DEPROVISIONED']);

/** Why a node cannot change its version now; undefined when it can. */
function notReady(
  { status }: Node,
  command: 'upgrade' | 'rollback',
  releasesUrl: string | undefined,
): string | undefined {
  const isReady = command === 'upgrade' ? status?.isReadyToUpgrade : status?.isReadyToRollback;
  if (!isReady && WITHOUT_AGENT.has(status?.daemonStatus ?? '')) return 'no agent has taken its identity';
  if (!isReady && command === 'upgrade') return notReadyToUpgrade(status);
  if (!isReady) return 'its agent has no former release';
  // Third-party agents know themselves where their releases are.
  if (command === 'upgrade' && status?.agent && !releasesUrl)
    return 'the controller has no place of releases (SKERRY_RELEASES_URL)';
  return undefined;
}

/** A node as a read shows it, by which rules judge. */
const shown = async (deps: RestDependencies, node: Node, signal: AbortSignal): Promise<Node> =>
  (await presentNodes(deps, [node], signal))(node);

/** Edits a node; the routes of actions use it. */
function editNode(
  deps: RestDependencies,
  uuid: string,
  signal: AbortSignal,
  change: (node: Node) => Node | Promise<Node>,
): Promise<Node> {
  return edit(deps.nodes, () => nodeByUuid(deps, uuid, signal), change, signal);
}

/** `filters[0][key]=name&filters[0][value]=a`, as filters of a body. */
function filtersOfQuery(query: Record<string, unknown>): Record<string, string>[] {
  const filters = new Map<string, Record<string, string>>();
  for (const [name, value] of Object.entries(query)) {
    const [, index, field] = /^filters\[(\d{1,3})\]\[(key|value|condition)\]$/.exec(name) ?? [];
    if (index === undefined || field === undefined || typeof value !== 'string') continue;
    filters.set(index, { ...filters.get(index), [field]: value });
  }
  return [...filters.values()];
}
