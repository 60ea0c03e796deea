import type { AgentRoute, NodeRoute } from '../channel/exchange.ts';
import { THEFTS, type Theft } from '../channel/theft.ts';
import type { Handlers } from './handlers.ts';
import { registriesFor } from './reads.ts';

/**
 * Every agent route: method, path, class of the body, what the pipeline does for it, handler. They are served without
 * express, which would cost 0.010 CPU-ms more per request (2.5 % of a poll, measured with Node 24 and express 5), and
 * whose middleware has no part here: one look-up finds the route, and the pipeline has the steps.
 */
export function agentRoutes(handlers: Handlers): readonly AgentRoute[] {
  const { changes, reads, status, departure, version, provisioning, fixed } = handlers;
  const poll = {
    theft: THEFTS.polling,
    metric: 'poll',
    notOlderThan: true,
    epoch: true,
    handle: changes.poll,
  } as const;
  const acknowledge = {
    theft: THEFTS.acknowledging,
    metric: 'poll',
    body: 'message',
    handle: changes.acknowledge,
  } as const;
  const section = (path: string, theft: Theft, ...args: Parameters<typeof reads.sections>): NodeRoute => ({
    method: 'GET',
    path,
    theft,
    metric: 'read',
    notOlderThan: true,
    handle: reads.sections(...args),
  });
  const ofSessions = (path: string, ...args: Parameters<typeof reads.sessions>): NodeRoute => ({
    method: 'GET',
    path,
    theft: THEFTS.sessions,
    metric: 'read',
    handle: reads.sessions(...args),
  });
  const audited = { isAudited: true } as const;
  const ends = { metric: 'provision', ...audited } as const;
  const list = {
    theft: THEFTS.workload,
    metric: 'read',
    notOlderThan: true,
    epoch: true,
    handle: reads.microservices,
  } as const;
  return [
    {
      method: 'POST',
      path: '/provision',
      theft: THEFTS.provisioning,
      access: 'provisioning-key',
      body: 'provisioning',
      handle: provisioning,
      ...audited,
    },
    {
      method: 'POST',
      path: '/deprovision',
      theft: THEFTS.leaving,
      body: 'message',
      handle: departure.deprovision,
      ...ends,
    },
    { method: 'DELETE', path: '/delete-node', theft: THEFTS.goodbye, handle: departure.deleteNode, ...ends },

    { method: 'GET', path: '/changes', ...poll },
    { method: 'PATCH', path: '/changes', ...acknowledge },
    { method: 'GET', path: '/config/changes', ...poll },
    { method: 'PATCH', path: '/config/changes', ...acknowledge },

    { method: 'GET', path: '/microservices', ...list },
    {
      method: 'GET',
      path: '/microservices/{uuid}',
      theft: THEFTS.workload,
      metric: 'read',
      handle: reads.microservice,
    },
    section('/config', THEFTS.settings, ['config'], (state) => state.config),
    section('/registries', THEFTS.registries, ['registries'], registriesFor),
    section('/runtimeClasses', THEFTS.settings, ['runtimeClasses'], ({ runtimeClasses }) => ({ runtimeClasses })),
    section('/models', THEFTS.settings, ['models'], ({ models }) => ({ models })),
    section('/knowledge', THEFTS.settings, ['knowledge'], ({ knowledge }) => ({ knowledge })),
    {
      method: 'GET',
      path: '/volumeMounts',
      theft: THEFTS.content,
      metric: 'read',
      notOlderThan: true,
      handle: reads.volumeMounts,
    },
    ofSessions('/exec/sessions', ['execSessions'], ({ exec }) => ({ execSessions: exec })),
    ofSessions('/logs/sessions', ['microserviceLogs', 'fogLogs'], ({ logs }) => ({ logSessions: logs })),
    { method: 'GET', path: '/version', theft: THEFTS.version, metric: 'read', handle: version, ...audited },

    {
      method: 'PUT',
      path: '/status',
      theft: THEFTS.reporting,
      metric: 'status',
      body: 'report',
      handle: status.report,
    },
    {
      method: 'PATCH',
      path: '/config',
      theft: THEFTS.reporting,
      metric: 'read',
      body: 'message',
      handle: status.config,
    },
    {
      method: 'PATCH',
      path: '/config/gps',
      theft: THEFTS.reporting,
      metric: 'read',
      body: 'message',
      handle: status.coordinates,
    },
    {
      method: 'POST',
      path: '/tracking',
      theft: THEFTS.nothing,
      metric: 'read',
      body: 'message',
      handle: status.tracking,
    },

    { method: 'GET', path: '/cert', theft: THEFTS.nothing, metric: 'read', handle: fixed.certificate },
    { method: 'GET', path: '/tunnel', theft: THEFTS.nothing, metric: 'read', handle: fixed.tunnel },
    {
      method: 'POST',
      path: '/controller/register',
      theft: THEFTS.nothing,
      metric: 'read',
      body: 'message',
      handle: fixed.registerController,
    },
  ];
}
