import { AGENT_GROUP } from '../../../../src/api/names.ts';
import type { AgentConfig } from '../../../../src/wire/agent.ts';
import { BUILD } from '../../domain/build.ts';
import { ENGINE_KINDS } from '../../domain/engine.ts';
import { AGENT_VERSION } from '../../domain/names.ts';
import type { Claims } from '../../state/token.ts';
import type { LogEntry } from '../../system/log.ts';
import { ApiError } from '../errors.ts';
import { joined, mapLines } from '../lines.ts';
import { isPruneMode, PRUNE_MODES, pruneReport } from '../prune-report.ts';
import { readBoolean, readLogQuery } from '../query.ts';
import { bare, ok, type Route } from '../route.ts';
import { activeConfig, daemonInfo, daemonStatus, nameOf } from '../shapes.ts';

/** The agent itself, for its admin. */
export const SYSTEM_ROUTES: Route[] = [
  {
    method: 'GET',
    path: '/v1/system/status',
    access: 'admin',
    handler: async (_request, { agent }) => bare(await daemonStatus(agent)),
  },
  { method: 'GET', path: '/v1/system/info', access: 'admin', handler: (_request, { agent }) => ok(daemonInfo(agent)) },
  {
    method: 'GET',
    path: '/v1/system/version',
    access: 'admin',
    handler: (_request, { agent }) =>
      bare({
        version: AGENT_VERSION,
        ...BUILD,
        allowedContainerEngine: agent.config.containerEngine ?? ENGINE_KINDS[0],
        allowedEngines: ENGINE_KINDS,
      }),
  },
  {
    method: 'POST',
    path: '/v1/system/provision',
    access: 'admin',
    handler: async ({ body, signal }, { agent }) => {
      const { provisioningKey } = await body();
      if (typeof provisioningKey !== 'string' || provisioningKey === '')
        throw new ApiError('INVALID_ARGUMENT', 'provisioningKey is required', { field: 'provisioningKey' });
      const node = await agent.provision(provisioningKey, signal);
      return ok({ status: 'ok', agentUuid: node.uuid, name: node.name, controllerUrl: node.controllerUrl });
    },
  },
  {
    method: 'DELETE',
    path: '/v1/system/provision',
    access: 'admin',
    handler: async ({ query, signal }, { agent }) => {
      const scope = query.get('scope') ?? 'all';
      if (scope !== 'all' && scope !== 'local') throw new ApiError('INVALID_ARGUMENT', 'scope is all or local');
      if (readBoolean(query, 'purgeVolumes'))
        throw new ApiError('NOT_IMPLEMENTED', 'volumes cannot be purged by this version; remove them by hand');
      const { controllerTold } = await agent.deprovision(scope);
      // Done is what is done: with the answer the machine is clear, or the answer says what is left.
      const remaining = scope === 'all' ? await agent.cleared(signal) : [];
      return ok({ status: 'ok', controllerTold, remaining: remaining.map((id) => nameOf(agent, id)) });
    },
  },
  {
    method: 'POST',
    path: '/v1/system/reload',
    access: 'admin',
    handler: (_request, { reload }) => {
      reload();
      return ok({ status: 'ok' });
    },
  },
  {
    method: 'POST',
    path: '/v1/system/stop',
    access: 'admin',
    handler: (_request, { stop }) => {
      stop();
      return ok({ status: 'ok' });
    },
  },
  {
    method: 'POST',
    path: '/v1/system/prune',
    access: 'admin',
    handler: async ({ query }, { agent }) => {
      const mode = query.get('mode') ?? 'dangling';
      if (!isPruneMode(mode))
        throw new ApiError('INVALID_ARGUMENT', `mode "${mode.slice(0, 50)}" is none of ${PRUNE_MODES.join(', ')}`, {
          field: 'mode',
        });
      return ok(await pruneReport(mode, agent));
    },
  },
  {
    method: 'GET',
    path: '/v1/system/orphans',
    access: 'admin',
    handler: async ({ signal }, { agent }) => bare({ items: await agent.orphans(signal) }),
  },
  {
    method: 'DELETE',
    path: '/v1/system/orphans',
    access: 'admin',
    handler: async ({ query, signal }, { agent }) =>
      ok({ status: 'ok', removed: await agent.removeOrphans(query.getAll('name'), signal) }),
  },
  {
    method: 'GET',
    path: '/v1/system/logs',
    access: 'admin',
    handler: ({ query, signal }, { logs }) => {
      const { tail, since = -Infinity, until = Infinity } = readLogQuery(query);
      const asked = ({ timestamp }: LogEntry) => Date.parse(timestamp) >= since && Date.parse(timestamp) <= until;
      const line = (entry: LogEntry) => ({ ts: entry.timestamp, stream: 'stdout', line: JSON.stringify(entry) });
      const entries = logs.entries.filter(asked).slice(-tail).map(line);
      if (!readBoolean(query, 'follow')) return bare({ entries });
      return { kind: 'lines', lines: joined(entries, mapLines(logs.follow(signal), line)) };
    },
  },
  {
    method: 'GET',
    path: '/v1/system/config',
    access: 'admin',
    handler: (_request, { agent }) => bare(activeConfig(agent)),
  },
  {
    method: 'PATCH',
    path: '/v1/system/config',
    access: 'admin',
    handler: async ({ body }, { changeSettings }) => {
      const { set } = await body();
      if (set === null || typeof set !== 'object' || Array.isArray(set) || Object.keys(set).length === 0)
        throw new ApiError('INVALID_ARGUMENT', 'set names at least one setting', { field: 'set' });
      const { errorMap, restartNeeded, warning } = await changeSettings(set as Record<string, unknown>);
      if (Object.keys(errorMap).length === Object.keys(set).length)
        throw new ApiError('INVALID_ARGUMENT', `nothing was changed: ${reasonsOf(errorMap)}`, { errorMap });
      return ok({
        status: 'ok',
        errorMap,
        ...(warning && { warning }),
        ...(restartNeeded.length > 0 && {
          pendingRestart: true,
          message: `Restart the agent for: ${restartNeeded.join(', ')}`,
        }),
      });
    },
  },
  {
    method: 'GET',
    path: '/v1/system/gps',
    access: 'admin',
    grant: { resource: 'system/gps', verb: 'get' },
    handler: (_request, { agent }) => bare(position(agent.effective())),
  },
  {
    method: 'POST',
    path: '/v1/system/gps',
    access: 'admin',
    handler: () => {
      throw new ApiError(
        'NOT_IMPLEMENTED',
        'this version cannot set the position here; set latitude and longitude of the node, or gpsCoordinates of the machine',
      );
    },
  },
  {
    method: 'GET',
    path: '/v1/auth/whoami',
    access: 'admin',
    grant: { resource: 'auth/whoami', verb: 'get' },
    handler: ({ claims }) => bare(claims && tokenIdentity(claims)),
  },
];

/** The position that is in force, as text; 0 and 0 while GPS is off (docs/spec/agent-local-api.md#routes). */
function position({ gpsMode = 'off', latitude = 0, longitude = 0 }: AgentConfig) {
  if (gpsMode !== 'manual' && gpsMode !== 'off')
    throw new ApiError('NOT_IMPLEMENTED', `this version cannot find the position with gpsMode ${gpsMode}; use manual`);
  return { status: 'okay', timestamp: Date.now(), lat: String(latitude), lon: String(longitude) };
}

/** What a caller may know of its own token. */
function tokenIdentity({ sub, iss, aud, exp, jti, tokenUse, ...claims }: Claims) {
  const own = (claims as { [AGENT_GROUP]?: unknown })[AGENT_GROUP];
  return {
    subject: sub,
    tokenType: 'Bearer',
    tokenUse,
    issuer: iss,
    audience: aud,
    jti,
    expiresAt: new Date(exp * 1000).toISOString(),
    claims: own === undefined ? {} : { [AGENT_GROUP]: own },
  };
}

function reasonsOf(errorMap: Record<string, string>): string {
  return Object.entries(errorMap)
    .map(([name, text]) => `${name}: ${text}`)
    .join('; ');
}
