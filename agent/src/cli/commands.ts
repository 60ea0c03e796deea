import { AGENT_VERSION } from '../domain/names.ts';
import type { LocalClient } from '../local-api/client.ts';
import { CliError } from '../local-api/client.ts';
import { writeBytes } from '../system/disk.ts';
import { errorText } from '../system/log.ts';
import { bytes, diagnosisTable, duration, type Format, facts, structured, table } from './output.ts';

/** What a command works with. */
export interface CommandContext {
  client: LocalClient;
  configFile: string;
  words: string[];
  flags: ReadonlyMap<string, string | true>;
  format: Format;
  out(text: string): void;
  /** asks the person at the terminal a question to be answered with yes or no; absent where there is none */
  ask?(question: string): Promise<boolean>;
  signal: AbortSignal;
  /** for a command that did its work and has bad news */
  exitWith(code: number): void;
}

export interface Command {
  /** the words that name it */
  name: string;
  /** the words that follow the name: `<one>`, `[one that may be left out]`, `[some ...]` */
  usage?: string;
  /** one line for the list of commands */
  summary: string;
  /** flags of its own, with their help; `=` marks one that takes a value */
  flags?: Readonly<Record<string, string>>;
  example?: string;
  /** works without an agent, and with settings that cannot be read */
  offline?: true;
  run(context: CommandContext): Promise<void>;
}

/** Shows data in the format that was asked for. */
function show(context: CommandContext, data: unknown, human: () => string): void {
  const { format, out } = context;
  out(format === 'human' ? human() : structured(data, format));
}

/** The archive is for its owner until that one gives it away. */
function writeArchive(file: string, archive: Buffer): void {
  try {
    writeBytes(file, archive, 0o600);
  } catch (error) {
    throw new CliError('INVALID_ARGUMENT', `${file} cannot be written: ${errorText(error)}`, 'Name another file.');
  }
}

function required(context: CommandContext, what: string): string {
  const [word] = context.words;
  if (!word) throw new CliError('INVALID_ARGUMENT', `${what} is missing`, 'See --help.');
  return word;
}

interface Item {
  uuid: string;
  name: string;
  application: string;
  state: string;
  reason?: string;
  image: string;
  wantedImage?: string;
  containerId: string;
  restartCount?: number;
  percentage?: number;
  startTime?: number;
  errorMessage?: string;
  memoryUsage?: number;
  cpuUsage?: number;
  healthStatus?: string;
}

interface Orphan {
  name: string;
  application: string;
  microservice: string;
  nodeUuid: string;
  running: boolean;
}

const LOG_FLAGS = {
  'tail=': 'how many lines from the end (default 100)',
  'since=': 'not before this date and time, or this long ago: 90s, 10m, 2h, 1d',
  'until=': 'not after this date and time, or this long ago',
  follow: 'go on until Ctrl-C',
} as const;

const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3600_000, d: 86_400_000 };

/** A date and time, from one or from a duration that has passed since. */
export function momentOf(text: string, flag: string, now: number): string {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const at = count ? now - Number(count) * (UNITS[unit] ?? 0) : Date.parse(text);
  // A number alone would be read as a year.
  if (Number.isNaN(at) || /^\d*$/.test(text) || Math.abs(at) > 8.64e15)
    throw new CliError(
      'INVALID_ARGUMENT',
      `--${flag} is "${text}", which is neither a date and time nor a duration`,
      'Such as 2026-05-01T10:00:00Z, 90s, 10m, 2h or 1d.',
    );
  return new Date(at).toISOString();
}

function logQuery({ flags }: CommandContext): URLSearchParams {
  const query = new URLSearchParams();
  if (flags.has('tail')) query.set('tailLines', String(flags.get('tail')));
  for (const name of ['since', 'until']) {
    const given = flags.get(name);
    if (given !== undefined) query.set(name, momentOf(String(given), name, Date.now()));
  }
  return query;
}

interface Line {
  line: string;
}

/** Shows lines: those that there are, or, with --follow, those that come as well until somebody has seen enough. */
async function showLines(context: CommandContext, path: string, query: URLSearchParams): Promise<void> {
  const { client, flags, signal, format, out } = context;
  if (!flags.has('follow')) {
    const data = await client.call<{ entries: Line[] }>('GET', `${path}?${query}`);
    return show(context, data, () => data.entries.map(({ line }) => `${line}\n`).join(''));
  }
  query.set('follow', 'true');
  try {
    for await (const entry of client.stream<Line>(`${path}?${query}`))
      out(format === 'human' ? `${entry.line}\n` : `${JSON.stringify(entry)}\n`);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** What a microservice does, as far as a column has room for it. */
function stateOf({ state, percentage, reason, healthStatus }: Item): string {
  if (percentage !== undefined) return `${state} ${percentage}%`;
  const health = healthStatus === 'starting' ? 'health unknown yet' : healthStatus;
  const notes = [reason, health !== 'healthy' && health].filter(Boolean);
  return notes.length > 0 ? `${state} (${notes.join(', ')})` : state;
}

/** ms. A machine may have many containers to stop, a few at a time; the agent answers earlier when it gets no further. */
const REMOVAL = 3600_000;

/** Asks before what cannot be taken back, unless there is nothing to lose. */
async function confirmDeprovision(context: CommandContext, scope: string): Promise<void> {
  const { client, flags, ask } = context;
  if (flags.has('yes')) return;
  const { node } = await client.call<{ node?: { name?: string; uuid: string; controllerUrl: string } }>(
    'GET',
    '/v1/system/status',
  );
  const { items } = await client.call<{ items: Item[] }>('GET', '/v1/ms');
  if (!node && items.length === 0) return;
  const names = items.map(({ application, name }) => `${application}.${name}`).join(', ');
  const fate = scope === 'local' ? 'run on without it' : 'are stopped and removed (volumes stay)';
  const lines = [
    ...(node ? [`This machine leaves ${node.controllerUrl}, where it is the node ${node.name ?? node.uuid}.`] : []),
    ...(items.length > 0 ? [`Its microservices ${fate}: ${names}.`] : []),
  ];
  if (!ask)
    throw new CliError('INVALID_ARGUMENT', `${lines.join(' ')} Nobody is there to be asked`, 'Say so with --yes.');
  if (!(await ask(`${lines.join('\n')}\nGo on?`))) throw new CliError('DECLINED', 'nothing was changed');
}

async function orderMicroservice(context: CommandContext, verb: 'start' | 'stop' | 'restart'): Promise<void> {
  const id = required(context, 'the microservice');
  const path = `/v1/ms/${encodeURIComponent(id)}/${verb}`;
  const result = await context.client.call<{ state: string; warning?: string }>('POST', path);
  show(context, result, () => {
    const held = verb === 'stop' ? ` It stays stopped until: skerry-agent ms start ${id}` : '';
    return `${id}: ${result.state}.${result.warning ? ` Warning: ${result.warning}.` : held}\n`;
  });
}

/** Every command but `help`. */
export const COMMANDS: readonly Command[] = [
  {
    name: 'start',
    summary: 'Run the agent in the foreground until SIGTERM or Ctrl-C; containers run on',
    example: 'skerry-agent start --config /etc/skerry-agent/config.yaml',
    offline: true,
    run: async ({ configFile, signal }) => {
      const { runDaemon } = await import('../daemon.ts');
      await runDaemon(configFile, signal);
    },
  },
  {
    name: 'version',
    summary: 'Show the version',
    offline: true,
    run: async (context) => show(context, { version: AGENT_VERSION }, () => `skerry-agent ${AGENT_VERSION}\n`),
  },
  {
    name: 'status',
    summary: 'Show how the agent is, and whether the controller hears it',
    run: async (context) => {
      const data = await context.client.call<Record<string, unknown>>('GET', '/v1/system/status');
      const node = data.node as { name?: string; uuid: string; controllerUrl: string } | undefined;
      const free = Number(data.systemAvailableDisk ?? 0);
      const runtime = data.runtime as { engineVersion?: string; engineUrl?: string; engineReady: boolean };
      show(context, data, () =>
        facts([
          ['Agent', data.daemonStatus],
          ['Uptime', duration(Number(data.uptimeSeconds))],
          [
            'Node',
            node ? `${node.name ?? ''} ${node.uuid}`.trim() : 'not provisioned (skerry-agent provision <join string>)',
          ],
          ['Controller', node && `${data.controllerConnection} ${node.controllerUrl}`],
          ['Controller error', data.connectionError],
          [
            'Engine',
            runtime.engineReady
              ? `${data.engine} ${runtime.engineVersion} at ${runtime.engineUrl}`
              : `not connected (${runtime.engineUrl})`,
          ],
          ['Running', `${data.runningMicroservices} microservices`],
          ['Memory', `${data.memoryUsageMiB} MiB (the agent itself)`],
          ['Disk', `${bytes(Number(data.diskUsageGiB) * 1024 ** 3)} (the agent's own), ${bytes(free)} free`],
          ['Warnings', (data.warnings as string[]).join('; ')],
        ]),
      );
    },
  },
  {
    name: 'info',
    summary: 'Show the settings in force, and who this node is',
    run: async (context) => {
      const data = await context.client.call<Record<string, unknown>>('GET', '/v1/system/info');
      show(context, data, () => facts(Object.entries(data)));
    },
  },
  {
    name: 'provision',
    usage: '<join string>',
    summary: 'Make this machine a node of a controller',
    example: 'skerry-agent provision skerry://controller.example.com:51121/6f1c...?tls=1',
    run: async (context) => {
      const provisioningKey = required(context, 'the join string');
      const data = await context.client.call<{ agentUuid: string; name?: string; controllerUrl: string }>(
        'POST',
        '/v1/system/provision',
        { body: { provisioningKey } },
      );
      show(context, data, () => `Provisioned as node ${data.name ?? data.agentUuid} of ${data.controllerUrl}\n`);
    },
  },
  {
    name: 'deprovision',
    summary: 'Leave the controller; its microservices are stopped and removed, volumes stay',
    flags: {
      'scope=': 'all (default): nothing of ours runs here afterwards; local: what runs here runs on',
      'keep-local': 'the same as --scope local',
      yes: 'do not ask',
    },
    example: 'skerry-agent deprovision --keep-local --yes',
    run: async (context) => {
      const scope = context.flags.has('keep-local') ? 'local' : String(context.flags.get('scope') ?? 'all');
      await confirmDeprovision(context, scope);
      const data = await context.client.call<{ controllerTold?: boolean; remaining: string[] }>(
        'DELETE',
        `/v1/system/provision?scope=${encodeURIComponent(scope)}`,
        { deadline: REMOVAL },
      );
      if (data.remaining.length > 0)
        throw new CliError(
          'INCOMPLETE',
          `left the controller, but not removed yet: ${data.remaining.join(', ')}`,
          'They are removed as soon as the container engine does it. See: skerry-agent ms ls, skerry-agent doctor',
        );
      show(context, data, () =>
        data.controllerTold === false
          ? 'Deprovisioned here; the controller could not be told. Delete the node there.\n'
          : 'Deprovisioned\n',
      );
    },
  },
  {
    name: 'config',
    usage: '[<name>=<value> ...]',
    summary: 'Show the settings in force, or change some',
    example: 'skerry-agent config logLevel=DEBUG statusFrequency=30',
    run: async (context) => {
      if (context.words.length === 0) {
        const data = await context.client.call<Record<string, unknown>>('GET', '/v1/system/config');
        return show(context, data, () => facts(Object.entries(data)));
      }
      const set: Record<string, string> = {};
      for (const word of context.words) {
        const [, name, value] = /^([^=]+)=(.*)$/s.exec(word) ?? [];
        if (!name || value === undefined)
          throw new CliError('INVALID_ARGUMENT', `"${word}" is not <name>=<value>`, 'See: skerry-agent config');
        set[name] = value;
      }
      const data = await context.client.call<{ errorMap: Record<string, string>; message?: string }>(
        'PATCH',
        '/v1/system/config',
        { body: { set } },
      );
      const refused = Object.entries(data.errorMap).map(([name, text]) => `${name}: ${text}`);
      show(context, data, () => `Changed.${data.message ? ` ${data.message}.` : ''}\n`);
      if (refused.length > 0) throw new CliError('INVALID_ARGUMENT', `not changed: ${refused.join('; ')}`);
    },
  },
  {
    name: 'ms ls',
    summary: 'List the microservices of this node',
    flags: { 'source=': 'managed, local, controlplane or all (default)' },
    run: async (context) => {
      const source = String(context.flags.get('source') ?? 'all');
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
          item.wantedImage ? `${item.image} (wanted: ${item.wantedImage})` : item.image,
          item.uuid,
        ]);
        const errors = data.items.filter(({ errorMessage }) => errorMessage);
        return (
          table(['APPLICATION', 'NAME', 'STATE', 'UP', 'RESTARTS', 'MEMORY', 'IMAGE', 'UUID'], rows) +
          errors.map(({ application, name, errorMessage }) => `\n${application}.${name}: ${errorMessage}`).join('') +
          (errors.length > 0 ? '\n' : '')
        );
      });
    },
  },
  {
    name: 'ms inspect',
    usage: '<microservice>',
    summary: 'Show everything about one microservice',
    run: async (context) => {
      const id = required(context, 'the microservice');
      const data = await context.client.call<Record<string, unknown>>('GET', `/v1/ms/${encodeURIComponent(id)}`);
      show(context, data, () => structured(data, 'yaml'));
    },
  },
  {
    name: 'ms logs',
    usage: '<microservice>',
    summary: 'Show what a microservice wrote',
    flags: { ...LOG_FLAGS, timestamps: 'begin each line with its time' },
    run: async (context) => {
      const id = required(context, 'the microservice');
      const query = logQuery(context);
      if (context.flags.has('timestamps')) query.set('timestamps', 'true');
      await showLines(context, `/v1/ms/${encodeURIComponent(id)}/logs`, query);
    },
  },
  {
    name: 'ms start',
    usage: '<microservice>',
    summary: 'Start a microservice that was stopped here, or try again at once',
    run: (context) => orderMicroservice(context, 'start'),
  },
  {
    name: 'ms stop',
    usage: '<microservice>',
    summary: 'Stop a microservice until it is started here, rebuilt, or changed',
    run: (context) => orderMicroservice(context, 'stop'),
  },
  {
    name: 'ms restart',
    usage: '<microservice>',
    summary: 'Stop and start a microservice',
    run: (context) => orderMicroservice(context, 'restart'),
  },
  {
    name: 'ms rm',
    usage: '<microservice>',
    summary: 'Remove the container of a microservice; volumes stay',
    run: async (context) => {
      const id = required(context, 'the microservice');
      const data = await context.client.call<{ warning?: string }>('DELETE', `/v1/ms/${encodeURIComponent(id)}`);
      show(context, data, () => `${id}: removed${data.warning ? `; ${data.warning}` : ''}\n`);
    },
  },
  {
    name: 'logs',
    summary: 'Show what the agent wrote',
    flags: LOG_FLAGS,
    example: 'skerry-agent logs --since 10m --follow',
    run: (context) => showLines(context, '/v1/system/logs', logQuery(context)),
  },
  {
    name: 'prune',
    summary: 'Remove images that this agent pulled and nothing uses any more',
    run: async (context) => {
      const data = await context.client.call<{ deleted: string[]; message: string }>('POST', '/v1/system/prune');
      show(
        context,
        data,
        () => `Removed ${data.deleted.length} images\n${data.deleted.map((each) => `  ${each}\n`).join('')}`,
      );
    },
  },
  {
    name: 'orphans',
    usage: '[<container> ...]',
    summary: 'Show containers that agents left here which are no more, or remove them',
    flags: { remove: 'stop and remove them, or those that are named; volumes stay', yes: 'do not ask' },
    example: 'skerry-agent orphans --remove',
    run: async (context) => {
      const { client, flags, ask, words } = context;
      const all = (await client.call<{ items: Orphan[] }>('GET', '/v1/system/orphans')).items;
      const items = all.filter(({ name }) => words.length === 0 || words.includes(name));
      const shown =
        items.length === 0
          ? 'No containers of agents that are no more\n'
          : table(
              ['CONTAINER', 'APPLICATION', 'NAME', 'RUNNING', 'NODE'],
              items.map((item) => [
                item.name,
                item.application,
                item.microservice,
                item.running ? 'yes' : 'no',
                item.nodeUuid,
              ]),
            );
      if (!flags.has('remove') || items.length === 0) return show(context, { items }, () => shown);
      if (!flags.has('yes')) {
        if (!ask) throw new CliError('INVALID_ARGUMENT', `${shown}Nobody is there to be asked`, 'Say so with --yes.');
        const fate = 'They are stopped and removed. An agent that is only stopped counts as one that is no more.';
        if (!(await ask(`${shown}${fate}\nGo on?`))) throw new CliError('DECLINED', 'nothing was changed');
      }
      const query = new URLSearchParams(items.map(({ name }): [string, string] => ['name', name]));
      const data = await client.call<{ removed: Orphan[] }>('DELETE', `/v1/system/orphans?${query}`, {
        deadline: REMOVAL,
      });
      show(context, data, () => data.removed.map(({ name }) => `${name}: removed\n`).join(''));
    },
  },
  {
    name: 'doctor',
    summary: 'Look for what is wrong on this machine and on the way to the controller, and say what to do',
    flags: { json: 'the same as --output json' },
    example: 'skerry-agent doctor --json',
    offline: true,
    run: async (context) => {
      const { examine, isHealthy } = await import('../doctor/doctor.ts');
      const checks = await examine(context.configFile);
      const healthy = isHealthy(checks);
      const format = context.flags.has('json') ? 'json' : context.format;
      show({ ...context, format }, { healthy, checks }, () => diagnosisTable(checks));
      if (!healthy) context.exitWith(1);
    },
  },
  {
    name: 'support-bundle',
    usage: '[file]',
    summary: 'Collect state, settings, logs and the findings of the doctor in one archive, without secrets',
    example: 'skerry-agent support-bundle /tmp/support.tar.gz',
    offline: true,
    run: async (context) => {
      const { supportBundle } = await import('../bundle/bundle.ts');
      const stamp = new Date().toISOString().replace(/[:T]/g, '-').slice(0, 19);
      const file = context.words[0] ?? `skerry-support-${stamp}.tar.gz`;
      const { archive, files } = await supportBundle(context.configFile, context.signal);
      writeArchive(file, archive);
      show(context, { file, bytes: archive.length, files }, () =>
        [
          `Wrote ${file} (${bytes(archive.length)}): ${files.join(', ')}.`,
          'Secrets are masked, and what containers wrote is not in it. Look through it before you give it away.',
          '',
        ].join('\n'),
      );
    },
  },
  {
    name: 'stop',
    summary: 'Stop the agent; containers run on',
    run: async (context) => {
      const data = await context.client.call('POST', '/v1/system/stop');
      show(context, data, () => 'The agent stops; containers run on\n');
    },
  },
];
