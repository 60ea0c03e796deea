import { ARCHITECTURES } from '../../../src/api/names.ts';
import type { Application, CatalogItem, EdgeNode, MicroserviceEntry } from '../../../src/api/v3/index.ts';
import { nodeUuid } from '../../../src/rules/identity.ts';
import { v3Name } from '../../../src/rules/names.ts';
import { archOf } from '../../../src/subjects/nodes/rules/settings.ts';
import { facts, table } from '../../../src/terminal/output.ts';
import {
  applicationNamed,
  type Command,
  type CommandContext,
  catalogItemsFor,
  findNamed,
  findNodeByUuid,
  listApplications,
  listNodes,
  NODES,
  nodeNamed,
  target,
} from '../context/command.ts';
import { CommandError, UsageError } from '../context/errors.ts';
import { eventsOf } from '../objects/events.ts';
import { hasPlatform, platformTodos } from '../objects/platform.ts';
import { imageOf, MICROSERVICE_COLUMNS, type MicroserviceRow, microserviceRows, nodeText } from '../objects/rows.ts';

/** By the word after `describe`: the page of one object. */
const PAGES: Readonly<Record<string, (context: CommandContext, name: string) => Promise<string>>> = {
  node: describeNode,
  app: describeApplication,
  ms: describeMicroservice,
};

export const describe: Command = {
  name: 'describe',
  usage: 'node|app|ms NAME',
  about: 'Say everything that is known of a node, an application or a microservice',
  examples: ['describe node gw-1', 'describe app plant-a', 'describe ms plant-a/reader'],
  words: { min: 2, max: 2 },
  async complete(context, [what]) {
    if (what === undefined) return Object.keys(PAGES);
    if (what === 'node') return (await listNodes(context)).map(v3Name);
    const applications = await listApplications(context);
    if (what === 'app') return applications.map(v3Name);
    return microserviceRows(applications, [], [], 0).map(
      ({ application, entry }) => `${v3Name(application)}/${entry.name}`,
    );
  },
  async run(context) {
    const [what = '', name = ''] = context.words;
    const page = PAGES[what];
    if (!page) throw new UsageError(`"${what}" must be one of ${Object.keys(PAGES).join(', ')}`);
    const { format } = context;
    if (format === 'json' || format === 'yaml')
      throw new UsageError(`describe is for people; "kubectl skerry get ${what} ${name} -o ${format}" prints data`);
    context.out(await page(context, name));
  },
};

async function describeNode(context: CommandContext, name: string): Promise<string> {
  const node = await nodeNamed(context, name);
  const { spec, status } = node;
  // The API server has no index of what runs on a node.
  const applications = await listApplications(context);
  const rowsWith = (catalogItems: readonly CatalogItem[]) =>
    microserviceRows(applications, [node], catalogItems, context.now()).filter((row) => row.node);
  const shown = rowsWith([]).map(({ application }) => application);
  const rows = rowsWith(await catalogItemsFor(context, shown));
  return page(
    facts([
      ['Name', v3Name(node)],
      ['UUID', nodeUuid(node)],
      ['Description', spec.description],
      ['Location', spec.location],
      ['Status', status?.daemonStatus],
      ['Last seen', status?.silentSince],
      ['Confirmed', status?.lastSeenTime],
      ['Agent', status?.version],
      ['Address', status?.ipAddress],
      ['Architecture', ARCHITECTURES[archOf(node)]],
      ['Engine', status?.containerEngine],
      ['System', [status?.systemOs, status?.systemOsVersion].filter(Boolean).join(', ')],
      ['Runtimes', status?.availableRuntimes?.join(', ')],
      ['Warning', status?.warningMessage === 'HEALTHY' ? undefined : status?.warningMessage],
      ['Platform', platformText(node)],
    ]),
    conditions(node),
    section(
      'Next steps',
      ['CONDITION', 'WHAT TO DO'],
      platformTodos(node).map(({ condition, todo }) => [condition, todo]),
    ),
    microservices(rows),
    await eventsOf(context, node),
  );
}

/** The phase of the platform, and what keeps it from another one; nothing while the platform is in order. */
function platformText(node: EdgeNode): string | undefined {
  const { phase, lastError } = node.status?.platformStatus ?? {};
  if (!phase || (phase === 'Ready' && !hasPlatform(node))) return undefined;
  return lastError ? `${phase}: ${lastError}` : phase;
}

async function describeApplication(context: CommandContext, name: string): Promise<string> {
  const application = await applicationNamed(context, name);
  const { spec, status } = application;
  const rows = await rowsOf(context, application);
  return page(
    facts([
      ['Name', v3Name(application)],
      ['UUID', status?.uuid],
      ['Id', status?.id],
      ['Description', spec.description],
      ['Activated', spec.isActivated ?? true],
      ['Ready', status?.ready],
      ['Template', spec.template?.name],
    ]),
    conditions(application),
    microservices(rows),
    await eventsOf(context, application),
  );
}

async function describeMicroservice(context: CommandContext, name: string): Promise<string> {
  const { application: of, microservice } = target(name);
  if (microservice === undefined) throw new UsageError(`"${name}" must be <application>/<microservice>`);
  const application = await applicationNamed(context, of);
  const isMeant = (entry: MicroserviceEntry) => entry.name === microservice;
  const [row] = await rowsOf(context, application, isMeant);
  if (!row) throw new CommandError(`there is no microservice "${name}"; kubectl skerry get ms lists them`);
  const { entry, observed, line } = row;
  const ports = (entry.container?.ports ?? []).map(({ internal, external }) => `${external}->${internal}`);
  return page(
    facts([
      ['Name', name],
      ['UUID', row.uuid],
      ['Node', nodeText(row)],
      ['Image', imageOf(row)],
      ['Ports', ports.join(', ')],
      ['Activated', entry.isActivated ?? true],
      ['State', line?.state],
      ['Ready', line?.ready],
      ['Reason', observed?.reason],
      ['Message', line?.message],
      ['Health', [observed?.healthStatus, observed?.healthMessage].filter(Boolean).join(': ')],
      ['Started', timeOf(observed?.startTime)],
      ['Restarts', observed?.restartCount],
      ['Last error', observed?.lastError],
      ['Last error at', timeOf(observed?.lastErrorAt)],
      ['Revision', observed?.revision],
    ]),
    await eventsOf(context, row.application, microservice),
  );
}

/** The rows of one application; of the fleet, only their nodes are read. */
async function rowsOf(
  context: CommandContext,
  application: Application,
  isMeant: (entry: MicroserviceEntry) => boolean = () => true,
): Promise<MicroserviceRow[]> {
  const meant = (application.spec.microservices ?? []).filter(isMeant);
  const lines = new Map(application.status?.microservices?.map((line) => [line.name, line]));
  const named = meant.flatMap(({ name, agent }) => {
    const { node, nodeUuid: uuid } = lines.get(name) ?? {};
    // It may still be on another node than its entry names.
    const isElsewhere = uuid !== undefined && node !== agent?.name && uuid !== agent?.uuid;
    return [...(agent ? [agent] : []), ...(isElsewhere ? [{ uuid, name: undefined }] : [])];
  });
  const agents = new Map(named.map((agent) => [JSON.stringify(agent), agent]));
  const nodes = await Promise.all(
    [...agents.values()].map(({ uuid, name = '' }) =>
      uuid ? findNodeByUuid(context, uuid) : findNamed(context, NODES, name),
    ),
  );
  const found = nodes.filter((node) => node !== undefined);
  const catalogItems = await catalogItemsFor(context, [application]);
  return microserviceRows([application], found, catalogItems, context.now()).filter(({ entry }) => isMeant(entry));
}

function conditions({ status }: EdgeNode | Application): string {
  const rows = (status?.conditions ?? []).map(({ type, status, reason, message, lastTransitionTime }) => [
    type,
    status,
    reason,
    lastTransitionTime,
    message,
  ]);
  return section('Conditions', ['TYPE', 'STATUS', 'REASON', 'SINCE', 'MESSAGE'], rows);
}

function microservices(rows: readonly MicroserviceRow[]): string {
  const columns = MICROSERVICE_COLUMNS.filter(({ title }) => title !== 'UUID');
  return section(
    'Microservices',
    columns.map(({ title }) => title),
    rows.map((row) => columns.map((column) => column.of(row))),
  );
}

const timeOf = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());

const section = (title: string, head: readonly string[], rows: readonly (readonly string[])[]) =>
  rows.length === 0 ? '' : `${title}:\n${table(head, rows).replace(/^(?=.)/gm, '  ')}`;

const page = (...parts: readonly string[]) => parts.filter((part) => part !== '').join('\n');
