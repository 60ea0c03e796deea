import { RESPONSES, type ResponseName } from '../../wire/sections.ts';
import type { AgentRoute, NodeRoute } from '../channel/exchange.ts';
import { THEFTS } from '../channel/theft.ts';
import type { Handlers } from './handlers.ts';

/**
 * Every agent route: method, path, class of the body, what the pipeline does for it, handler. They are served without
 * express, which would cost 0.010 CPU-ms more per request (2.5 % of a poll, measured with Node 24 and express 5), and
 * whose middleware has no part here: one look-up finds the route, and the pipeline has the steps.
 */
export function agentRoutes(handlers: Handlers): readonly AgentRoute[] {
  const { changes, reads, status, departure, provisioning, registration, fixed } = handlers;
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
  const audited = { isAudited: true } as const;
  const ends = { metric: 'provision', ...audited } as const;
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

    ...responseRoutes(handlers),
    {
      method: 'GET',
      path: '/systemFiles/content',
      theft: THEFTS.systemFiles,
      metric: 'read',
      notOlderThan: true,
      handle: reads.systemFileContents,
    },
    {
      method: 'GET',
      path: '/microservices/{uuid}',
      theft: THEFTS.workload,
      metric: 'read',
      handle: reads.microservice,
    },

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
    {
      method: 'POST',
      path: '/controller/register',
      theft: THEFTS.registering,
      metric: 'read',
      body: 'message',
      handle: registration,
      ...audited,
    },
  ];
}

/** The GET routes of the desired state: one for each response that carries sections. */
function responseRoutes({ reads, version }: Handlers): NodeRoute[] {
  const stored = { notOlderThan: true } as const;
  const rows: Record<ResponseName, Omit<NodeRoute, 'method' | 'path' | 'metric'>> = {
    microservices: { theft: THEFTS.workload, ...stored, epoch: true, handle: reads.microservices },
    config: { theft: THEFTS.settings, ...stored, handle: reads.config },
    registries: { theft: THEFTS.registries, ...stored, handle: reads.registries },
    runtimeClasses: { theft: THEFTS.settings, ...stored, handle: reads.runtimeClasses },
    models: { theft: THEFTS.settings, ...stored, handle: reads.models },
    knowledge: { theft: THEFTS.settings, ...stored, handle: reads.knowledge },
    volumeMounts: { theft: THEFTS.content, ...stored, handle: reads.volumeMounts },
    systemFiles: { theft: THEFTS.systemFiles, ...stored, handle: reads.systemFiles },
    'exec/sessions': { theft: THEFTS.sessions, handle: reads.execSessions },
    'logs/sessions': { theft: THEFTS.sessions, handle: reads.logSessions },
    tunnel: { theft: THEFTS.tunnel, ...stored, handle: reads.tunnel },
    version: { theft: THEFTS.version, handle: version, isAudited: true },
  };
  return Object.entries(rows).map(([name, row]) => {
    const { path } = RESPONSES[name as ResponseName];
    return { method: 'GET', path: path.slice('/agent'.length), metric: 'read', ...row };
  });
}
