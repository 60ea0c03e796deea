import { metricsPage } from '../metrics-page.ts';
import { bare, type Route } from '../route.ts';

/** Health and metrics, for anyone on this machine. */
export const PROBE_ROUTES: Route[] = ['', '/v1'].flatMap((prefix): Route[] => [
  {
    method: 'GET',
    path: `${prefix}/health/live`,
    access: 'open',
    handler: (_request, { phase }) => bare({ status: 'ok', localApiPhase: phase() }),
  },
  {
    method: 'GET',
    path: `${prefix}/health/ready`,
    access: 'open',
    handler: (_request, { agent }) => {
      const { engine } = agent.supervisor;
      if (engine.state === 'connected') return bare({ status: 'ready' });
      return bare({ status: 'not_ready', reason: 'engine', detail: engine.error ?? engine.state }, 503);
    },
  },
  {
    method: 'GET',
    path: `${prefix}/metrics`,
    access: 'open',
    handler: async (_request, { agent }) => ({
      kind: 'text',
      text: await metricsPage(agent),
      type: 'text/plain; version=0.0.4',
    }),
  },
]);
