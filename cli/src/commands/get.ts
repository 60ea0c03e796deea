import { v3Name } from '../../../src/rules/names.ts';
import { nearestOf } from '../../../src/rules/nearest.ts';
import { structured, table } from '../../../src/terminal/output.ts';
import type { Command, CommandContext } from '../context/command.ts';
import { CommandError, UsageError } from '../context/errors.ts';
import { paint } from '../objects/colours.ts';
import { type Fleet, type FleetQuery, followFleet, readFleet } from '../objects/fleet.ts';
import {
  APPLICATION_COLUMNS,
  type Column,
  MICROSERVICE_COLUMNS,
  microserviceRows,
  microserviceTone,
  NODE_COLUMNS,
  SERVICE_COLUMNS,
  type Tone,
  toneOf,
} from '../objects/rows.ts';

/** What `get` shows: rows with columns, a tone for each row, and the data for -o json. */
interface Listing<T> {
  names: readonly string[];
  /** one row, for people */
  noun: string;
  /** what the rows are made from */
  wanted(context: CommandContext): FleetQuery;
  columns: readonly Column<T>[];
  rows(fleet: Fleet, context: CommandContext): readonly T[];
  nameOf(row: T): string;
  tone(row: T): Tone;
  data(row: T): unknown;
  /** what a person may have meant by a name that no row has */
  hint?(name: string, rows: readonly T[]): string;
}
const listing = <T>(value: Listing<T>) => value as Listing<unknown>;

const LISTINGS: readonly Listing<unknown>[] = [
  listing({
    noun: 'node',
    names: ['nodes', 'node', 'edgenodes', 'en'],
    wanted: () => ({ nodes: true }),
    columns: NODE_COLUMNS,
    rows: ({ nodes }, context) => nodes.map((node) => ({ node, now: context.now() })),
    nameOf: ({ node }) => v3Name(node),
    tone: ({ node }) => toneOf(node),
    data: ({ node }) => node,
  }),
  listing({
    noun: 'application',
    names: ['apps', 'app', 'applications', 'application'],
    wanted: () => ({ applications: true }),
    columns: APPLICATION_COLUMNS,
    rows: ({ applications }, context) => applications.map((application) => ({ application, now: context.now() })),
    nameOf: ({ application }) => v3Name(application),
    tone: ({ application }) => toneOf(application),
    data: ({ application }) => application,
  }),
  listing({
    noun: 'microservice',
    names: ['ms', 'microservices', 'microservice'],
    wanted: ({ format }) => ({ nodes: true, applications: true, catalogItems: format === 'wide' }),
    columns: MICROSERVICE_COLUMNS,
    rows({ applications, nodes, catalogItems }, context) {
      const { app, node } = context.flags;
      return microserviceRows(applications, nodes, catalogItems, context.now()).filter(
        ({ application, entry }) =>
          (app === undefined || v3Name(application) === app) &&
          (node === undefined || entry.agent?.name === node || entry.agent?.uuid === node),
      );
    },
    nameOf: ({ application, entry }) => `${v3Name(application)}/${entry.name}`,
    tone: microserviceTone,
    data: ({ application, entry, uuid, line, observed }) => ({
      application: v3Name(application),
      uuid,
      ...entry,
      status: { ...line, ...observed },
    }),
    hint(name, rows) {
      if (name.includes('/')) return '';
      if (rows.some(({ application }) => v3Name(application) === name))
        return `; it is an application, whose microservices "kubectl skerry get ms --app ${name}" lists`;
      const [one] = rows.filter(({ entry }) => entry.name === name);
      return one ? `; give the application too: ${v3Name(one.application)}/${name}` : '; give APPLICATION/MICROSERVICE';
    },
  }),
  listing({
    noun: 'service',
    names: ['services', 'service', 'svc', 'esvc'],
    wanted: () => ({ services: true }),
    columns: SERVICE_COLUMNS,
    rows: ({ services }, context) => services.map((service) => ({ service, now: context.now() })),
    nameOf: ({ service }) => service.metadata.name,
    tone: ({ service }) => toneOf(service),
    data: ({ service }) => service,
  }),
];

export const get: Command = {
  name: 'get',
  usage: 'nodes|apps|ms|services [NAME]',
  about: 'List nodes, applications, microservices or services',
  examples: [
    'get nodes',
    'get apps -o wide',
    'get ms --node gw-1',
    'get ms plant-a/reader -o yaml',
    'get ms -w',
    'get services',
  ],
  flags: {
    app: { value: 'NAME', about: 'microservices of this application only' },
    node: { value: 'NAME', about: 'microservices on this node only' },
    watch: { short: 'w', about: 'then print each row that changes, until Ctrl-C' },
  },
  words: { min: 1, max: 2 },
  async complete(context, [what]) {
    if (what === undefined) return LISTINGS.map(({ names }) => names[0] ?? '');
    const { rows, nameOf, wanted } = listingNamed(what);
    return rows(await readFleet(context, wanted(context)), context).map(nameOf);
  },
  async run(context) {
    const [what = '', name] = context.words;
    const listing = listingNamed(what);
    const { rows, nameOf, data, wanted } = listing;
    const { format, out, err, flags } = context;
    const isData = format === 'json' || format === 'yaml';
    if (flags.watch && isData) throw new UsageError('--watch prints rows: leave out --output, or say -o wide');
    const rowsOf = (fleet: Fleet) => {
      const all = [...rows(fleet, context)].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
      return { all, chosen: name === undefined ? all : all.filter((row) => nameOf(row) === name) };
    };
    const fleet = await readFleet(context, wanted(context));
    const { all, chosen } = rowsOf(fleet);
    if (name !== undefined && chosen.length === 0)
      throw new CommandError(`there is no ${listing.noun} "${name}"${hintOf(listing, name, all)}`);
    if (isData) {
      const items = chosen.map(data);
      return out(structured(name === undefined ? { apiVersion: 'v1', kind: 'List', items } : items[0], format));
    }
    if (chosen.length === 0) err(`No ${what} found in namespace ${context.cluster.namespace}.\n`);
    const print = printerOf(listing, context);
    print(chosen);
    if (!flags.watch) return;
    for await (const later of followFleet(context, wanted(context), fleet)) print(rowsOf(later).chosen);
    context.signal.throwIfAborted();
  },
};

function hintOf({ nameOf, hint }: Listing<unknown>, name: string, rows: readonly unknown[]): string {
  const nearest = nearestOf(name, rows.map(nameOf));
  return nearest === undefined ? (hint?.(name, rows) ?? '') : `; did you mean ${nearest}?`;
}

/** Prints the head before the first row, then each row that is new or changed; what changes with the time alone does not count. */
function printerOf({ columns, nameOf, tone }: Listing<unknown>, { format, raw, colours }: CommandContext) {
  const isWide = format === 'wide';
  const shown = columns.filter(({ wide }) => isWide || !wide);
  const printed = new Map<string, string>();
  return (rows: readonly unknown[]) => {
    if (rows.length === 0) return;
    const cells = rows.map((row) => shown.map(({ of, brief }) => (isWide ? of : (brief ?? of))(row)));
    // The cells are filtered by `table`.
    const [head = '', ...lines] = table(
      shown.map(({ title }) => title),
      cells,
    )
      .trimEnd()
      .split('\n');
    const news = rows.flatMap((row, index) => {
      const state = JSON.stringify(shown.map(({ isTime }, at) => (isTime ? '' : cells[index]?.[at])));
      if (printed.get(nameOf(row)) === state) return [];
      if (printed.size === 0) raw(`${head}\n`);
      printed.set(nameOf(row), state);
      return [`${paint(lines[index] ?? '', tone(row), colours)}\n`];
    });
    raw(news.join(''));
  };
}

function listingNamed(what: string): Listing<unknown> {
  const found = LISTINGS.find(({ names }) => names.includes(what));
  if (found) return found;
  throw new UsageError(`"${what}" must be one of ${LISTINGS.map(({ names }) => names[0]).join(', ')}`);
}
