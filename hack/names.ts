import { isTestFile } from './repository.ts';

/** Names that several files may export, and why. */
interface NameConventions {
  /** Each program has its own, and no other file exports the name. */
  names: Readonly<Record<string, string>>;
  /** Files, by the start of their path, whose exports are the words of a table. */
  tables: Readonly<Record<string, string>>;
}

const PROGRAM = 'each program has its own';

const CONVENTIONS: NameConventions = {
  names: {
    COMMANDS: PROGRAM,
    Command: PROGRAM,
    CommandContext: PROGRAM,
    Config: PROGRAM,
    ConfigError: PROGRAM,
    FORMATS: PROGRAM,
    Format: PROGRAM,
    ProcessEvents: PROGRAM,
    TransportError: PROGRAM,
    createLog: PROGRAM,
    systemClock: PROGRAM,
    watchUnhandled: PROGRAM,
  },
  tables: { 'cli/src/commands/': 'a command is called as it is typed' },
};

const PRODUCT = /^(?:src|agent\/src|cli\/src)\/.*\.ts$/;
const DEFINITION =
  /^export (?:declare |abstract |async )*(?:const|let|class|interface|type|enum|function\*?) ([A-Za-z_$][\w$]*)/gm;

/**
 * Errors in the names that product code exports, by path and text of each file: a name that files export with
 * different definitions, and a convention that nothing needs. An export of what another file defines is no definition.
 */
export function findDoubleNames(files: ReadonlyMap<string, string>, conventions = CONVENTIONS): string[] {
  const byName = new Map<string, Set<string>>();
  for (const [file, text] of files) {
    if (!PRODUCT.test(file) || isTestFile(file)) continue;
    if (Object.keys(conventions.tables).some((start) => file.startsWith(start))) continue;
    for (const [, name = ''] of text.matchAll(DEFINITION)) byName.set(name, (byName.get(name) ?? new Set()).add(file));
  }
  const doubles = [...byName].filter(([, definers]) => definers.size > 1);
  const wrong = doubles.filter(([name, definers]) => !(name in conventions.names && isOneEach([...definers])));
  const unneeded = Object.keys(conventions.names).filter((name) => !doubles.some(([double]) => double === name));
  return [
    ...wrong.map(([name, definers]) => `${name} is exported by ${[...definers].sort().join(' and ')}`),
    ...unneeded.map((name) => `the convention about ${name} is not needed: one file exports it`),
  ].sort();
}

/** Whether each file belongs to another program. */
const isOneEach = (files: readonly string[]) =>
  new Set(files.map((file) => file.slice(0, file.indexOf('/')))).size === files.length;
