import { v3Name } from '../../../src/domain/names.ts';
import { structured, table } from '../../../src/terminal/output.ts';
import { paint } from '../colours.ts';
import { type Command, type CommandContext, catalogItemsFor, listApplications, listNodes } from '../command.ts';
import { CommandError, UsageError } from '../errors.ts';
import {
  APPLICATION_COLUMNS,
  type Column,
  MICROSERVICE_COLUMNS,
  microserviceRows,
  microserviceTone,
  NODE_COLUMNS,
  type Tone,
  toneOf,
} from '../rows.ts';

/** What `get` shows: rows with columns, a tone for each row, and the data for -o json. */
interface Listing<T> {
  names: readonly string[];
  columns: readonly Column<T>[];
  rows(context: CommandContext): Promise<readonly T[]>;
  nameOf(row: T): string;
  tone(row: T): Tone;
  data(row: T): unknown;
}
const listing = <T>(value: Listing<T>) => value as Listing<unknown>;

const LISTINGS: readonly Listing<unknown>[] = [
  listing({
    names: ['nodes', 'node', 'edgenodes', 'en'],
    columns: NODE_COLUMNS,
    rows: async (context) => (await listNodes(context)).map((node) => ({ node, now: context.now() })),
    nameOf: ({ node }) => v3Name(node),
    tone: ({ node }) => toneOf(node),
    data: ({ node }) => node,
  }),
  listing({
    names: ['apps', 'app', 'applications', 'application'],
    columns: APPLICATION_COLUMNS,
    rows: async (context) =>
      (await listApplications(context)).map((application) => ({ application, now: context.now() })),
    nameOf: ({ application }) => v3Name(application),
    tone: ({ application }) => toneOf(application),
    data: ({ application }) => application,
  }),
  listing({
    names: ['ms', 'microservices', 'microservice'],
    columns: MICROSERVICE_COLUMNS,
    async rows(context) {
      const [applications, nodes] = await Promise.all([listApplications(context), listNodes(context)]);
      const catalogItems = context.format === 'wide' ? await catalogItemsFor(context, applications) : [];
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
  }),
];

export const get: Command = {
  name: 'get',
  usage: 'nodes|apps|ms [NAME]',
  about: 'List nodes, applications or microservices',
  examples: ['get nodes', 'get apps -o wide', 'get ms --node gw-1', 'get ms plant-a/reader -o yaml'],
  flags: {
    app: { type: 'string', value: 'NAME', about: 'microservices of this application only' },
    node: { type: 'string', value: 'NAME', about: 'microservices on this node only' },
  },
  words: { min: 1, max: 2 },
  async complete(context, [what]) {
    if (what === undefined) return LISTINGS.map(({ names }) => names[0] ?? '');
    const { rows, nameOf } = listingNamed(what);
    return (await rows(context)).map(nameOf);
  },
  async run(context) {
    const [what = '', name] = context.words;
    const { columns, rows, nameOf, tone, data } = listingNamed(what);
    const all = [...(await rows(context))].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
    const chosen = name === undefined ? all : all.filter((row) => nameOf(row) === name);
    if (name !== undefined && chosen.length === 0) throw new CommandError(`there is no ${what} "${name}"`);
    const { format, out, raw, err, colours } = context;
    if (format === 'json' || format === 'yaml') {
      const items = chosen.map(data);
      out(structured(name === undefined ? { apiVersion: 'v1', kind: 'List', items } : items[0], format));
      return;
    }
    if (chosen.length === 0) return err(`No ${what} found in namespace ${context.cluster.namespace}.\n`);
    const shown = columns.filter(({ wide }) => format === 'wide' || !wide);
    const cells = chosen.map((row) => shown.map((column) => column.of(row)));
    const [head = '', ...lines] = table(
      shown.map(({ title }) => title),
      cells,
    )
      .trimEnd()
      .split('\n');
    // The cells are filtered by `table`.
    raw(`${[head, ...lines.map((line, index) => paint(line, tone(chosen[index]), colours))].join('\n')}\n`);
  },
};

function listingNamed(what: string): Listing<unknown> {
  const found = LISTINGS.find(({ names }) => names.includes(what));
  if (found) return found;
  throw new UsageError(`"${what}" must be one of ${LISTINGS.map(({ names }) => names[0]).join(', ')}`);
}
