import { z } from 'zod';
import { routesWith } from '../../server/route.ts';
import { type MetricsFacts, metricsPage } from './metrics-page.ts';

/** What probes and metrics need of the agent. */
export interface ProbeDependencies {
  agent: MetricsFacts & { readonly supervisor: { readonly engine: { state: string; error?: string } } };
  phase(): 'initializing' | 'listening' | 'failed';
}

const { route } = routesWith<ProbeDependencies>('probes');

/** Health and metrics, for anyone on this machine. */
export const PROBE_ROUTES = [
  route({
    method: 'GET',
    path: '/health/live',
    operation: 'isAlive',
    summary: 'Whether the agent answers',
    access: 'open',
    anyHost: true,
    reply: {
      form: 'bare',
      schema: () =>
        z.object({ status: z.literal('ok'), localApiPhase: z.enum(['initializing', 'listening', 'failed']) }),
    },
    handler: ({ deps: { phase } }) => ({ status: 'ok', localApiPhase: phase() }),
  }),
  route({
    method: 'GET',
    path: '/health/ready',
    operation: 'isReady',
    summary: 'Whether the container engine is connected',
    access: 'open',
    anyHost: true,
    reply: {
      form: 'bare',
      schema: () =>
        z.union([
          z.object({ status: z.literal('ready') }),
          z.object({ status: z.literal('not_ready'), reason: z.literal('engine'), detail: z.string() }),
        ]),
      status: { other: 503, when: ({ status }) => status !== 'ready' },
    },
    handler: ({ deps: { agent } }) => {
      const { engine } = agent.supervisor;
      if (engine.state === 'connected') return { status: 'ready' };
      return { status: 'not_ready', reason: 'engine', detail: engine.error ?? engine.state };
    },
  }),
  route({
    method: 'GET',
    path: '/metrics',
    operation: 'getMetrics',
    summary: 'The metrics of the agent, in the text format of Prometheus',
    access: 'open',
    reply: { form: { text: 'text/plain; version=0.0.4' }, schema: () => z.string() },
    handler: ({ deps: { agent } }) => metricsPage(agent),
  }),
];
