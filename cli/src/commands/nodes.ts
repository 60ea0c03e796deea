import { v3Name } from '../../../src/rules/names.ts';
import { structured, table } from '../../../src/terminal/output.ts';
import { type Command, listNodes } from '../context/command.ts';
import { CommandError } from '../context/errors.ts';
import { readyOf } from '../objects/rows.ts';
import { conditionOf, isOutdated, NO_RELEASE, newestRelease, updateWaitsFor, wantedOf } from '../objects/versions.ts';

export const nodes: Command = {
  name: 'nodes',
  about: 'List the versions of the agents, and what a change waits for',
  details: [
    'WANTED is the version that was requested, else the newest release that the controller has for machines.',
    '--outdated leaves out the nodes with the newest release or a later one, unless a change is under way or failed.',
  ],
  examples: ['nodes --outdated', 'nodes --outdated --selector site=north', 'nodes -o json'],
  flags: {
    outdated: { about: 'nodes without the newest release of the agent only' },
    selector: { short: 'l', value: 'LABELS', about: 'nodes with these labels only' },
  },
  async run(context) {
    const { flags, format, out, err } = context;
    const newest = await newestRelease(context);
    if (newest === undefined && flags.outdated) throw new CommandError(NO_RELEASE);
    const rows = (await listNodes(context, flags.selector as string | undefined))
      .filter(
        (node) =>
          !flags.outdated ||
          isOutdated(node, newest) ||
          conditionOf(node, 'Updating') !== undefined ||
          conditionOf(node, 'UpdateFailed') !== undefined,
      )
      .map((node) => ({
        node: v3Name(node),
        ready: readyOf(node)?.status ?? 'Unknown',
        version: node.status?.version ?? '',
        wanted: wantedOf(node, newest) ?? '',
        waitsFor: updateWaitsFor(node, newest),
      }))
      .sort((a, b) => (a.node < b.node ? -1 : 1));
    if (format === 'json' || format === 'yaml') return out(structured({ newest, nodes: rows }, format));
    if (newest === undefined) err(`note: ${NO_RELEASE}\n`);
    if (rows.length === 0) return err(flags.outdated ? `Every agent runs ${newest} or newer.\n` : 'No nodes found.\n');
    const cells = rows.map((row) => [row.node, row.ready, row.version, row.wanted, row.waitsFor]);
    out(table(['NODE', 'READY', 'VERSION', 'WANTED', 'WAITS-FOR'], cells));
  },
};
