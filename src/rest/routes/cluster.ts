import { z } from 'zod';
import { BOUNDS } from '../../api/bounds.ts';
import { replyShape as reply } from '../../kinds/rest.ts';
import type { Replica } from '../../rules/replica.ts';
import { notFound } from '../contract/errors.ts';
import { grouped, route } from '../contract/route.ts';
import * as shapes from '../crud/shapes.ts';

const resource = 'cluster';
const replicaShape = reply(
  {
    uuid: z.string(),
    host: z.string(),
    processId: z.number().int(),
    lastHeartbeat: z.string(),
    isActive: z.boolean(),
    createdAt: z.string(),
    updatedAt: z.string(),
    version: z.string().optional().describe('Of the controller.'),
    agentRelease: z.string().optional().describe('Latest release of the agent that it has for machines.'),
  },
  'Replica',
);
const path = '/cluster/controllers/{uuid}';

const shown = (replica: Replica): Record<string, unknown> => ({ ...replica });
const missing = (uuid: string) => notFound('CLUSTER_CONTROLLER_NOT_FOUND', `there is no replica with the uuid ${uuid}`);

export const clusterRoutes = grouped('Cluster', [
  route({
    method: 'GET',
    path: '/cluster/controllers',
    operation: 'listReplicas',
    summary: 'The replicas of this controller',
    access: { resource, verb: 'list' },
    query: z.strictObject({
      includeInactive: z.enum(['true', 'false']).default('false').describe('also those that no longer run'),
    }),
    reply: { status: 200, schema: z.array(replicaShape) },
    async handler({ deps, query, signal }) {
      const replicas = await deps.replicas.list(signal);
      return replicas
        .filter(({ isActive }) => isActive || query.includeInactive === 'true')
        .toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1))
        .map(shown);
    },
  }),
  route({
    method: 'GET',
    path,
    operation: 'getReplica',
    summary: 'One replica',
    access: { resource, verb: 'get', name: 'uuid' },
    params: shapes.uuidParam,
    reply: { status: 200, schema: replicaShape },
    async handler({ deps, params, signal }) {
      const replica = await deps.replicas.find(params.uuid, signal);
      if (!replica) throw missing(params.uuid);
      return shown(replica);
    },
  }),
  route({
    method: 'PATCH',
    path,
    operation: 'updateReplica',
    summary: 'Change the host that is shown for a replica',
    access: { resource, verb: 'patch', name: 'uuid' },
    params: shapes.uuidParam,
    body: { kind: 'json', schema: z.strictObject({ host: z.string().min(1).max(BOUNDS.name) }) },
    reply: { status: 200, schema: replicaShape },
    errors: [404],
    async handler({ deps, params, body, signal }) {
      const replica = await deps.replicas.setHost(params.uuid, body.host, signal);
      if (!replica) throw missing(params.uuid);
      return shown(replica);
    },
  }),
  route({
    method: 'DELETE',
    path,
    operation: 'deleteReplica',
    summary: 'Mark a replica inactive',
    description:
      'It stays in the list of inactive replicas. One that still runs is active again after its next heartbeat.',
    access: { resource, verb: 'delete', name: 'uuid' },
    params: shapes.uuidParam,
    reply: { status: 204 },
    errors: [404],
    async handler({ deps, params, signal }) {
      if (!(await deps.replicas.deactivate(params.uuid, signal))) throw missing(params.uuid);
    },
  }),
]);
