import { bytes, duration, facts } from '../../../../src/terminal/output.ts';
import { BUILD } from '../../domain/build.ts';
import { AGENT_VERSION } from '../../domain/names.ts';
import { CliError } from '../../local-api/client.ts';
import { type Command, type CommandContext, confirm, type Item, REMOVAL, show } from './command.ts';
import { type Purge, showPurge } from './volumes.ts';

/** The join string, where it is no argument: the environment of a process is shown to its own user alone. */
const JOIN_VARIABLE = 'SKERRY_JOIN';

/** The agent itself: its process, its membership and its settings. */
export const AGENT_COMMANDS: readonly Command[] = [
  {
    name: 'start',
    about: 'Run the agent in the foreground until SIGTERM or Ctrl-C; containers run on',
    examples: ['start --config /etc/skerry-agent/config.yaml'],
    offline: true,
    run: start,
  },
  { name: 'daemon', about: 'The same as start', offline: true, run: start },
  {
    name: 'version',
    about: 'Show the version',
    offline: true,
    run: async (context) =>
      show(context, { version: AGENT_VERSION, ...BUILD }, () => `skerry-agent ${AGENT_VERSION}\n`),
  },
  {
    name: 'status',
    about: 'Show how the agent is, and whether the controller hears it',
    run: async (context) => {
      const data = await context.client.call<Record<string, unknown>>('GET', '/v1/system/status');
      const node = data.node as { name?: string; uuid: string; controllerUrl: string } | undefined;
      const tunnel = data.tunnel as { status: string; message?: string } | undefined;
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
          ['Last contact', node && lastContactText(data)],
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
          ['Tunnel', tunnel && [tunnel.status, ...[tunnel.message ?? []].flat()].join(': ')],
          ['Warnings', (data.warnings as string[]).join('; ')],
        ]),
      );
    },
  },
  {
    name: 'info',
    about: 'Show the settings in force, and who this node is',
    run: async (context) => {
      const data = await context.client.call<Record<string, unknown>>('GET', '/v1/system/info');
      show(context, data, () => facts(Object.entries(data)));
    },
  },
  {
    name: 'provision',
    usage: '[join string]',
    words: { max: 1 },
    about: `Make this machine a node of a controller; the join string may also be in $${JOIN_VARIABLE}, which ps does not show`,
    examples: ['provision skerry://controller.example.com:51121/6f1c...?tls=1'],
    run: async (context) => {
      const provisioningKey = context.words[0] ?? context.env[JOIN_VARIABLE];
      if (!provisioningKey)
        throw new CliError(
          'INVALID_ARGUMENT',
          'the join string is missing',
          `It is an argument, or in $${JOIN_VARIABLE}.`,
        );
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
    about: 'Leave the controller; its microservices are stopped and removed, volumes stay unless they are to go',
    flags: {
      scope: {
        value: '<value>',
        about: 'all (default): nothing of ours runs here afterwards; local: what runs here runs on',
      },
      'keep-local': { about: 'the same as --scope local' },
      'purge-volumes': { about: 'then destroy the volumes that nothing wants any more, with their data' },
      yes: { about: 'do not ask' },
    },
    examples: ['deprovision --keep-local --yes'],
    run: async (context) => {
      const scope = context.flags['keep-local'] ? 'local' : String(context.flags.scope ?? 'all');
      await confirmDeprovision(context, scope);
      const query = new URLSearchParams({ scope });
      if (context.flags['purge-volumes']) query.set('purgeVolumes', 'true');
      const data = await context.client.call<{ controllerTold?: boolean; remaining: string[]; purge?: Purge }>(
        'DELETE',
        `/v1/system/provision?${query}`,
        { deadline: REMOVAL },
      );
      // A machine that was no node has no controller to notify.
      const wasNode = data.controllerTold !== undefined;
      if (data.remaining.length > 0)
        throw new CliError(
          'INCOMPLETE',
          `${wasNode ? 'left the controller, but ' : ''}not removed yet: ${data.remaining.join(', ')}`,
          'They are removed as soon as the container engine does it. See: skerry-agent ms ls, skerry-agent doctor',
        );
      show(context, data, () =>
        data.controllerTold === false
          ? 'Deprovisioned here; the controller could not be told. Delete the node there.\n'
          : wasNode
            ? 'Deprovisioned\n'
            : 'This machine was no node; its microservices are removed\n',
      );
      if (data.purge) showPurge(data.purge, context);
    },
  },
];

function start({ configFile, signal, runAgent }: CommandContext): Promise<void> {
  return runAgent(configFile, signal);
}

/** Since when the controller does not hear the agent; undefined while it does. */
function lastContactText({ controllerConnection, lastContact }: Record<string, unknown>): string | undefined {
  if (controllerConnection === 'OK') return undefined;
  const at = Date.parse(String(lastContact));
  if (Number.isNaN(at)) return 'none since the agent started';
  return `${duration(Math.max(0, Date.now() - at) / 1000)} ago (${lastContact})`;
}

/** Asks for confirmation, since a removal cannot be undone, unless there is nothing to remove. */
async function confirmDeprovision(context: CommandContext, scope: string): Promise<void> {
  const { client, flags } = context;
  if (flags.yes) return;
  const { node } = await client.call<{ node?: { name?: string; uuid: string; controllerUrl: string } }>(
    'GET',
    '/v1/system/status',
  );
  const { items } = await client.call<{ items: Item[] }>('GET', '/v1/ms');
  if (!node && items.length === 0) return;
  const names = items.map(({ application, name }) => `${application}.${name}`).join(', ');
  const volumes = flags['purge-volumes'] ? 'with the data in their volumes' : 'volumes stay';
  const fate = scope === 'local' ? 'run on without it' : `are stopped and removed (${volumes})`;
  const lines = [
    ...(node ? [`This machine leaves ${node.controllerUrl}, where it is the node ${node.name ?? node.uuid}.`] : []),
    ...(items.length > 0 ? [`Its microservices ${fate}: ${names}.`] : []),
  ];
  await confirm(context, lines);
}
