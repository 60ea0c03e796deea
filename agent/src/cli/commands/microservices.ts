import { imageText } from '../../../../src/terminal/image.ts';
import { bytes, duration, structured, table } from '../../../../src/terminal/output.ts';
import { PROGRAM_FLAGS } from '../../../../src/terminal/sessions.ts';
import type { VolumeClaim } from '../../domain/volume.ts';
import { type Command, type CommandContext, type Item, required, show } from './command.ts';
import { runProgram } from './exec.ts';
import { LOG_FLAGS, logParameters, showLines } from './logs.ts';

const ORDERS = [
  ['start', 'Start a microservice that was stopped here, or try again at once'],
  ['stop', 'Stop a microservice until it is started here, rebuilt, or changed'],
  ['restart', 'Stop and start a microservice'],
] as const;

export const MICROSERVICE_COMMANDS: readonly Command[] = [
  {
    name: 'ms ls',
    about: 'List the microservices of this node',
    flags: { source: { value: '<value>', about: 'managed, local, controlplane or all (default)' } },
    run: async (context) => {
      const source = String(context.flags.source ?? 'all');
      const data = await context.client.call<{ items: Item[] }>('GET', `/v1/ms?source=${encodeURIComponent(source)}`);
      show(context, data, () => {
        if (data.items.length === 0) return 'No microservices on this node\n';
        const rows = data.items.map((item) => [
          item.application,
          item.name,
          stateOf(item),
          item.startTime ? duration((Date.now() - item.startTime) / 1000) : '',
          String(item.restartCount ?? 0),
          bytes(item.memoryUsage),
          imageText(item.image, item.wantedImage ?? item.image),
          item.uuid,
        ]);
        const errors = data.items.flatMap(({ application, name, errorMessage, healthMessage }) => [
          ...(errorMessage ? [`\n${application}.${name}: ${errorMessage}`] : []),
          ...(healthMessage ? [`\n${application}.${name}: health check: ${healthMessage}`] : []),
        ]);
        return (
          table(['APPLICATION', 'NAME', 'STATE', 'UP', 'RESTARTS', 'MEMORY', 'IMAGE', 'UUID'], rows) +
          errors.join('') +
          (errors.length > 0 ? '\n' : '')
        );
      });
    },
  },
  {
    name: 'ms inspect',
    usage: '<microservice>',
    words: { max: 1 },
    about: 'Show everything about one microservice',
    flags: { summary: { about: 'what the list has of it' } },
    run: async (context) => {
      const id = required(context, 'the microservice');
      const query = context.flags.summary ? '?summary=true' : '';
      const data = await context.client.call<Record<string, unknown>>('GET', `${pathOf(id)}${query}`);
      show(context, data, () => structured(data, 'yaml'));
    },
  },
  {
    name: 'ms logs',
    usage: '<microservice>',
    words: { max: 1 },
    about: 'Show what a microservice wrote',
    flags: {
      ...LOG_FLAGS,
      timestamps: { about: 'begin each line with its time' },
      previous: { short: 'p', about: 'of the last run that has ended; of a container that runs, the run before' },
    },
    examples: ['ms logs -f shop.web --since 10m'],
    run: async (context) => {
      const id = required(context, 'the microservice');
      const query = logParameters(context);
      if (context.flags.previous) query.set('previous', 'true');
      if (context.flags.timestamps) query.set('timestamps', 'true');
      await showLines(context, `${pathOf(id)}/logs`, query, context.raw);
    },
  },
  {
    name: 'ms exec',
    usage: '<microservice> [-- command ...]',
    words: { max: Number.POSITIVE_INFINITY },
    about: 'Run a program in a microservice: a shell, or a command whose exit code is passed on',
    flags: PROGRAM_FLAGS,
    examples: ['ms exec -it shop.web -- sh'],
    run: runProgram,
  },
  ...ORDERS.map(orderCommand),
  {
    name: 'ms kill',
    usage: '<microservice>',
    words: { max: 1 },
    about: 'Send a signal to the program of a microservice that runs',
    flags: { signal: { short: 's', value: '<value>', about: 'its name or number (default SIGKILL)' } },
    examples: ['ms kill shop.web --signal SIGHUP'],
    run: async (context) => {
      const id = required(context, 'the microservice');
      const signal = context.flags.signal === undefined ? 'SIGKILL' : String(context.flags.signal);
      const data = await context.client.call('POST', `${pathOf(id)}/kill`, { body: { signal } });
      show(context, data, () => `${id}: sent ${signal}\n`);
    },
  },
  {
    name: 'ms rm',
    usage: '<microservice>',
    words: { max: 1 },
    about: 'Remove the container of a microservice; volumes stay',
    flags: { cleanup: { about: 'let the next volume prune take its private volumes whatever their age' } },
    run: async (context) => {
      const id = required(context, 'the microservice');
      const path = `${pathOf(id)}${context.flags.cleanup ? '?cleanup=true' : ''}`;
      const data = await context.client.call<{ microserviceUuid: string; warning?: string }>('DELETE', path);
      const left = await volumesLeft(context, data.microserviceUuid);
      show(context, data, () => `${id}: removed${data.warning ? `; ${data.warning}` : ''}\n${left}`);
    },
  },
];

/** Which private volumes a removed microservice leaves, and how long, for people; empty where there are none, or where they are wanted. */
async function volumesLeft({ client, flags }: CommandContext, uuid: string): Promise<string> {
  // The microservice is removed, whether the volumes can be listed or not.
  const listed = client.call<{ volumes: VolumeClaim[] }>('GET', '/v1/volumes').catch(() => undefined);
  const { volumes = [] } = (await listed) ?? {};
  const left = volumes.filter((claim) => claim.uuid === uuid && !claim.desired).map(({ name }) => name);
  if (left.length === 0) return '';
  const when = flags.cleanup ? 'at once' : 'once nothing has wanted them for 24 h, with --force at once';
  return `Its volumes stay: ${left.join(', ')}. skerry-agent volume prune --yes destroys them ${when}\n`;
}

/** The state of a microservice, short enough for a column. */
function stateOf({ state, percentage, reason, healthStatus }: Item): string {
  if (percentage !== undefined) return `${state} ${percentage}%`;
  const health = healthStatus === 'starting' ? 'health unknown yet' : healthStatus;
  const notes = [reason, health !== 'healthy' && health].filter(Boolean);
  return notes.length > 0 ? `${state} (${notes.join(', ')})` : state;
}

function orderCommand([verb, about]: (typeof ORDERS)[number]): Command {
  return {
    name: `ms ${verb}`,
    usage: '<microservice>',
    words: { max: 1 },
    about,
    run: async (context) => {
      const id = required(context, 'the microservice');
      const result = await context.client.call<{ state: string; warning?: string }>('POST', `${pathOf(id)}/${verb}`);
      show(context, result, () => {
        const held = verb === 'stop' ? ` It stays stopped until: skerry-agent ms start ${id}` : '';
        return `${id}: ${result.state}.${result.warning ? ` Warning: ${result.warning}.` : held}\n`;
      });
    },
  };
}

const pathOf = (id: string) => `/v1/ms/${encodeURIComponent(id)}`;
