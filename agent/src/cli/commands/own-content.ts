import { structured, table } from '../../../../src/terminal/output.ts';
import { type Command, type CommandContext, required, show } from './command.ts';
import { APPLY_BUDGET, type PolledOperation, untilEnded } from './operations.ts';

interface RegistryRow {
  id: number;
  url: string;
  type: string;
  isPublic: boolean;
  userName?: string;
  password?: string;
  insecure: boolean;
}

interface RuntimeClassRow {
  name: string;
  handler: string;
  source: string;
}

const REGISTRIES = '/v1/deploy/registries';
const RUNTIME_CLASSES = '/v1/deploy/runtimeclasses';
const MASK = '***';

/** Registries and runtime classes that are defined on this machine; `deploy` defines them. */
export const OWN_CONTENT_COMMANDS: readonly Command[] = [
  {
    name: 'registry ls',
    about: 'List the registries of this machine; those of a controller have numbers of their own',
    run: async (context) => {
      const data = await context.client.call<{ items: RegistryRow[] }>('GET', REGISTRIES);
      show(context, data, () =>
        table(
          ['ID', 'TYPE', 'URL', 'USER', 'PRIVATE', 'INSECURE'],
          data.items.map(({ id, type, url, userName = '', isPublic, insecure }) => [
            ...[String(id), type, url, userName, isPublic ? '' : 'yes', insecure ? 'yes' : ''],
          ]),
        ),
      );
    },
  },
  {
    name: 'registry inspect',
    usage: '<id>',
    words: { max: 1 },
    flags: { 'password-plain': { about: 'show the password' } },
    about: 'Show one registry of this machine',
    run: async (context) => {
      const found = await context.client.call<RegistryRow>('GET', routeTo(REGISTRIES, required(context, 'the id')));
      const isMasked = found.password !== undefined && !context.flags['password-plain'];
      const data = isMasked ? { ...found, password: MASK } : found;
      show(context, data, () => structured(data, 'yaml'));
    },
  },
  {
    name: 'registry rm',
    usage: '<id>',
    words: { max: 1 },
    about: 'Remove a registry that nothing of this machine names',
    run: (context) => removeAt(context, routeTo(REGISTRIES, required(context, 'the id'))),
  },
  {
    name: 'runtimeclass ls',
    about: 'List the runtime classes of this machine',
    run: async (context) => {
      const data = await context.client.call<{ items: RuntimeClassRow[] }>('GET', RUNTIME_CLASSES);
      show(context, data, () =>
        data.items.length === 0
          ? 'No runtime classes on this machine\n'
          : table(
              ['NAME', 'HANDLER', 'SOURCE'],
              data.items.map(({ name, handler, source }) => [name, handler, source]),
            ),
      );
    },
  },
  {
    name: 'runtimeclass inspect',
    usage: '<name>',
    words: { max: 1 },
    about: 'Show one runtime class',
    run: async (context) => {
      const path = routeTo(RUNTIME_CLASSES, required(context, 'the name'));
      const data = await context.client.call<Record<string, unknown>>('GET', path);
      show(context, data, () => structured(data, 'yaml'));
    },
  },
  {
    name: 'runtimeclass rm',
    usage: '<name>',
    words: { max: 1 },
    about: 'Remove a runtime class that no microservice of this machine names',
    run: async (context) => {
      const begun = await context.client.call<PolledOperation>(
        'DELETE',
        routeTo(RUNTIME_CLASSES, required(context, 'the name')),
      );
      const path = `${RUNTIME_CLASSES}:delete`;
      const done = await untilEnded(context, begun, { path, budget: APPLY_BUDGET, hint: '' });
      show(context, done, () => `${done.name}: removed\n`);
    },
  },
];

/** Removes what a path names. */
export async function removeAt(context: CommandContext, path: string): Promise<void> {
  const data = await context.client.call<{ id?: number; name?: string }>('DELETE', path);
  show(context, data, () => `${data.name ?? data.id}: removed\n`);
}

export const routeTo = (collection: string, name: string): string => `${collection}/${encodeURIComponent(name)}`;
