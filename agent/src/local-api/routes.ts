import { spellingsOf } from '../../../src/lib/path-pattern.ts';
import { AUTH_ROUTES, type AuthDependencies } from './routes/auth/routes.ts';
import { CONTENT_ROUTES, type ContentDependencies } from './routes/content/routes.ts';
import { DEPLOY_MICROSERVICE_ROUTES, type DeployDependencies } from './routes/deploy/microservices.ts';
import { MICROSERVICE_ROUTES, type MicroserviceDependencies } from './routes/microservices/routes.ts';
import { PROBE_ROUTES, type ProbeDependencies } from './routes/probes/routes.ts';
import { SETTINGS_ROUTES, type SettingsDependencies } from './routes/settings/routes.ts';
import { SYSTEM_ROUTES, type SystemDependencies } from './routes/system/routes.ts';
import { WORKLOAD_ROUTES, type WorkloadDependencies } from './routes/workload/routes.ts';
import type { LocalRoute } from './server/route.ts';
import { createRouter, type PathRow } from './server/router.ts';
import type { LocalApi, ServedAgent } from './server/server.ts';

/** What the local API needs of the agent and its process: the needs of each group of routes. */
type LocalApiDependencies = { agent: ServedAgent } & ProbeDependencies &
  SystemDependencies &
  SettingsDependencies &
  AuthDependencies &
  WorkloadDependencies &
  ContentDependencies &
  DeployDependencies &
  MicroserviceDependencies;

/** The routes of the local API. */
export const ROUTES: readonly LocalRoute<LocalApiDependencies>[] = [
  ...PROBE_ROUTES,
  ...SYSTEM_ROUTES,
  ...SETTINGS_ROUTES,
  ...AUTH_ROUTES,
  ...WORKLOAD_ROUTES,
  ...CONTENT_ROUTES,
  ...DEPLOY_MICROSERVICE_ROUTES,
  ...MICROSERVICE_ROUTES,
];

/** Second spellings of the beginnings of paths (docs/spec/agent-local-api.md#routes). */
const SPELLINGS = [
  ['/health', '/v1/health'],
  ['/metrics', '/v1/metrics'],
  ['/v1/ms', '/v1/microservices'],
] as const;

const PART = 'this part of the local API';
const FORM = 'this form of exec sessions and log streams';

/** Paths that answer 501 (docs/spec/agent-local-api.md#routes-that-are-not-built). */
const LATER: readonly [pattern: string, missing: string][] = [
  ...['/v1/images', '/v1/volumes', '/v1/deploy'].flatMap((path): [string, string][] => [
    [path, PART],
    [`${path}/*`, PART],
    [`${path}:*`, PART],
  ]),
  ['/v1/models:*', PART],
  ['/v1/knowledge:*', PART],
  ['/v1/system/controlplane*', PART],
  ['/v1/system/controller*', PART],
  ['/v1/system/logs:stream*', PART],
  ['/v1/ms/{id}/exec/sessions*', FORM],
  ['/v1/ms/{id}/logs:stream*', FORM],
];

function* pathRows(): Generator<PathRow> {
  for (const [path, routes] of Map.groupBy(ROUTES, (route) => route.path))
    for (const spelling of spellingsOf(path, SPELLINGS)) yield [spelling, routes];
  for (const [pattern, missing] of LATER)
    for (const spelling of spellingsOf(pattern, SPELLINGS)) yield [spelling, { missing }];
}

const find = createRouter(pathRows());

/** The local API of an agent. */
export const localApi = (deps: LocalApiDependencies): LocalApi => ({ find, agent: deps.agent, deps });
