import type { AgentRoute, NodeRoute } from '../pipeline/exchange.ts';
import type { Handlers } from './handlers.ts';

/**
 * Every agent route: method, path, class of the body, what the pipeline does for it, handler. They are served without
 * express, which would cost 0.010 CPU-ms more per request (2.5 % of a poll, measured with Node 24 and express 5), and
 * whose middleware has no part here: one look-up finds the route, and the pipeline has the steps.
 */
export function agentRoutes(handlers: Handlers): readonly AgentRoute[] {
  const { changes, reads, status, departure, version, provisioning, fixed } = handlers;
  const poll = { metric: 'poll', notOlderThan: true, epoch: true, handle: changes.poll } as const;
  const acknowledge = { metric: 'poll', body: 'message', handle: changes.acknowledge } as const;
  const section = (path: string, ...args: Parameters<typeof reads.sections>): NodeRoute => ({
    method: 'GET',
    path,
    metric: 'read',
    notOlderThan: true,
    handle: reads.sections(...args),
  });
  const ofSessions = (path: string, ...args: Parameters<typeof reads.sessions>): NodeRoute => ({
    method: 'GET',
    path,
    metric: 'read',
    handle: reads.sessions(...args),
  });
  const audited = { isAudited: true } as const;
  const ends = { metric: 'provision', ...audited } as const;
  const list = { metric: 'read', notOlderThan: true, epoch: true, handle: reads.microservices } as const;
  return [
    {
      method: 'POST',
      path: '/provision',
      access: 'provisioning-key',
      body: 'provisioning',
      handle: provisioning,
      ...audited,
    },
    { method: 'POST', path: '/deprovision', body: 'message', handle: departure.deprovision, ...ends },
    { method: 'DELETE', path: '/delete-node', handle: departure.deleteNode, ...ends },

    { method: 'GET', path: '/changes', ...poll },
    { method: 'PATCH', path: '/changes', ...acknowledge },
    { method: 'GET', path: '/config/changes', ...poll },
    { method: 'PATCH', path: '/config/changes', ...acknowledge },

    { method: 'GET', path: '/microservices', ...list },
    { method: 'GET', path: '/microservices/{uuid}', metric: 'read', handle: reads.microservice },
    section('/config', ['config'], (state) => state.config),
    section('/registries', ['registries'], ({ registries }) => ({ registries })),
    section('/runtimeClasses', ['runtimeClasses'], ({ runtimeClasses }) => ({ runtimeClasses })),
    section('/models', ['models'], ({ models }) => ({ models })),
    section('/knowledge', ['knowledge'], ({ knowledge }) => ({ knowledge })),
    { method: 'GET', path: '/volumeMounts', metric: 'read', notOlderThan: true, handle: reads.volumeMounts },
    ofSessions('/exec/sessions', ['execSessions'], ({ exec }) => ({ execSessions: exec })),
    ofSessions('/logs/sessions', ['microserviceLogs', 'fogLogs'], ({ logs }) => ({ logSessions: logs })),
    { method: 'GET', path: '/version', metric: 'read', handle: version, ...audited },

    { method: 'PUT', path: '/status', metric: 'status', body: 'report', handle: status.report },
    { method: 'PATCH', path: '/config', metric: 'read', body: 'message', handle: status.config },
    { method: 'PATCH', path: '/config/gps', metric: 'read', body: 'message', handle: status.coordinates },
    { method: 'POST', path: '/tracking', metric: 'read', body: 'message', handle: status.tracking },

    { method: 'GET', path: '/cert', metric: 'read', handle: fixed.certificate },
    { method: 'GET', path: '/tunnel', metric: 'read', handle: fixed.tunnel },
    { method: 'POST', path: '/controller/register', metric: 'read', body: 'message', handle: fixed.registerController },
  ];
}
