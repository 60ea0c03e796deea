import { expect, test } from 'vitest';
import { PROGRAM } from './_program.ts';
import { LineError } from './command.ts';
import { findCommand, parseArguments, readLine } from './line.ts';

test.for([
  [['get', '-n', 'x'], 'get', ['-n', 'x']],
  [['-n', 'x', 'get', 'apps'], 'get', ['-n', 'x', 'apps']],
  [['-nx', '--namespace=y', 'get'], 'get', ['-nx', '--namespace=y']],
  [['-n'], undefined, ['-n']],
  [['--help'], undefined, ['--help']],
  [['--version'], 'version', []],
  [['-h', 'get'], 'get', ['-h']],
  [['--tail', '-1', 'logs'], 'logs', ['--tail', '-1']],
  [['crew', '-o', 'json', 'ls', 'x'], 'crew ls', ['-o', 'json', 'x']],
  [['please', 'crew', 'ls'], 'crew ls', []],
  [['-n', 'please', 'get'], 'get', ['-n', 'please']],
  [['get', '-1.5'], 'get', ['-1.5']],
] as const)('%j: flags may stand before the command', ([line, name, args]) => {
  const found = findCommand(line, PROGRAM);
  expect([found.command?.name, found.args]).toEqual([name, args]);
});

test.for([
  [['crew', 'ls', 'all'], 'crew ls all', []],
  [['crew', 'ls', 'al'], 'crew ls', ['al']],
  [['crew', 'ls'], 'crew ls', []],
] as const)('%j: the longest name of a command counts', ([line, name, args]) => {
  const longer = { ...PROGRAM, commands: [...PROGRAM.commands, { name: 'crew ls all', about: 'List everyone' }] };
  const found = findCommand(line, longer);
  expect([found.command?.name, found.args]).toEqual([name, args]);
});

test('a flag that commands read in two ways does not stand before the command', () => {
  expect(findCommand(['-f', 'get'], PROGRAM)).toMatchObject({ stray: '-f' });
});

const flags = Object.assign({}, PROGRAM.flags, ...PROGRAM.commands.slice(0, 2).map((command) => command.flags));
test.for([
  [['--follow=true'], { follow: true }, []],
  [['--follow=false', 'a'], {}, ['a']],
  [['--tail', '-1', 'a'], { tail: '-1' }, ['a']],
  [['--namespace=true'], { namespace: 'true' }, []],
  [['-ft', '-nx', '-o=json'], { follow: true, tty: true, namespace: 'x', output: 'json' }, []],
  [['-fn', 'x', '-n', 'y'], { follow: true, namespace: 'y' }, []],
  [['--namespace', '-'], { namespace: '-' }, []],
  [['-', 'a', '--', '--follow=true', '--tail', '-1'], {}, ['-', 'a', '--follow=true', '--tail', '-1']],
] as const)('%j: flags are read as kubectl reads them', ([args, values, words]) => {
  expect(parseArguments(args, flags)).toEqual({ flags: values, words });
});

test('a flag that is a list collects its values', () => {
  expect(readLine(['load', '-f', 'a', '--filename=b'], PROGRAM)).toMatchObject({ flags: { filename: ['a', 'b'] } });
});

test.for([
  [['sail'], 'there is no command "sail"', { choices: [] }],
  [['crew', 'sail'], 'there is no command "crew sail"', { choices: ['crew ls', 'crew rm'] }],
  [['crew'], '"crew" is not a whole command', { choices: ['crew ls', 'crew rm'] }],
  [['help', 'sail'], 'there is no command "sail"', {}],
  [['--fleet', 'get'], 'there is no command: the command goes before "--fleet"', { command: undefined }],
  [['get', 'a', '--fleet'], '"get" has no flag --fleet', { command: 'get' }],
  [['help', '-z'], '"help" has no flag -z', { command: 'help' }],
  [['logs', '-fz'], '"logs" has no flag -z; flags of a boat go behind --', { command: 'logs' }],
  [['logs', '--tail', '--follow'], '--tail needs a value', { command: 'logs' }],
  [['logs', '--follow=no'], '--follow takes no value', { command: 'logs' }],
  [['get'], 'usage: boat get NAME...', { command: 'get' }],
  [['crew', 'ls', 'x'], '"crew ls" takes no words; too much: x', { command: 'crew ls' }],
  [['crew', 'rm', 'a', 'b'], '"crew rm" takes <name> alone; too much: b', { command: 'crew rm' }],
] as const)('%j is refused', ([args, message, details]) => {
  let error: unknown;
  try {
    readLine(args, PROGRAM);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(LineError);
  expect(error).toMatchObject({ message, ...details });
});

const PAGE = `List

Usage: boat get NAME...

More.

Examples:
  boat get x
  boat get y

Flags:
  -n, --namespace NAME   where
  -o, --output FORMAT    how
  -h, --help             say more
`;
const BELOW = `boat COMMAND --help says more.

Flags:
  -n, --namespace NAME   where
  -o, --output FORMAT    how
  -h, --help             say more
`;
const GROUP = `boat: moves goods.

  crew ls          List the crew
  crew rm <name>   Remove one

${BELOW}`;
const OVERVIEW = `boat: moves goods.

  get NAME...      List
  logs [NAME]      Show lines
  load             Load
  crew ls          List the crew
  crew rm <name>   Remove one
  version          Say the version

${BELOW}`;
test.for([
  [['get', '--help'], PAGE],
  [['help', 'get'], PAGE],
  [['-h', 'get'], PAGE],
  [['crew', '--help'], GROUP],
  [['help', 'crew'], GROUP],
  [['--help'], OVERVIEW],
  [['-n', 'x'], OVERVIEW],
  [[], OVERVIEW],
] as const)('%j prints help', ([args, page]) => {
  expect(readLine(args, PROGRAM)).toEqual({ page });
});
