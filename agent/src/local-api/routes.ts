import { spellingsOf } from '../../../src/lib/path-pattern.ts';
import { AUTH_ROUTES, type AuthDependencies } from './routes/auth/routes.ts';
import { OWN_ARTIFACT_ROUTES, type OwnArtifactDependencies } from './routes/content/own-artifacts.ts';
import { CONTENT_ROUTES, type ContentDependencies } from './routes/content/routes.ts';
import { type ArtifactDeployDependencies, DEPLOY_ARTIFACT_ROUTES } from './routes/deploy/artifacts.ts';
import { type ControlPlaneDeployDependencies, DEPLOY_CONTROL_PLANE_ROUTES } from './routes/deploy/control-plane.ts';
import { DEPLOY_MICROSERVICE_ROUTES, type DeployDependencies } from './routes/deploy/microservices.ts';
import { REGISTRY_ROUTES, type RegistryDependencies } from './routes/deploy/registries.ts';
import { RUNTIME_CLASS_ROUTES, type RuntimeClassDependencies } from './routes/deploy/runtime-classes.ts';
import { IMAGE_ROUTES, type ImagesRouteDependencies } from './routes/images/routes.ts';
import { MICROSERVICE_ROUTES, type MicroserviceDependencies } from './routes/microservices/routes.ts';
import { SESSION_ROUTES, type SessionDependencies } from './routes/microservices/sessions.ts';
import { PROBE_ROUTES, type ProbeDependencies } from './routes/probes/routes.ts';
import { SETTINGS_ROUTES, type SettingsDependencies } from './routes/settings/routes.ts';
import { CONTROL_PLANE_ROUTES, type ControlPlaneDependencies } from './routes/system/control-plane.ts';
import { OWN_LOG_ROUTES, type OwnLogDependencies } from './routes/system/logs.ts';
import { SYSTEM_ROUTES, type SystemDependencies } from './routes/system/routes.ts';
import { VOLUME_ROUTES, type VolumeDependencies } from './routes/volumes/routes.ts';
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
  OwnArtifactDependencies &
  ArtifactDeployDependencies &
  RegistryDependencies &
  RuntimeClassDependencies &
  DeployDependencies &
  ControlPlaneDeployDependencies &
  ControlPlaneDependencies &
  VolumeDependencies &
  ImagesRouteDependencies &
  MicroserviceDependencies &
  SessionDependencies &
  OwnLogDependencies;

/** The routes of the local API. */
export const ROUTES: readonly LocalRoute<LocalApiDependencies>[] = [
  ...PROBE_ROUTES,
  ...SYSTEM_ROUTES,
  ...SETTINGS_ROUTES,
  ...OWN_LOG_ROUTES,
  ...AUTH_ROUTES,
  ...WORKLOAD_ROUTES,
  ...CONTENT_ROUTES,
  ...OWN_ARTIFACT_ROUTES,
  ...DEPLOY_MICROSERVICE_ROUTES,
  ...DEPLOY_CONTROL_PLANE_ROUTES,
  ...CONTROL_PLANE_ROUTES,
  ...DEPLOY_ARTIFACT_ROUTES,
  ...REGISTRY_ROUTES,
  ...RUNTIME_CLASS_ROUTES,
  ...VOLUME_ROUTES,
  ...IMAGE_ROUTES,
  ...MICROSERVICE_ROUTES,
  ...SESSION_ROUTES,
];

/** Second spellings of the beginnings of paths (docs/spec/agent-local-api.md#routes). */
const SPELLINGS = [
  ['/health', '/v1/health'],
  ['/metrics', '/v1/metrics'],
  ['/v1/ms', '/v1/microservices'],
] as const;

function* pathRows(): Generator<PathRow> {
  for (const [path, routes] of Map.groupBy(ROUTES, (route) => route.path))
    for (const spelling of spellingsOf(path, SPELLINGS)) yield [spelling, routes];
}

const find = createRouter(pathRows());

/** The local API of an agent. */
export const localApi = (deps: LocalApiDependencies): LocalApi => ({ find, agent: deps.agent, deps });
