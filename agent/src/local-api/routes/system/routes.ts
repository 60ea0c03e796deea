import { z } from 'zod';
import { AGENT_GROUP } from '../../../../../src/api/names.ts';
import { BUILD } from '../../../domain/build.ts';
import { AGENT_VERSION } from '../../../domain/names.ts';
import type { VolumePruneReport } from '../../../domain/volume.ts';
import { DOCKER_API_KINDS, ENGINE_KINDS } from '../../../engine-port/facts.ts';
import type { OtherAgentContainer } from '../../../engine-port/ownership.ts';
import { errorText } from '../../../machine/log.ts';
import type { Node } from '../../../state/identity.ts';
import type { Claims } from '../../../state/token.ts';
import { choice, queryFlag } from '../../server/fields.ts';
import { routesWith } from '../../server/route.ts';
import { prunedVolume } from '../volumes/routes.ts';
import { PRUNE_MODES, type PrunableAgent, pruneReply, pruneReport } from './prune-report.ts';
import {
  type DescribedAgent,
  daemonInfo,
  daemonStatus,
  infoReply,
  type NamingAgent,
  nameOf,
  statusReply,
} from './shapes.ts';

/** What the routes of the agent itself need of it. */
export interface SystemDependencies {
  agent: SystemAgent & DescribedAgent & NamingAgent & PrunableAgent;
  reload(): void;
  /** Ends the agent, and its containers before where its settings say so; returns what becomes of them. */
  stop(): 'leave-running' | 'drain-all';
}

interface SystemAgent {
  provision(text: string, signal?: AbortSignal): Promise<Node>;
  deprovision(scope: 'all' | 'local'): Promise<{ controllerTold?: boolean }>;
  /** Resolves when no container of the agent is left, or when the removal is stuck; returns the containers that are left. */
  cleared(signal: AbortSignal): Promise<string[]>;
  readonly volumes: {
    /** Destroys the volumes of workloads that nothing wants. */
    purge(): Promise<Pick<VolumePruneReport, 'status' | 'deleted' | 'skipped'>>;
  };
  orphans(signal?: AbortSignal): Promise<OtherAgentContainer[]>;
  removeOrphans(names: readonly string[], signal?: AbortSignal): Promise<OtherAgentContainer[]>;
  /** Stops all containers within so many ms; they stay stopped until the agent starts again. */
  drain(milliseconds: number): Promise<{ stopped: string[]; remaining: string[] }>;
}

const { route } = routesWith<SystemDependencies>('agent');

/** The agent itself, for its admin. Longer than a hundred lines: a table, one value per route. */
export const SYSTEM_ROUTES = [
  route({
    method: 'GET',
    path: '/v1/system/status',
    operation: 'getStatus',
    summary: 'The status of the agent',
    access: 'admin',
    reply: { form: 'bare', schema: statusReply },
    handler: ({ deps: { agent } }) => daemonStatus(agent),
  }),
  route({
    method: 'GET',
    path: '/v1/system/info',
    operation: 'getInfo',
    summary: 'The identity of the agent and the settings in force',
    access: 'admin',
    reply: { form: 'envelope', schema: infoReply },
    handler: ({ deps: { agent } }) => daemonInfo(agent),
  }),
  route({
    method: 'GET',
    path: '/v1/system/version',
    operation: 'getVersion',
    summary: 'The version of the agent, and the engines that it supports',
    access: 'admin',
    reply: {
      form: 'bare',
      schema: () =>
        z.object({
          version: z.string(),
          buildTime: z.string(),
          gitCommit: z.string(),
          allowedContainerEngine: z.string(),
          allowedEngines: z.array(z.string()).readonly(),
        }),
    },
    handler: ({ deps: { agent } }) => ({
      version: AGENT_VERSION,
      ...BUILD,
      allowedContainerEngine: agent.config.containerEngine ?? DOCKER_API_KINDS[0],
      allowedEngines: ENGINE_KINDS,
    }),
  }),
  route({
    method: 'POST',
    path: '/v1/system/provision',
    operation: 'provision',
    summary: 'Joins a controller',
    access: 'admin',
    body: () => {
      const key = 'a join string or a provisioning key';
      return z.object({ provisioningKey: z.string(key).min(1, key).describe(key) });
    },
    errors: [409, 503],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          status: z.literal('ok'),
          agentUuid: z.string(),
          name: z.string().optional(),
          controllerUrl: z.string(),
        }),
    },
    handler: async ({ body: { provisioningKey }, signal, deps: { agent } }) => {
      const node = await agent.provision(provisioningKey, signal);
      return { status: 'ok', agentUuid: node.uuid, name: node.name, controllerUrl: node.controllerUrl };
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/system/provision',
    operation: 'deprovision',
    summary: 'Leaves the controller',
    access: 'admin',
    query: () =>
      z.object({
        scope: choice(['all', 'local'], 'all', 'all: containers are removed; local: they continue to run'),
        purgeVolumes: queryFlag('then destroys the volumes of workloads that nothing wants any more'),
      }),
    errors: [409, 503],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          status: z.literal('ok'),
          controllerTold: z.boolean().optional(),
          remaining: z.array(z.string()).describe('microservices whose containers are not removed yet'),
          purge: z
            .object({
              status: z.enum(['ok', 'partial', 'failed']),
              deleted: z.array(prunedVolume()),
              skipped: z.array(prunedVolume()),
              message: z.string().optional().describe('why nothing was purged'),
            })
            .optional()
            .describe('with purgeVolumes'),
        }),
    },
    handler: async ({ query: { scope, purgeVolumes }, signal, deps: { agent } }) => {
      const { controllerTold } = await agent.deprovision(scope);
      // Done is what is done: with the answer the machine is clear, or the answer says what is left.
      const remaining = scope === 'all' ? await agent.cleared(signal) : [];
      const purge = purgeVolumes ? await purgeReport(agent) : undefined;
      return {
        status: 'ok',
        controllerTold,
        remaining: remaining.map((id) => nameOf(agent, id)),
        ...(purge && { purge }),
      };
    },
  }),
  route({
    method: 'POST',
    path: '/v1/system/reload',
    operation: 'reload',
    summary: 'Reads the settings and the policy again',
    access: 'admin',
    errors: [409],
    reply: { form: 'envelope', schema: doneReply },
    handler: ({ deps: { reload } }) => {
      reload();
      return { status: 'ok' };
    },
  }),
  route({
    method: 'POST',
    path: '/v1/system/stop',
    operation: 'stop',
    summary: 'Ends the agent, and its containers before where shutdownPolicy says so',
    access: 'admin',
    reply: {
      form: 'envelope',
      schema: () => doneReply().extend({ shutdownPolicy: z.enum(['leave-running', 'drain-all']) }),
    },
    handler: ({ deps: { stop } }) => ({ status: 'ok', shutdownPolicy: stop() }),
  }),
  route({
    method: 'POST',
    path: '/v1/system/drain',
    operation: 'drain',
    summary: 'Stops all containers, in the reverse order of their schedule, until the agent starts again',
    access: 'admin',
    body: () => {
      const seconds = 'a whole number of seconds from 5 to 600';
      return z.object({ timeoutSeconds: z.number(seconds).int(seconds).min(5, seconds).max(600, seconds).optional() });
    },
    errors: [409, 503],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          status: z.enum(['ok', 'partial']).describe('partial: the time was over before all had stopped'),
          stopped: z.array(z.string()),
          remaining: z.array(z.string()).describe('microservices whose containers still run'),
        }),
    },
    handler: async ({ body: { timeoutSeconds }, deps: { agent } }) => {
      const { shutdownGracePeriodSeconds } = agent.config;
      const { stopped, remaining } = await agent.drain((timeoutSeconds ?? shutdownGracePeriodSeconds) * 1000);
      const names = (uuids: readonly string[]) => uuids.map((uuid) => nameOf(agent, uuid));
      return { status: remaining.length > 0 ? 'partial' : 'ok', stopped: names(stopped), remaining: names(remaining) };
    },
  }),
  route({
    method: 'POST',
    path: '/v1/system/prune',
    operation: 'prune',
    summary: 'Removes what nothing uses',
    access: 'admin',
    query: () => z.object({ mode: choice(PRUNE_MODES, 'dangling', 'which things') }),
    errors: [503],
    reply: { form: 'envelope', schema: pruneReply },
    handler: ({ query: { mode }, deps: { agent } }) => pruneReport(mode, agent),
  }),
  route({
    method: 'GET',
    path: '/v1/system/orphans',
    operation: 'listOrphans',
    summary: 'Containers of agents that no longer exist',
    access: 'admin',
    reply: { form: 'bare', schema: () => z.object({ items: z.array(orphan()) }) },
    handler: async ({ signal, deps: { agent } }) => ({ items: await agent.orphans(signal) }),
  }),
  route({
    method: 'DELETE',
    path: '/v1/system/orphans',
    operation: 'removeOrphans',
    summary: 'Removes containers of agents that no longer exist',
    access: 'admin',
    query: () => z.object({ name: z.array(z.string()).default([]).describe('these only; absent: all') }),
    reply: { form: 'envelope', schema: () => z.object({ status: z.literal('ok'), removed: z.array(orphan()) }) },
    handler: async ({ query: { name }, signal, deps: { agent } }) => ({
      status: 'ok',
      removed: await agent.removeOrphans(name, signal),
    }),
  }),
  route({
    method: 'GET',
    path: '/v1/auth/whoami',
    operation: 'whoAmI',
    summary: 'What the token of the caller says',
    access: { resource: 'auth/whoami', verb: 'get' },
    reply: {
      form: 'bare',
      schema: () =>
        z.object({
          subject: z.string(),
          tokenType: z.literal('Bearer'),
          tokenUse: z.string().optional(),
          issuer: z.string().optional(),
          audience: z.array(z.string()),
          jti: z.string().optional(),
          expiresAt: z.string(),
          claims: z.record(z.string(), z.unknown()),
        }),
    },
    // Only open routes have callers without a token.
    handler: ({ caller: { claims } }) => tokenIdentity(claims as Claims),
  }),
];

/** The machine has left its controller whatever becomes of the volumes. */
async function purgeReport({ volumes }: SystemAgent) {
  try {
    return await volumes.purge();
  } catch (error) {
    return { status: 'failed' as const, deleted: [], skipped: [], message: errorText(error) };
  }
}

function doneReply() {
  return z.object({ status: z.literal('ok') });
}

function orphan() {
  const text = z.string();
  return z.object({
    ...{ id: text, name: text, instance: text, nodeUuid: text, application: text, microservice: text },
    running: z.boolean(),
    ports: z
      .array(z.object({ external: z.int(), protocol: text }))
      .optional()
      .readonly(),
  });
}

/** What a caller may know of its own token. */
function tokenIdentity({ sub, iss, aud, exp, jti, tokenUse, ...claims }: Claims) {
  const own = (claims as { [AGENT_GROUP]?: unknown })[AGENT_GROUP];
  return {
    subject: sub,
    tokenType: 'Bearer' as const,
    tokenUse,
    issuer: iss,
    audience: aud,
    jti,
    expiresAt: new Date(exp * 1000).toISOString(),
    claims: own === undefined ? {} : { [AGENT_GROUP]: own },
  };
}
