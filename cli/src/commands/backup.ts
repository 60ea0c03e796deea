import { lstatSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { GROUP, LABELS } from '../../../src/api/names.ts';
import { RBAC_RESOURCES } from '../../../src/api/rbac.ts';
import { CORE_RESOURCES } from '../../../src/api/resources.ts';
import { EPOCH_LOG } from '../../../src/datastore/epochs.ts';
import { REVISION_KEY_SECRET } from '../../../src/datastore/revision-key.ts';
import type { Kind } from '../../../src/kinds/definition.ts';
import { isAlreadyExists, type KubeObject, type Resource } from '../../../src/kube/mod.ts';
import { identityLabels } from '../../../src/rules/identity.ts';
import { KINDS, RESOURCES } from '../../../src/subjects/kinds.ts';
import { type Command, type CommandContext, FIELD_MANAGER } from '../context/command.ts';
import { CommandError, UsageError } from '../context/errors.ts';

/** A copy of an installation in one file, and an installation of such a copy in an empty namespace. */

interface Item extends KubeObject {
  type?: string;
  data?: Record<string, string>;
  status?: { uuid?: string; id?: number };
}

const STREAM = '-';

export const backup: Command = {
  name: 'backup',
  usage: '-f FILE',
  about: 'Write all objects of this installation, its keys and Secrets into a file',
  details: [
    'The file has passwords and keys in plain text; only its owner may read it. Statuses are not in it: nodes report again.',
  ],
  examples: ['backup -f skerry-backup.json', 'backup -f - | gpg --encrypt --recipient ops > skerry-backup.gpg'],
  flags: {
    filename: { short: 'f', value: 'FILE', about: 'the file to write, or - for the standard output' },
  },
  async run(context) {
    const file = fileOf(context, 'backup');
    const { configMaps, secrets } = CORE_RESOURCES;
    // ConfigMaps are read before the objects, so that no position in the epoch log is newer than they are: a node that was sent
    // more than the copy has then retains it. Secrets are read last, since what exists names them.
    const items = await listed(context, configMaps);
    for (const kind of Object.values(KINDS) as unknown as Kind[]) {
      const builtIns = new Set((kind.builtIns ?? []).map(({ name }) => name));
      items.push(...(await listed(context, kind.resource)).filter(({ metadata }) => !builtIns.has(metadata.name)));
    }
    for (const resource of Object.values(RBAC_RESOURCES)) items.push(...(await listed(context, resource)));
    items.push(...(await listed(context, secrets)));
    const copied = items.filter(isOfInstallation);
    const uids = new Set(copied.map(({ metadata }) => metadata.uid));
    const kept = copied.filter((item) => !isOrphan(item, uids)).map((item) => withoutLogins(asSaved(item, uids)));
    const text = `${JSON.stringify({ apiVersion: 'v1', kind: 'List', items: kept }, undefined, 1)}\n`;
    const done = `${kept.length} objects of namespace ${context.cluster.namespace}\n`;
    if (file === STREAM) {
      context.out(text);
      context.err(done);
    } else {
      write(file, text);
      context.out(`${file}: ${done}`);
    }
  },
};

export const restore: Command = {
  name: 'restore',
  usage: '-f FILE',
  about: 'Create the objects of a backup in this namespace, before its controller first runs',
  details: ['Objects that exist are left as they are, so that the same command continues after an error.'],
  examples: ['restore -f skerry-backup.json', 'gpg --decrypt skerry-backup.gpg | kubectl skerry restore -f -'],
  flags: {
    filename: {
      short: 'f',
      value: 'FILE',
      about: 'a file of kubectl skerry backup, or - for the standard input',
    },
  },
  async run(context) {
    const items = readItems(fileOf(context, 'restore'));
    await checkRevisionKey(context, items);
    /** uids here, by kind and name: Secrets belong to nodes and registries */
    const uids = new Map<string, string>();
    const counts = { created: 0, present: 0, failed: 0 };
    for (const item of items.toSorted((a, b) => rankOf(a) - rankOf(b))) {
      const what = `${item.kind.toLowerCase()}/${item.metadata.name}`;
      try {
        if (isEpochLog(item) && counts.failed > 0)
          throw new Error('not created before all others are: until then nodes retain what is missing here');
        counts[await create(context, item, uids)]++;
      } catch (error) {
        if (context.signal.aborted) throw error;
        counts.failed++;
        context.err(`error: ${what}: ${(error as Error).message}\n`);
      }
    }
    context.out(`${counts.created} created, ${counts.present} there already, ${counts.failed} failed\n`);
    if (counts.failed > 0) context.exitWith(1);
  },
};

function fileOf({ flags }: CommandContext, command: string): string {
  if (typeof flags.filename === 'string' && flags.filename !== '') return flags.filename;
  throw new UsageError(`${command} needs -f FILE`);
}

async function listed(
  { cluster: { client, namespace }, signal }: CommandContext,
  resource: Resource<KubeObject>,
): Promise<Item[]> {
  return (await client.list(resource, { namespace, limit: 0, signal })).items as Item[];
}

/** Writes the file at once or not at all, readable by its owner alone also where another file has its name. */
function write(file: string, text: string): void {
  const present = lstatSync(file, { throwIfNoEntry: false });
  if (present && !present.isFile()) throw new CommandError(`${file} is no regular file; choose another name`);
  const part = `${file}.${process.pid}.part`;
  try {
    writeFileSync(part, text, { mode: 0o600, flag: 'wx', flush: true });
    renameSync(part, file);
  } catch (error) {
    rmSync(part, { force: true });
    throw new CommandError(`${file} could not be written: ${(error as Error).message}`);
  }
}

const RBAC_KINDS: ReadonlySet<string> = new Set(Object.values(RBAC_RESOURCES).map(({ kind }) => kind));
/** Secrets of logins that are under way. */
const OF_ONE_LOGIN: ReadonlySet<string> = new Set(['artefact', 'once']);
/** What the Secret of a user has of logins: a copy would bring back those that were ended, and attempts that were counted. */
const LOGIN_KEYS: ReadonlySet<string> = new Set(['sessions', 'attempts', 'devices', 'reset']);

function withoutLogins(item: Item): Item {
  if (item.kind !== 'Secret' || item.metadata.labels?.[LABELS.identity] !== 'user' || !item.data) return item;
  const data = Object.fromEntries(Object.entries(item.data).filter(([key]) => !LOGIN_KEYS.has(key)));
  return { ...item, data };
}

/** What the chart, the cluster or a key of 20 minutes is about is not part of a copy. */
function isOfInstallation({ kind, type = '', metadata: { name, labels = {}, deletionTimestamp } }: Item): boolean {
  if (deletionTimestamp !== undefined) return false;
  if (kind === 'Secret')
    return (
      !/^(helm\.sh\/|kubernetes\.io\/service-account-token|bootstrap\.)/.test(type) &&
      !labels[LABELS.provisioningKey] &&
      !OF_ONE_LOGIN.has(labels[LABELS.identity] ?? '')
    );
  // Others come with the chart, or were bound by kubectl.
  if (RBAC_KINDS.has(kind)) return labels[LABELS.rbac] !== undefined;
  if (kind !== 'ConfigMap' || labels[LABELS.shareable] !== undefined) return true;
  return name !== 'kube-root-ca.crt' && labels['app.kubernetes.io/managed-by'] !== 'Helm';
}

/** Whether it belongs to an object of ours that is not in the copy, since that was deleted meanwhile. */
function isOrphan({ metadata: { ownerReferences = [] } }: Item, copied: ReadonlySet<string | undefined>): boolean {
  return ownerReferences.some(({ apiVersion, uid }) => apiVersion.startsWith(`${GROUP}/`) && !copied.has(uid));
}

/**
 * Without what the API server and the controller assign. The identity stands in labels, which a copy keeps. Owners that are not
 * in the copy, such as a Certificate, are left out: a Secret whose owner does not exist would be removed.
 */
function asSaved({ status, metadata, ...rest }: Item, copied: ReadonlySet<string | undefined>): Item {
  const { name, annotations, ownerReferences = [] } = metadata;
  const identity = { ...(status?.uuid && { uuid: status.uuid }), ...(status?.id && { id: status.id }) };
  const labels = { ...metadata.labels, ...identityLabels(identity) };
  const owners = ownerReferences.filter(({ uid }) => copied.has(uid));
  return {
    ...rest,
    metadata: {
      name,
      ...(Object.keys(labels).length > 0 && { labels }),
      ...(annotations && { annotations }),
      ...(owners.length > 0 && { ownerReferences: owners }),
    },
  };
}

const isRevisionKey = ({ kind, metadata }: Item) => kind === 'Secret' && metadata.name === REVISION_KEY_SECRET;
const isEpochLog = ({ kind, metadata }: Item) => kind === 'ConfigMap' && metadata.name === EPOCH_LOG;

/**
 * The place of an object in a restore. The key comes first, so that a controller which is started too early makes none. The
 * epoch log comes last, and not at all after an error: it says that the datastore has what agents were sent, and without it
 * they retain what their lists do not name.
 */
function rankOf(item: Item): number {
  if (isRevisionKey(item)) return 0;
  if (isEpochLog(item)) return 3;
  return item.metadata.ownerReferences ? 2 : 1;
}

function readItems(file: string): Item[] {
  let text: string;
  try {
    text = readFileSync(file === STREAM ? 0 : file, 'utf8');
  } catch (error) {
    throw new CommandError(`${file} could not be read: ${(error as Error).message}`);
  }
  try {
    const { kind, items } = JSON.parse(text) as { kind?: unknown; items?: Item[] };
    const isList = kind === 'List' && Array.isArray(items);
    if (isList && items.every((item) => typeof item.kind === 'string' && item.metadata?.name)) return items;
  } catch {
    // The message of the parser has a part of the text, and so perhaps of a Secret.
  }
  throw new CommandError(`${file} is no file of kubectl skerry backup`);
}

/** With another key, every container that uses a Secret would be replaced. */
async function checkRevisionKey({ cluster: { client, namespace }, signal }: CommandContext, items: readonly Item[]) {
  const ref = { namespace, name: REVISION_KEY_SECRET };
  const here = (await client.find(RESOURCES.secrets, ref, { signal })) as Item | undefined;
  if (!here || here.data?.key === items.find(isRevisionKey)?.data?.key) return;
  throw new CommandError(
    `a controller has run in namespace ${namespace} and made a key of its own (Secret ${REVISION_KEY_SECRET}); restore into a namespace without one`,
  );
}

async function create(
  { cluster: { client, namespace }, signal }: CommandContext,
  item: Item,
  uids: Map<string, string>,
): Promise<'created' | 'present'> {
  const resource = Object.values({ ...RESOURCES, ...RBAC_RESOURCES }).find(
    ({ kind, group, version }) => kind === item.kind && (group ? `${group}/${version}` : version) === item.apiVersion,
  ) as unknown as Resource<KubeObject> | undefined;
  if (!resource) throw new Error(`this version does not know kind ${item.kind} of ${item.apiVersion}`);
  const { ownerReferences, ...metadata } = item.metadata;
  const owners = ownerReferences?.map((owner) => {
    const uid = uids.get(`${owner.kind}/${owner.name}`);
    if (uid === undefined) throw new Error(`its owner ${owner.kind.toLowerCase()}/${owner.name} is not here`);
    return { ...owner, uid };
  });
  const object = { ...item, metadata: { ...metadata, namespace, ...(owners && { ownerReferences: owners }) } };
  const key = `${item.kind}/${metadata.name}`;
  try {
    // A field that this version does not know would be dropped, and the object would mean something else.
    const options = { fieldManager: FIELD_MANAGER, isStrict: true, signal };
    const { metadata: made } = await client.create(resource, object, options);
    uids.set(key, made.uid ?? '');
    return 'created';
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const known = await client.get(resource, { namespace, name: metadata.name }, { signal });
    uids.set(key, known.metadata.uid ?? '');
    return 'present';
  }
}
