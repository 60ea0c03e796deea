import { Operations, type OperationsDependencies } from '../server/operations.ts';
import type { ArtifactPullMembers } from './content/artifact-pulls.ts';
import type { ControlPlaneMembers } from './deploy/control-plane.ts';
import type { ApplyMembers } from './deploy/deploy-microservice.ts';
import type { RuntimeClassMembers } from './deploy/runtime-class-changes.ts';
import type { LoadMembers, PullMembers } from './images/routes.ts';

/** The operations that routes of the local API begin, by kind. */
export const createOperations = (deps: OperationsDependencies) => ({
  imagePulls: new Operations<PullMembers>(deps),
  imageLoads: new Operations<LoadMembers>(deps),
  artifactPulls: {
    models: new Operations<ArtifactPullMembers>(deps),
    knowledge: new Operations<ArtifactPullMembers>(deps),
  },
  runtimeClassApplies: new Operations<RuntimeClassMembers>(deps),
  runtimeClassDeletes: new Operations<RuntimeClassMembers>(deps),
  controlPlaneApplies: new Operations<ControlPlaneMembers>(deps),
  microserviceApplies: new Operations<ApplyMembers>(deps),
});
