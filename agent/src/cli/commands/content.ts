import { bytes, duration, structured, table } from '../../../../src/terminal/output.ts';
import { ARTIFACT_KINDS, ARTIFACT_NOUNS, type ArtifactItem, type ArtifactKind } from '../../domain/artifact.ts';
import type { SystemFilesItem } from '../../domain/system-files.ts';
import type { VolumeMountItem } from '../../domain/volume-mounts.ts';
import { type Command, type CommandContext, registryIn, required, show } from './command.ts';
import { type PolledOperation, PULL_BUDGET, untilEnded } from './operations.ts';
import { removeAt, routeTo } from './own-content.ts';

/** What this machine has for its containers: models, knowledge, volume mounts, files of the system. */
export const CONTENT_COMMANDS: readonly Command[] = [
  ...ARTIFACT_KINDS.flatMap((kind) => artifactCommands(kind, ARTIFACT_NOUNS[kind])),
  {
    name: 'volume-mount ls',
    about: 'List the volume mounts of this node; what is in them is not shown',
    run: async (context) => {
      const data = await context.client.call<{ items: VolumeMountItem[] }>('GET', '/v1/volume-mounts');
      showList(context, data, 'No volume mounts on this node\n', {
        head: ['NAME', 'STATE', 'TYPE', 'KEYS', 'SIZE', 'AGE', 'UUID'],
        row: ({ name, state, type, keys, size, changedAt, uuid }) => [
          ...[name, state, type ?? '', String(keys), bytes(size), ageOf(changedAt), uuid],
        ],
      });
    },
  },
  {
    name: 'system-file ls',
    about: 'List the sets of files that the system has on this node; what is in them is not shown',
    run: async (context) => {
      const data = await context.client.call<{ items: SystemFilesItem[] }>('GET', '/v1/system-files');
      showList(context, data, 'No files of the system on this node\n', {
        head: ['NAME', 'STATE', 'FILES', 'SIZE', 'AGE'],
        row: ({ name, state, files, size, changedAt }) => [
          ...[name, state, String(files), bytes(size), ageOf(changedAt)],
        ],
      });
    },
  },
];

function artifactCommands(kind: ArtifactKind, noun: string): Command[] {
  const many = kind === 'models' ? 'models' : 'knowledge';
  return [
    {
      name: `${noun} ls`,
      about: `List the ${many} of this node`,
      run: async (context) => {
        const data = await context.client.call<{ items: ArtifactItem[] }>('GET', `/v1/${kind}`);
        showList(context, data, `No ${many} on this node\n`, {
          head: ['NAME', 'SOURCE', 'STATE', 'SIZE', 'AGE', 'REPO', 'REVISION', 'RESOLVED'],
          row: (item) => [
            item.name,
            item.shadowed ? 'local (shadowed)' : item.source,
            item.state === 'Pulling' ? `Pulling ${item.percentage ?? 0}%` : item.state,
            bytes(item.totalBytes),
            ageOf(item.pulledAt),
            item.repo,
            item.revision,
            (item.resolvedRevision ?? '').replace('sha256:', '').slice(0, 12),
          ],
        });
      },
    },
    {
      name: `${noun} inspect`,
      usage: '<name>',
      words: { max: 1 },
      about: `Show everything about one ${noun === 'model' ? 'model' : 'item of knowledge'}`,
      run: async (context) => {
        const name = required(context, 'the name');
        const path = `/v1/${kind}/${encodeURIComponent(name)}`;
        const data = await context.client.call<Record<string, unknown>>('GET', path);
        show(context, data, () => structured(data, 'yaml'));
      },
    },
    {
      name: `${noun} pull`,
      usage: '<name>',
      words: { max: 1 },
      flags: {
        repo: { value: '<repo>', about: 'repository without host; with --registry, adds or changes it first' },
        revision: { value: '<revision>', about: 'tag, branch, digest or commit' },
        registry: { short: 'r', value: '<id>', about: 'id of a registry of this machine' },
        files: { value: '<glob>', isList: true, about: 'a file of a hub, or a glob of files' },
        format: { value: '<format>', about: 'its format' },
      },
      about: `Pull ${many === 'models' ? 'a model' : 'knowledge'} of this machine again, or for the first time`,
      run: async (context) => {
        const { repo, revision, files, format } = context.flags;
        const body = {
          name: required(context, 'the name'),
          ...{ repo, revision, registryId: registryIn(context.flags), files, format },
        };
        const begun = await context.client.call<PolledOperation>('POST', `/v1/${kind}:pull`, { body });
        const done = await untilPulled(context, kind, begun);
        show(context, done, () => `${done.name}: pulled\n`);
      },
    },
    {
      name: `${noun} rm`,
      usage: '<name>',
      words: { max: 1 },
      about: `Remove ${many === 'models' ? 'a model' : 'knowledge'} of this machine that no microservice binds`,
      run: (context) => removeAt(context, routeTo(`/v1/${kind}`, required(context, 'the name'))),
    },
    {
      name: `${noun} prune`,
      about: `Remove the ${many} that nothing uses any more`,
      run: async (context) => {
        const data = await context.client.call<{ removed: string[] }>('POST', `/v1/${kind}:prune`);
        show(
          context,
          data,
          () => `Removed ${data.removed.length}\n${data.removed.map((each) => `  ${each}\n`).join('')}`,
        );
      },
    },
  ];
}

/** Waits until an artifact is pulled; fails with why it is not. */
export function untilPulled(
  context: CommandContext,
  kind: ArtifactKind,
  pull: PolledOperation,
): Promise<PolledOperation> {
  return untilEnded(context, pull, {
    ...{ path: `/v1/${kind}:pull`, budget: PULL_BUDGET },
    hint: `The agent tries again by itself: skerry-agent ${ARTIFACT_NOUNS[kind]} ls shows how it goes on.`,
  });
}

/** A table, and below it the last errors. */
function showList<T extends { name: string; lastError?: string }>(
  context: CommandContext,
  data: { items: T[] },
  none: string,
  { head, row }: { head: readonly string[]; row: (item: T) => string[] },
): void {
  show(context, data, () => {
    if (data.items.length === 0) return none;
    const errors = data.items.filter(({ lastError }) => lastError);
    const below = errors.map(({ name, lastError }) => `\n${name}: ${lastError}`).join('');
    return table(head, data.items.map(row)) + (below && `${below}\n`);
  });
}

const ageOf = (at: number | undefined) => (at ? duration((Date.now() - at) / 1000) : '');
