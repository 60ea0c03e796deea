import type { EdgeNode, EdgeNodeStatus } from '../../../api/v3/index.ts';
import type { Finding } from '../../../rules/conditions.ts';
import type { Liveness } from '../../../rules/inputs.ts';
import type { StatusReport } from '../../../wire/agent.ts';
import { isDue, requestedAction } from './actions.ts';

/** The change of the version of an agent: what is stored of what the agent says, and the conditions. */

/** What is stored. A report of an agent that says nothing of it, and so names its version alone, ends what was stored. */
export function reportedUpdate({ update, version }: StatusReport): Pick<EdgeNodeStatus, 'update'> {
  if (update === undefined) return version === undefined ? {} : { update: undefined };
  return { update: update.state === 'Idle' && update.message === undefined ? undefined : update };
}

/** The version that a requested change leads to, for people. */
function wantedVersion(node: EdgeNode): string {
  const { command, semver } = requestedAction(node, 'version');
  return semver ?? (command === 'rollback' ? 'the release before' : 'the latest release');
}

/** What a requested change waits for; undefined when none is under way. */
export function updating(node: EdgeNode, status: EdgeNodeStatus, alive: Liveness): Finding | undefined {
  const current = { ...node, status };
  const { command } = requestedAction(current, 'version');
  if (!command || !isDue(current, 'version')) return undefined;
  const what = `the ${command} to ${wantedVersion(current)}`;
  if (alive !== 'live')
    return { status: 'True', reason: 'NodeUnreachable', message: `${what} waits for the node, which is silent` };
  const { state, version, message } = status.update ?? {};
  switch (state) {
    case 'Downloading':
      return { status: 'True', reason: 'Downloading', message: `${what} is under way: the agent fetches the release` };
    case 'Retrying':
      return { status: 'True', reason: 'UpdateRetrying', message: `${what} waits for the next attempt: ${message}` };
    case 'OnTrial':
      return {
        status: 'True',
        reason: 'OnTrial',
        message: `${what} waits for a confirmed report: ${version} runs on trial`,
      };
    default:
      return { status: 'True', reason: 'UpdateRequested', message: `${what} waits for the agent${whyIdle(status)}` };
  }
}

function whyIdle({ isReadyToUpgrade, isReadyToRollback, update }: EdgeNodeStatus): string {
  if (update?.message) return `: ${update.message}`;
  return isReadyToUpgrade || isReadyToRollback
    ? ''
    : ', which does not say that it can change its version (ours can once it was installed with a launcher and a release key)';
}

/** Why an agent that does not say that it is ready to upgrade is not, for people. */
export function notReadyToUpgrade({ update }: Partial<EdgeNodeStatus> = {}): string {
  if (update?.message) return update.message;
  return update
    ? 'a change of its version is under way'
    : 'its agent does not say that it can (ours can once it was installed with a launcher; one in a container gets another image)';
}

/** The last change failed, and no other one was requested since. */
export function updateFailed(node: EdgeNode, status: EdgeNodeStatus): Finding | undefined {
  if (status.update?.state !== 'Failed' || isDue({ ...node, status }, 'version')) return undefined;
  return { status: 'True', reason: 'UpdateFailed', message: status.update.message ?? '' };
}
