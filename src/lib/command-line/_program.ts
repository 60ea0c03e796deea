import type { CommandForm, CommandLine } from './command.ts';

/** A program with a group of commands, and with a letter that two commands use for flags of two kinds. */
export const PROGRAM: CommandLine<CommandForm> = {
  name: 'boat',
  about: 'boat: moves goods.',
  notes: ['boat COMMAND --help says more.'],
  silentWord: 'please',
  flags: {
    namespace: { short: 'n', value: 'NAME', about: 'where' },
    output: { short: 'o', value: 'FORMAT', values: ['json', 'yaml'], about: 'how' },
    help: { short: 'h', about: 'say more' },
  },
  commands: [
    {
      name: 'get',
      usage: 'NAME...',
      words: { min: 1, max: 2 },
      about: 'List',
      examples: ['get x', 'get y'],
      details: ['More.'],
    },
    {
      name: 'logs',
      words: { max: 1 },
      usage: '[NAME]',
      about: 'Show lines',
      flags: {
        follow: { short: 'f', about: 'go on' },
        tty: { short: 't', about: 'with a terminal' },
        tail: { value: 'LINES', about: 'how many' },
      },
      hint: 'flags of a boat go behind --',
    },
    { name: 'load', about: 'Load', flags: { filename: { short: 'f', value: 'FILE', isList: true, about: 'what' } } },
    { name: 'crew ls', about: 'List the crew' },
    { name: 'crew rm', about: 'Remove one', usage: '<name>', words: { max: 1 } },
    { name: 'version', about: 'Say the version' },
  ],
};
