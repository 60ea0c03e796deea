import type { EdgeNode } from '../../../src/api/v3/index.ts';
import { compareVersions } from '../../../src/api/version.ts';
import { isForbidden } from '../../../src/kube/mod.ts';
import { createReplicas } from '../../../src/replicas/replicas.ts';
import { newestAgentRelease } from '../../../src/rules/replica.ts';
import { isDue, requestedAction } from '../../../src/subjects/nodes/rules/actions.ts';
import type { CommandContext } from '../context/command.ts';
import { CommandError } from '../context/errors.ts';
import { readyOf } from './rows.ts';

/** Versions of agents: which one is newest, and what a change waits for. */

export const NO_RELEASE =
  'the controller has no release of the agent for machines (releasesUrl or releasesVolume of the chart; it looks for them every five minutes)';

/** The newest release of the agent that the controller has for machines, as its replicas say in their Leases. */
export async function newestRelease({
  cluster: { client, namespace },
  signal,
}: CommandContext): Promise<string | undefined> {
  try {
    return newestAgentRelease(await createReplicas({ client, namespace }).list(signal));
  } catch (error) {
    if (!isForbidden(error)) throw error;
    throw new CommandError('you may not read Leases, which say what release of the agent is the newest');
  }
}

export const conditionOf = ({ status }: EdgeNode, type: string) =>
  status?.conditions?.find((condition) => condition.type === type && condition.status === 'True');

/** A third-party agent has versions of its own. */
const isOurs = ({ status }: EdgeNode) => status?.agent !== undefined;

/** What a node is to run: what was requested and is under way, else the newest release. */
export function wantedOf(node: EdgeNode, newest: string | undefined): string | undefined {
  const { command, semver } = requestedAction(node, 'version');
  if (!isOurs(node)) return undefined;
  if (!command || !isDue(node, 'version')) return newest;
  return semver ?? (command === 'rollback' ? 'the one before' : newest);
}

export function isOutdated(node: EdgeNode, newest: string | undefined): boolean {
  const { version } = node.status ?? {};
  return isOurs(node) && version !== undefined && newest !== undefined && compareVersions(version, newest) < 0;
}

/** What keeps a node from the version that it is to run; empty when nothing is to be done. */
export function updateWaitsFor(node: EdgeNode, newest: string | undefined): string {
  const { status } = node;
  const known = conditionOf(node, 'Updating') ?? conditionOf(node, 'UpdateFailed');
  if (known) return known.message;
  if (!isOutdated(node, newest)) return '';
  if (readyOf(node)?.status !== 'True') return `the node: ${readyOf(node)?.message ?? 'it has no status'}`;
  return status?.isReadyToUpgrade ? 'kubectl skerry upgrade-agent' : CANNOT_UPGRADE;
}

export const CANNOT_UPGRADE =
  'a package: its agent cannot change its version itself (it was not installed with a launcher and a release key)';
