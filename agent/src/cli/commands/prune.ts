import { bytes } from '../../../../src/terminal/output.ts';
import { type CommandContext, show } from './command.ts';

/** The report of a prune, as far as it is shown. */
export interface PruneReport {
  deleted: string[];
  modelsRemoved?: string[];
  spaceReclaimedBytes?: number;
  errors?: Record<string, string>;
  message: string;
}

/** Shows what a prune removed. What could not be removed makes the exit code 1. */
export function showPruned(context: CommandContext, data: PruneReport): void {
  const { deleted, modelsRemoved = [], spaceReclaimedBytes: space, errors = {}, message } = data;
  const stays = Object.entries(errors).map(([what, why]) => `Stays: ${what}: ${why}\n`);
  const names = [...deleted, ...modelsRemoved].map((name) => `  ${name}\n`);
  const freed = space === undefined ? '' : `, ${bytes(space)} freed`;
  show(context, data, () => `Removed ${names.length}${freed}. ${message}.\n${[...names, ...stays].join('')}`);
  if (stays.length > 0) context.exitWith(1);
}
