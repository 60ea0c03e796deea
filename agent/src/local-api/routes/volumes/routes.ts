import { z } from 'zod';
import type { VolumeClaim, VolumePruneReport } from '../../../domain/volume.ts';
import { LocalApiError } from '../../server/errors.ts';
import { optionalFlag, queryFlag } from '../../server/fields.ts';
import { routesWith } from '../../server/route.ts';

/** What the routes of volumes need of the agent. */
export interface VolumeDependencies {
  agent: {
    readonly volumes: {
      list(): Promise<VolumeClaim[]>;
      /** undefined where there is none */
      shared(name: string): Promise<VolumeClaim | undefined>;
      /** Returns the names of those that are destroyed. */
      destroyPrivate(uuid: string, name: string | undefined, force: boolean): Promise<string[]>;
      destroyShared(name: string, force: boolean): Promise<void>;
      prune(flags: Pick<VolumePruneReport, 'yes' | 'force' | 'dryRun'>): Promise<VolumePruneReport>;
    };
  };
}

const { route } = routesWith<VolumeDependencies>('volumes');

const FORCE = 'although its microservice is desired, or the desired state is not known; never while it is mounted';

/** The volumes of this machine, for its admin. */
export const VOLUME_ROUTES = [
  route({
    method: 'GET',
    path: '/v1/volumes',
    operation: 'listVolumes',
    summary: 'The volumes of this machine, and who wants them',
    access: 'admin',
    reply: { form: 'envelope', schema: () => z.object({ volumes: z.array(claimReply()), count: z.int() }) },
    handler: async ({ deps: { agent } }) => {
      const volumes = await agent.volumes.list();
      return { volumes, count: volumes.length };
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/volumes/{uuid}',
    operation: 'destroyVolume',
    summary: 'Destroys private volumes of a microservice with their data',
    access: 'admin',
    query: () =>
      z.object({ name: z.string().optional().describe('this one only; absent: all'), force: queryFlag(FORCE) }),
    errors: [404, 409, 503],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          status: z.literal('ok'),
          uuid: z.string(),
          scope: z.literal('private'),
          names: z.array(z.string()).describe('of the volumes that are destroyed'),
        }),
    },
    handler: async ({ params: { uuid }, query: { name, force }, deps: { agent } }) => {
      const names = await agent.volumes.destroyPrivate(uuid, name, force);
      return { status: 'ok', uuid, scope: 'private', names };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/volumes/shared/{name}',
    operation: 'getSharedVolume',
    summary: 'One shared volume, and who wants it',
    access: 'admin',
    errors: [404],
    reply: { form: 'bare', schema: claimReply },
    handler: async ({ params: { name }, deps: { agent } }) => {
      const claim = await agent.volumes.shared(name);
      if (!claim) throw new LocalApiError('NOT_FOUND', `there is no shared volume "${name.slice(0, 128)}" here`);
      return claim;
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/volumes/shared/{name}',
    operation: 'destroySharedVolume',
    summary: 'Destroys a shared volume with its data',
    access: 'admin',
    query: () =>
      z.object({
        force: queryFlag('although it is not known who has it; never while it is mounted or has a consumer'),
      }),
    errors: [404, 409, 503],
    reply: {
      form: 'envelope',
      schema: () => z.object({ status: z.literal('ok'), name: z.string(), scope: z.literal('shared') }),
    },
    handler: async ({ params: { name }, query: { force }, deps: { agent } }) => {
      await agent.volumes.destroyShared(name, force);
      return { status: 'ok', name, scope: 'shared' };
    },
  }),
  route({
    method: 'POST',
    path: '/v1/volumes:prune',
    operation: 'pruneVolumes',
    summary: 'Lists the volumes that nothing wants, or destroys them',
    access: 'admin',
    query: () => z.object(flags(optionalFlag)),
    body: () => z.object(flags((description) => z.boolean().optional().describe(description))),
    errors: [409, 503],
    reply: { form: 'envelope', schema: pruneReply },
    handler: ({ query, body, deps: { agent } }) => {
      const {
        orphans = true,
        yes = false,
        force = false,
        dryRun = !yes,
      } = { ...body, ...Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) };
      if (!orphans)
        throw new LocalApiError(
          'INVALID_ARGUMENT',
          'orphans "false" is not true: only what nothing wants can be pruned',
          {
            field: 'orphans',
          },
        );
      return agent.volumes.prune({ yes, force, dryRun });
    },
  }),
];

/** The flags of a prune, in the query and in the body; the query counts where both have one. */
function flags<T extends z.ZodType>(flag: (description: string) => T) {
  return {
    orphans: flag('what nothing wants: true, and nothing else can be'),
    yes: flag('destroy them; absent: false'),
    force: flag('those too that nothing has wanted for less than 24 h; absent: false'),
    dryRun: flag('destroy nothing; absent: true without `yes`'),
  };
}

function volume() {
  return {
    name: z.string(),
    scope: z.enum(['private', 'shared']),
    kind: z.enum(['workload', 'controlplane']),
    uuid: z.string().nullable().describe('of the microservice; null for a shared one'),
    hostPath: z.string(),
    unreferencedAt: z.string().optional().describe('since when nothing wants it, RFC 3339'),
  };
}

function claimReply() {
  const consumer = z.object({
    ...{ uuid: z.string(), application: z.string(), name: z.string() },
    source: z.enum(['managed', 'local']),
  });
  return z.object({
    ...volume(),
    consumers: z.array(consumer).describe('desired microservices that have it'),
    desired: z.boolean().describe('also while the desired state is not known'),
  });
}

/** A volume of the report of a prune. */
export const prunedVolume = () => z.object({ ...volume(), reason: z.string().optional().describe('why it stays') });

function pruneReply() {
  return z.object({
    status: z.enum(['ok', 'partial']).describe('partial: a candidate could not be destroyed'),
    orphans: z.literal(true),
    yes: z.boolean(),
    force: z.boolean(),
    dryRun: z.boolean(),
    candidates: z.array(prunedVolume()).describe('what this prune destroys, or would destroy'),
    deleted: z.array(prunedVolume()),
    skipped: z.array(prunedVolume()).describe('what nothing wants and stays all the same'),
  });
}
