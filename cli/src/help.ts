import { table } from '../../src/terminal/output.ts';
import type { Command } from './command.ts';

/** Flags of every command. */
export const GLOBAL_FLAGS: NonNullable<Command['flags']> = {
  namespace: {
    type: 'string',
    short: 'n',
    value: 'NAME',
    about: 'namespace of the controller; that of the context, else skerry',
  },
  context: { type: 'string', value: 'NAME', about: 'context of the kubeconfig' },
  kubeconfig: { type: 'string', value: 'FILE', about: 'kubeconfig; $KUBECONFIG, else ~/.kube/config' },
  output: { type: 'string', short: 'o', value: 'FORMAT', about: 'wide, json or yaml' },
  help: { type: 'boolean', short: 'h', about: 'say what a command does' },
};

export const overview = (commands: readonly Command[]): string =>
  `kubectl skerry: containers on machines outside the cluster.\n\n${indented(
    commands.map(({ name, usage, about }) => [`${name} ${usage}`.trim(), about]),
  )}\nkubectl skerry COMMAND --help says more.\n`;

export function commandHelp({ name, usage, about, details = [], examples, flags = {} }: Command): string {
  const rows = Object.entries({ ...flags, ...GLOBAL_FLAGS }).map(([flag, { short, value, about }]) => [
    `${short ? `-${short}, ` : '    '}--${flag}${value ? ` ${value}` : ''}`,
    about,
  ]);
  const more = details.length > 0 ? `${details.join('\n')}\n\n` : '';
  const shown = examples.map((example) => `  kubectl skerry ${example}\n`).join('');
  return `${about}\n\nUsage: kubectl skerry ${name} ${usage}\n\n${more}Examples:\n${shown}\nFlags:\n${indented(rows)}`;
}

const indented = (rows: readonly (readonly string[])[]) =>
  table(rows[0] ?? [], rows.slice(1)).replace(/^(?=.)/gm, '  ');
