import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { API_VERSION, LABELS } from '../../../src/api/names.ts';
import type { Application } from '../../../src/api/v3/index.ts';
import { isConflict, type KubeObject, type Resource, refOf } from '../../../src/kube/mod.ts';
import { v3Name } from '../../../src/rules/names.ts';
import { parseYamlDocuments } from '../../../src/rules/yaml.ts';
import { requestRebuild } from '../../../src/subjects/nodes/rules/actions.ts';
import {
  APPLICATIONS,
  applicationNamed,
  type Command,
  type CommandContext,
  FIELD_MANAGER,
} from '../context/command.ts';
import { CommandError, UsageError } from '../context/errors.ts';
import { documentWarnings, readWanted, type WantedObject } from '../objects/documents.ts';
import { missingReferences, type WrittenObject } from '../objects/missing.ts';

/** The length that one file may have. */
const MAX_BYTES = 8 * 2 ** 20;

export const apply: Command = {
  name: 'apply',
  usage: '-f FILE',
  about: 'Create or change objects from YAML or JSON, in the form of the v3 files or of kubectl',
  details: [
    'Fields are applied server-side: what the file does not name stays, and a field that another owner has set is a',
    'conflict unless --force-conflicts takes it over. A Microservice becomes an entry of its application. What an object names',
    'and the namespace does not have is written all the same, with a warning.',
  ],
  examples: ['apply -f plant-a.yaml', 'apply -f manifests/', 'apply -f - < microservice.yaml'],
  flags: {
    filename: {
      short: 'f',
      isList: true,
      value: 'FILE',
      about: 'file, folder, or - for the standard input',
    },
    'dry-run': { about: 'let the API server judge and change nothing' },
    'force-conflicts': { about: 'take over fields that have another owner' },
  },
  async run(context) {
    const sources = (context.flags.filename ?? []) as readonly string[];
    if (sources.length === 0) throw new UsageError('apply needs -f FILE');
    let failed = 0;
    const written: WrittenObject[] = [];
    for (const { place, document } of sources.flatMap(documentsOf)) {
      try {
        const wanted = readWanted(document);
        const warnings = documentWarnings(document);
        const { said, ...one } = await applyOne(context, wanted);
        written.push(one);
        context.out(`${said}${context.flags['dry-run'] ? ' (dry run)' : ''}\n`);
        for (const warning of warnings) context.err(`warning: ${place}: ${warning}\n`);
      } catch (error) {
        if (context.signal.aborted) throw error;
        failed++;
        context.err(`error: ${place}: ${explain(error)}\n`);
      }
    }
    // After all documents: one may name what a later one makes.
    for (const missing of await missingReferences(context, written)) context.err(`warning: ${missing}\n`);
    if (failed > 0) context.exitWith(1);
  },
};

interface Source {
  /** for messages: file and number of the document */
  place: string;
  document: unknown;
}

/** The documents of a file, of the standard input, or of the files of a folder. Throws CommandError for what cannot be read. */
export function documentsOf(source: string): Source[] {
  if (source !== '-' && statOf(source).isDirectory()) {
    const names = readdirSync(source).filter((name) => /\.(ya?ml|json)$/.test(name));
    return names.sort().flatMap((name) => documentsOf(join(source, name)));
  }
  const text = readFileSync(source === '-' ? 0 : source, 'utf8');
  if (text.length > MAX_BYTES) throw new CommandError(`${source} has more than ${MAX_BYTES} bytes`);
  return readAt(source, () => parseYamlDocuments(text)).flatMap((read, index) => {
    const place = `${source === '-' ? 'standard input' : source}, document number ${index + 1}`;
    const value = readAt(place, read);
    return value === null ? [] : [{ place, document: value }];
  });
}

function readAt<T>(place: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new CommandError(`${place}: ${explain(error)}`);
  }
}

function statOf(path: string) {
  try {
    return statSync(path);
  } catch {
    throw new CommandError(`${path}: there is no such file`);
  }
}

/** What was applied, and the line about it. */
type Applied = WrittenObject & { said: string };

function applyOne(context: CommandContext, wanted: WantedObject): Promise<Applied> {
  return 'entry' in wanted ? applyEntry(context, wanted) : applyObject(context, wanted);
}

async function applyObject(
  context: CommandContext,
  { resource, object, name, rebuild }: Exclude<WantedObject, { entry: unknown }>,
): Promise<Applied> {
  const { client, namespace } = context.cluster;
  const full = { ...object, metadata: { ...object.metadata, namespace } };
  const before = await client.find(resource, refOf(full), { signal: context.signal });
  const { after, done } = await applied(context, resource, before, full, FIELD_MANAGER);
  await rebuildEntries(context, after as Application, rebuild);
  return { resource, object: after, name, said: `${resource.kind.toLowerCase()}/${name} ${done}` };
}

/** Applies one entry of an application with an owner of its own, so that several files can own separate entries. */
async function applyEntry(
  context: CommandContext,
  { application: name, entry, rebuild }: Extract<WantedObject, { entry: unknown }>,
): Promise<Applied> {
  const before = await applicationNamed(context, name);
  const object: KubeObject = {
    apiVersion: API_VERSION,
    kind: APPLICATIONS.kind,
    metadata: refOf(before),
    spec: { microservices: [entry] },
  };
  const manager = `${FIELD_MANAGER}/${entry.name}`;
  const { after, done } = await applied(context, APPLICATIONS, before, object, manager);
  await rebuildEntries(context, after, rebuild);
  const isNew = !before.spec.microservices?.some(({ name }) => name === entry.name);
  const said = `microservice/${v3Name(before)}/${entry.name} ${isNew ? 'created' : done}`;
  return { resource: APPLICATIONS as Resource, object: after, name: v3Name(before), entry: entry.name, said };
}

/** Secrets and ConfigMaps: microservices may use those that are labelled, and a file must not publish another one. */
const isCore = ({ group }: Resource) => group === '';

/** Applies an object, of which `before` was just read. */
async function applied<T extends KubeObject>(
  context: CommandContext,
  resource: Resource<T>,
  before: T | undefined,
  object: KubeObject,
  fieldManager: string,
): Promise<{ after: T; done: string }> {
  const { signal, flags } = context;
  if (before && isCore(resource) && before.metadata.labels?.[LABELS.shareable] !== 'true')
    throw new CommandError(
      `the namespace has a ${resource.kind} "${object.metadata.name}" that is not for microservices: choose another name, or label it ${LABELS.shareable}=true yourself`,
    );
  const patch = { type: 'apply', body: object, force: flags['force-conflicts'] === true } as const;
  const after = await context.cluster.client.patch(resource, refOf(object), patch, {
    fieldManager,
    signal,
    dryRun: flags['dry-run'] === true,
  });
  if (!before) return { after, done: 'created' };
  return { after, done: meaningOf(before) === meaningOf(after) ? 'unchanged' : 'configured' };
}

/** The API server may write an object for an apply that changes nothing; its generation tells a change of the spec. */
const meaningOf = ({ metadata: { generation, resourceVersion, labels, annotations } }: KubeObject) =>
  JSON.stringify([generation ?? resourceVersion, labels, annotations]);

async function rebuildEntries(
  { cluster, flags, signal }: CommandContext,
  application: Application,
  entries: readonly string[],
): Promise<void> {
  if (entries.length === 0 || flags['dry-run']) return;
  const body = { metadata: { annotations: requestRebuild(application, entries) } };
  const options = { fieldManager: FIELD_MANAGER, signal };
  await cluster.client.patch(APPLICATIONS, refOf(application), { type: 'merge', body }, options);
}

function explain(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return isConflict(error)
    ? `${message}\nAnother owner has set these fields; --force-conflicts takes them over.`
    : message;
}
