import { z } from 'zod';
import { notSaved } from '../../../domain/agent-error.ts';
import { queryFlag } from '../../server/fields.ts';
import { routesWith } from '../../server/route.ts';
import { type ControlPlaneAgent, requireNoApply } from '../deploy/control-plane.ts';

export interface ControlPlaneDependencies {
  agent: ControlPlaneAgent;
}

const { route } = routesWith<ControlPlaneDependencies>('system');

/** A removal is waited for so long, ms; the agent continues after it. */
const REMOVAL_WAIT = 60_000;

/** Two paths: the second is an alias, without a removal. */
const STATUS_PATHS = [
  { path: '/v1/system/controlplane', operation: 'getControlPlane', summary: 'The control plane of this machine' },
  { path: '/v1/system/controller', operation: 'getController', summary: 'The same by another path' },
] as const;

/** The control plane of the machine, once it is deployed. */
export const CONTROL_PLANE_ROUTES = [
  ...STATUS_PATHS.map((names) =>
    route({
      method: 'GET',
      ...names,
      access: 'admin',
      errors: [404],
      reply: { form: 'bare', schema: statusReply },
      handler: ({ deps: { agent } }) => statusOf(agent),
    }),
  ),
  route({
    method: 'GET',
    path: '/v1/system/controlplane/manifest',
    operation: 'getControlPlaneManifest',
    summary: 'Its manifest, without what is secret',
    access: 'admin',
    errors: [404],
    reply: { form: 'bare', schema: () => z.object({ manifestYaml: z.string(), masked: z.literal(true) }) },
    handler: async ({ deps: { agent } }) => {
      const { manifest = '' } = agent.controlPlane.get();
      // Most agents never show one.
      const { maskedControlPlaneManifest } = await import('../../../local/control-plane-manifest.ts');
      return { manifestYaml: manifest && maskedControlPlaneManifest(manifest), masked: true as const };
    },
  }),
  route({
    method: 'POST',
    path: '/v1/system/controlplane/restart',
    operation: 'restartControlPlane',
    summary: 'Starts its container again; with `pull` it is made again from its image, which is pulled before',
    access: 'admin',
    query: () => z.object({ pull: queryFlag('make the container again from the image, which is pulled before') }),
    errors: [404, 409, 503],
    reply: {
      form: 'bare',
      schema: () => statusReply().extend({ status: z.literal('ok'), message: z.string().optional() }),
    },
    handler: ({ query: { pull }, deps: { agent } }) => {
      const { uuid } = agent.controlPlane.get();
      requireNoApply(agent);
      if (pull) agent.controlPlane.recreate();
      const unsaved = pull ? undefined : agent.supervisor.local.restart(uuid);
      if (unsaved !== undefined) throw notSaved('the restart is lost when the agent ends', unsaved);
      const isHere = pull && !agent.controlPlane.isPulled;
      const message =
        isHere && 'nothing is pulled from the cache of this machine: it is made again from the image that is here';
      return { ...statusOf(agent), status: 'ok' as const, ...(message && { message }) };
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/system/controlplane',
    operation: 'deleteControlPlane',
    summary: 'Removes it with its container and its volumes, for good',
    access: 'admin',
    errors: [403, 404, 409, 503],
    reply: { form: 'envelope', schema: () => z.object({ status: z.literal('ok'), warning: z.string().optional() }) },
    handler: async ({ signal, deps: { agent } }) => {
      const { uuid } = agent.controlPlane.get();
      requireNoApply(agent);
      agent.controlPlane.remove();
      const isGone = await agent.supervisor.until(() => !agent.own.rows.has(uuid), REMOVAL_WAIT, signal);
      const warning = 'its container or its volumes are not removed yet; the agent goes on trying';
      return { status: 'ok' as const, ...(!isGone && { warning }) };
    },
  }),
];

/** Required of it are the members that a control plane always has (docs/spec/agent-local-api.md#control-plane-of-the-machine). */
function statusOf(agent: ControlPlaneAgent) {
  const { controlPlane } = agent;
  const row = controlPlane.get();
  const status = agent.microservices()?.find(({ id }) => id === row.uuid);
  const state = (status?.status ?? 'UNKNOWN').toLowerCase();
  const { name = '', namespace = '' } = row.controlPlane ?? {};
  const isObserved = row.view !== undefined && status?.revision === row.view.revision;
  return {
    ...{ controllerUuid: row.uuid, namespace, name, image: row.view?.imageId, containerId: status?.containerId },
    ...{ state, desiredState: row.desiredState, runtimeState: state, health: status?.healthStatus },
    ...{ lastError: status?.errorMessage || status?.lastError, restartCount: status?.restartCount ?? 0 },
    ...{ source: 'controlplane' as const, type: 'controlplane' as const, generation: row.generation },
    ...(isObserved && { observedGeneration: row.generation }),
    lastTransitionAt: controlPlane.lastTransitionAt,
  };
}

function statusReply() {
  return z.object({
    ...{ controllerUuid: z.string(), namespace: z.string(), name: z.string() },
    ...{ image: z.string().optional(), containerId: z.string().optional() },
    ...{ state: z.string(), desiredState: z.enum(['running', 'stopped', 'deleted']), runtimeState: z.string() },
    health: z.string().optional(),
    ...{ lastError: z.string().optional(), restartCount: z.int() },
    ...{ source: z.literal('controlplane'), type: z.literal('controlplane') },
    generation: z.int().describe('raised by each manifest that asks for something else'),
    observedGeneration: z.int().optional().describe('present where the latest one runs'),
    lastTransitionAt: z.int().describe('Unix s'),
  });
}
