import { duration, table } from '../../../../src/terminal/output.ts';
import type { PrunedVolume, VolumeClaim, VolumePruneReport } from '../../domain/volume.ts';
import { CliError } from '../../local-api/client.ts';
import { type Command, type CommandContext, REMOVAL, required, show } from './command.ts';

/** The volumes of this machine. */
export const VOLUME_COMMANDS: readonly Command[] = [
  {
    name: 'volume ls',
    about: 'List the volumes of this node, and who wants them',
    run: async (context) => {
      const data = await context.client.call<{ volumes: VolumeClaim[] }>('GET', '/v1/volumes');
      show(context, data, () =>
        data.volumes.length === 0
          ? 'No volumes on this node\n'
          : table(
              ['NAME', 'SCOPE', 'UUID', 'WANTED', 'MICROSERVICES', 'PATH'],
              data.volumes.map((claim) => [
                ...[claim.name, claim.scope, claim.uuid ?? ''],
                wantedText(claim),
                claim.consumers
                  .map(({ application, name, uuid }) => (name ? `${application}.${name}` : uuid))
                  .join(', '),
                claim.hostPath,
              ]),
            ),
      );
    },
  },
  {
    name: 'volume rm',
    usage: '<uuid> [<name>] | --shared <name>',
    words: { max: 2 },
    about: 'Destroy the private volumes of a microservice, or a shared volume, with their data',
    flags: {
      shared: { value: '<name>', about: 'the shared volume of this name' },
      force: { about: 'although its microservice is to run here; never while it is mounted' },
    },
    examples: ['volume rm 0f2c9a54-6d1e-4b0a-9d77-2f6f0a3c1b11 db', 'volume rm --shared pool'],
    run: async (context) => {
      const { client, words, flags } = context;
      const query = new URLSearchParams(flags.force ? { force: 'true' } : {});
      if (flags.shared !== undefined) {
        if (words.length > 0)
          throw new CliError(
            'INVALID_ARGUMENT',
            `"${words[0]}": a shared volume has no uuid`,
            'See: skerry-agent volume rm --help',
          );
        const path = `/v1/volumes/shared/${encodeURIComponent(String(flags.shared))}?${query}`;
        const data = await client.call<{ name: string }>('DELETE', path, { deadline: REMOVAL });
        return show(context, data, () => `Shared volume ${data.name}: destroyed\n`);
      }
      const uuid = required(context, 'the uuid of the microservice, or --shared');
      if (words[1] !== undefined) query.set('name', words[1]);
      const path = `/v1/volumes/${encodeURIComponent(uuid)}?${query}`;
      const data = await client.call<{ names: string[] }>('DELETE', path, { deadline: REMOVAL });
      show(context, data, () => data.names.map((name) => `Volume ${name} of ${uuid}: destroyed\n`).join(''));
    },
  },
  {
    name: 'volume prune',
    about: 'Show the volumes that nothing has wanted for a day, or destroy them',
    flags: {
      yes: { about: 'destroy them, with their data' },
      force: { about: 'those too that nothing has wanted for less than a day' },
      orphans: { about: 'those that nothing wants, which is always so' },
    },
    examples: ['volume prune', 'volume prune --yes'],
    run: async (context) => {
      const { client, flags } = context;
      const body = { yes: flags.yes === true, force: flags.force === true };
      const report = await client.call<VolumePruneReport>('POST', '/v1/volumes:prune', { body, deadline: REMOVAL });
      show(context, report, () => pruneText(report));
      if (report.status === 'partial') context.exitWith(1);
    },
  },
];

function wantedText({ desired, unreferencedAt }: VolumeClaim): string {
  if (desired) return 'yes';
  return unreferencedAt === undefined ? 'no' : `no, for ${ageOf(unreferencedAt)}`;
}

const ageOf = (time: string) => duration(Math.max(0, Date.now() - Date.parse(time)) / 1000);

function pruneText({ dryRun, candidates, deleted, skipped }: VolumePruneReport): string {
  const stays = skippedText(skipped);
  if (!dryRun) return `Destroyed ${deleted.length}\n${listText(deleted)}${stays}`;
  if (candidates.length === 0) return `Nothing would be destroyed\n${stays}`;
  return `Would destroy ${candidates.length}; with --yes it does\n${listText(candidates)}${stays}`;
}

const listText = (volumes: readonly PrunedVolume[]): string =>
  volumes.length === 0
    ? ''
    : table(
        ['NAME', 'SCOPE', 'UUID', 'PATH'],
        volumes.map(({ name, scope, uuid, hostPath }) => [name, scope, uuid ?? '', hostPath]),
      );

const skippedText = (volumes: readonly PrunedVolume[]): string =>
  volumes.map(({ hostPath, reason }) => `Stays: ${hostPath}: ${reason}\n`).join('');

/** What `deprovision --purge-volumes` did with volumes. */
export interface Purge {
  status: 'ok' | 'partial' | 'failed';
  deleted: PrunedVolume[];
  skipped: PrunedVolume[];
  message?: string;
}

/** Says which volumes are destroyed; fails where some stay that were to go. */
export function showPurge({ deleted, skipped, message }: Purge, { out, format }: CommandContext): void {
  if (format === 'human') out(`Volumes destroyed: ${deleted.length}\n${listText(deleted)}`);
  const stays = skipped.map(({ hostPath, reason }) => `${hostPath}: ${reason}`);
  const why = message ?? stays.join('; ');
  if (why !== '')
    throw new CliError(
      'INCOMPLETE',
      `deprovisioned, but volumes stay: ${why}`,
      'See: skerry-agent volume prune --help',
    );
}
