import { setTimeout } from 'node:timers/promises';
import type { EdgeNode } from '../../../src/api/v3/index.ts';
import { compareVersions, parseVersion } from '../../../src/api/version.ts';
import { isForbidden, isNotFound, refOf, retryOnConflict } from '../../../src/kube/mod.ts';
import { v3Name } from '../../../src/rules/names.ts';
import { isDue, requestAction, requestedAction } from '../../../src/subjects/nodes/rules/actions.ts';
import { duration } from '../../../src/terminal/output.ts';
import { type Command, type CommandContext, FIELD_MANAGER, listNodes, NODES, nodeNamed } from '../context/command.ts';
import { CommandError, UsageError } from '../context/errors.ts';
import { readyOf } from '../objects/rows.ts';
import { CANNOT_UPGRADE, conditionOf, NO_RELEASE, newestRelease } from '../objects/versions.ts';

const LOOK_MS = 1_000;
const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000 };

export const upgradeAgent: Command = {
  name: 'upgrade-agent',
  usage: 'NODE... | --selector LABELS',
  about: 'Bring the agents of nodes to a release, one after another',
  details: [
    'Each node has to report the release and be Ready before the next one begins. The first that fails ends the command;',
    'the nodes after it are left alone. Containers run on. The same command again continues, also after Ctrl-C: nodes that',
    'run the release already are passed over once they are Ready, and a change that is under way is waited for.',
  ],
  examples: ['upgrade-agent gw-1', 'upgrade-agent gw-1 gw-2 --version 0.2.0', 'upgrade-agent --selector site=north'],
  flags: {
    selector: {
      short: 'l',
      value: 'LABELS',
      about: 'the nodes with these labels, in the order of their names',
    },
    version: { value: 'VERSION', about: 'the release; the newest one that the controller has' },
    timeout: { value: 'TIME', about: 'how long one node may take, as in 90s, 30m or 2h; 30m' },
  },
  words: { max: Number.POSITIVE_INFINITY },
  complete: async (context) => (await listNodes(context)).map(v3Name),
  async run(context) {
    const { words, flags, err, out } = context;
    if (words.length > 0 === (flags.selector !== undefined))
      throw new UsageError('upgrade-agent needs either names of nodes or --selector LABELS');
    const timeoutMs = timeOf(flags.timeout as string | undefined);
    const wanted = await releaseOf(context);
    const nodes = await chosen(context);
    for (const [index, node] of nodes.entries()) {
      const name = v3Name(node);
      try {
        await upgrade(context, node, wanted, timeoutMs);
      } catch (error) {
        const rest = nodes.slice(index + 1).map(v3Name);
        if (context.signal.aborted)
          err(`Stopped waiting. A change that ${name} has begun goes on; the same command continues.\n`);
        else if (rest.length > 0) err(`${index} of ${nodes.length} done; left alone: ${rest.join(', ')}\n`);
        throw error;
      }
    }
    out(`${nodes.length} of ${nodes.length} done: ${wanted}\n`);
  },
};

async function chosen(context: CommandContext): Promise<EdgeNode[]> {
  const { words, flags } = context;
  const selector = flags.selector as string | undefined;
  if (selector === undefined) {
    const named: EdgeNode[] = [];
    for (const word of new Set(words)) named.push(await nodeNamed(context, word));
    return named;
  }
  const nodes = await listNodes(context, selector);
  if (nodes.length === 0) throw new CommandError(`no node has the labels "${selector}"`);
  return nodes.sort((a, b) => (v3Name(a) < v3Name(b) ? -1 : 1));
}

async function releaseOf(context: CommandContext): Promise<string> {
  const given = context.flags.version as string | undefined;
  const version = given === undefined ? await newestRelease(context) : parseVersion(given);
  if (version !== undefined) return version;
  if (given !== undefined) throw new UsageError(`--version "${given}" must be a version such as 1.2.3`);
  throw new CommandError(NO_RELEASE);
}

function timeOf(text = '30m'): number {
  const [, count = '', unit = ''] = /^([1-9]\d{0,5})([smh])$/.exec(text) ?? [];
  const ms = Number(count) * (UNITS[unit] ?? 0);
  if (ms > 0) return ms;
  throw new UsageError(`--timeout "${text}" must be a time such as 90s, 30m or 2h`);
}

/** Requests the release where that is due, and resolves when the node runs it and is Ready. */
async function upgrade(context: CommandContext, given: EdgeNode, wanted: string, timeoutMs: number): Promise<void> {
  const { out, now, signal } = context;
  const name = v3Name(given);
  const say = (text: string) => out(`${name}: ${text}\n`);
  const beganAt = now();
  const count = await begin(context, given, wanted, say);
  for (let said = ''; ; ) {
    const state = await look(context, given, wanted, count);
    if (state.is === 'failed') throw new CommandError(`${name}: ${state.why}`);
    if (state.is === 'done') return say(`runs ${wanted} and is Ready (${duration((now() - beganAt) / 1000)})`);
    if (state.why !== said) say(`waits: ${state.why}`);
    said = state.why;
    if (now() - beganAt >= timeoutMs)
      throw new CommandError(`${name}: did not come to ${wanted} in ${duration(timeoutMs / 1000)}; it waits: ${said}`);
    await setTimeout(LOOK_MS, undefined, { signal });
  }
}

/** The count of the request that is to be carried out. */
async function begin(
  context: CommandContext,
  given: EdgeNode,
  wanted: string,
  say: (text: string) => void,
): Promise<number> {
  const { client } = context.cluster;
  const { signal } = context;
  return retryOnConflict(
    async () => {
      const node = await client.get(NODES, refOf(given), { signal });
      const asked = requestedAction(node, 'version');
      const { version = 'no known version' } = node.status ?? {};
      if (isDue(node, 'version') && asked.command === 'upgrade' && asked.semver === wanted) {
        say(`the change to ${wanted} is under way already`);
        return asked.count;
      }
      // What it runs now is what it is about to leave.
      if (version === wanted && isDue(node, 'version')) throw new CommandError(`${v3Name(node)}: ${underWay(node)}`);
      if (version === wanted) return node.status?.actions?.version ?? 0;
      const problem = obstacle(node, wanted);
      if (problem) throw new CommandError(`${v3Name(node)}: ${problem}`);
      const annotations = requestAction(node, 'version', { command: 'upgrade', semver: wanted });
      const { resourceVersion = '' } = node.metadata;
      const body = { metadata: { annotations, resourceVersion } };
      const options = { fieldManager: FIELD_MANAGER, signal };
      const requested = await client.patch(NODES, refOf(node), { type: 'merge', body }, options);
      say(`${version} -> ${wanted} requested`);
      return requestedAction(requested, 'version').count;
    },
    { signal },
  );
}

/** Why a release cannot be requested of a node. */
function obstacle(node: EdgeNode, wanted: string): string | undefined {
  const { status } = node;
  const ready = readyOf(node);
  if (ready?.status !== 'True') return `it is not Ready: ${ready?.message ?? 'it has no status'}`;
  if (status?.agent === undefined) return 'its agent is a third-party one, which has releases of its own';
  if (status.version !== undefined && compareVersions(status.version, wanted) > 0)
    return `it runs ${status.version}, which is newer than ${wanted}; a rollback goes back to the release before`;
  if (conditionOf(node, 'Updating')) return underWay(node);
  return status.isReadyToUpgrade ? undefined : `it waits for ${CANNOT_UPGRADE}`;
}

function underWay(node: EdgeNode): string {
  const { command = 'upgrade', semver = '' } = requestedAction(node, 'version');
  const known = conditionOf(node, 'Updating')?.message;
  return `another change is under way: ${known ?? `${command} ${semver}`.trim()}`;
}

type State = { is: 'done' } | { is: 'waits' | 'failed'; why: string };

async function look(context: CommandContext, given: EdgeNode, wanted: string, count: number): Promise<State> {
  try {
    return stateOf(await context.cluster.client.get(NODES, refOf(given), { signal: context.signal }), wanted, count);
  } catch (error) {
    if (isNotFound(error)) return { is: 'failed', why: 'it was deleted' };
    if (isForbidden(error) || context.signal.aborted) throw error;
    return { is: 'waits', why: `the API server: ${(error as Error).message}` };
  }
}

/** How far a node is with the request of this count. */
function stateOf(node: EdgeNode, wanted: string, count: number): State {
  const { status } = node;
  const isFinished = (status?.actions?.version ?? 0) >= count;
  const ready = readyOf(node);
  if (isFinished && status?.version !== wanted) {
    const why = conditionOf(node, 'UpdateFailed')?.message ?? status?.warningMessage ?? 'its agent gives no reason';
    return { is: 'failed', why: `it stays at ${status?.version}: ${why}` };
  }
  if (isFinished && ready?.status === 'True') return { is: 'done' };
  const why =
    conditionOf(node, 'Updating')?.message ?? (isFinished ? (ready?.message ?? 'for its status') : 'for the agent');
  return { is: 'waits', why };
}
