import { bytes, diagnosisTable, table } from '../../../../src/terminal/output.ts';
import { CliError } from '../../local-api/client.ts';
import { writeBytes } from '../../machine/disk.ts';
import { errorText } from '../../machine/log.ts';
import { type Command, type CommandContext, confirm, REMOVAL, show } from './command.ts';
import { LOG_FLAGS, logParameters, showLines } from './logs.ts';
import { type PruneReport, showPruned } from './prune.ts';

/** Diagnosis and clean-up. */
export const MAINTENANCE_COMMANDS: readonly Command[] = [
  {
    name: 'logs',
    about: 'Show what the agent wrote',
    flags: LOG_FLAGS,
    examples: ['logs --since 10m --follow'],
    run: (context) => showLines(context, '/v1/system/logs', logParameters(context), context.out),
  },
  {
    name: 'prune',
    usage: '[dangling | containers | volumes | all]',
    words: { max: 1 },
    about:
      'Remove images that this agent pulled and models that nothing uses any more, or its stopped containers, or both',
    examples: ['prune all'],
    run: async (context) => {
      const { client, words } = context;
      const query = new URLSearchParams({ mode: words[0] ?? 'dangling' });
      const data = await client.call<PruneReport>('POST', `/v1/system/prune?${query}`);
      showPruned(context, data);
    },
  },
  {
    name: 'orphans',
    usage: '[<container> ...]',
    words: { max: Number.POSITIVE_INFINITY },
    about: 'Show containers of agents that no longer exist, or remove them',
    flags: {
      remove: { about: 'stop and remove them, or those that are named; volumes stay' },
      yes: { about: 'do not ask' },
    },
    examples: ['orphans --remove'],
    run: async (context) => {
      const { client, flags, ask, words } = context;
      const all = (await client.call<{ items: Orphan[] }>('GET', '/v1/system/orphans')).items;
      const items = all.filter(({ name }) => words.length === 0 || words.includes(name));
      const shown =
        items.length === 0
          ? 'No containers of agents that no longer exist\n'
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
      if (!flags.remove || items.length === 0) return show(context, { items }, () => shown);
      if (!flags.yes) {
        if (!ask)
          throw new CliError('INVALID_ARGUMENT', `${shown}There is no terminal to ask on`, 'Confirm with --yes.');
        const fate = 'They are stopped and removed. An agent that is only stopped counts as one that no longer exists.';
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
    about: 'Look for what is wrong on this machine and on the way to the controller, and say what to do',
    flags: { json: { about: 'the same as --output json' } },
    examples: ['doctor --json'],
    offline: true,
    run: async (context) => {
      const { examine, isHealthy } = await import('../../doctor/doctor.ts');
      const checks = await examine(context.configFile);
      const healthy = isHealthy(checks);
      const format = context.flags.json ? 'json' : context.format;
      show({ ...context, format }, { healthy, checks }, () => diagnosisTable(checks));
      if (!healthy) context.exitWith(1);
    },
  },
  {
    name: 'support-bundle',
    usage: '[file]',
    words: { max: 1 },
    about: 'Collect state, settings, logs and the findings of the doctor in one archive, without secrets',
    examples: ['support-bundle /tmp/support.tar.gz'],
    offline: true,
    run: async (context) => {
      const { supportBundle } = await import('../../bundle/bundle.ts');
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
    name: 'cgroup-preflight',
    about: "Look whether this machine's kernel accounts for containers",
    offline: true,
    run: async (context) => {
      const { examine, isHealthy } = await import('../../doctor/doctor.ts');
      const checks = await examine(context.configFile, ['cgroup']);
      const isFit = isHealthy(checks) && checks.every(({ status }) => status === 'ok');
      show(context, { fit: isFit, checks }, () => diagnosisTable(checks));
      if (!isFit) context.exitWith(1);
    },
  },
  {
    name: 'reload',
    about: 'Have the agent read its settings and its policy again',
    run: async (context) => {
      const data = await context.client.call('POST', '/v1/system/reload');
      show(context, data, () => 'The agent has read its settings and its policy again\n');
    },
  },
  {
    name: 'runtime drain',
    about: 'Stop all containers of this machine, in the reverse order of their starts, until the agent starts again',
    flags: { yes: { about: 'do not ask' } },
    examples: ['runtime drain --yes --timeout 2m'],
    run: async (context) => {
      const { client, flags } = context;
      if (!flags.yes) await confirm(context, ['All microservices of this machine stop until the agent starts again.']);
      const bound = flags.timeout === undefined ? undefined : Math.round(context.budget(0) / 1000);
      const data = await client.call<{ stopped: string[]; remaining: string[] }>('POST', '/v1/system/drain', {
        body: bound === undefined ? {} : { timeoutSeconds: bound },
        deadline: LONGEST_DRAIN,
        isWhole: true,
      });
      const list = (names: readonly string[]) => names.map((name) => `  ${name}\n`).join('');
      show(context, data, () => `Stopped ${data.stopped.length}.\n${list(data.stopped)}`);
      if (data.remaining.length === 0) return;
      context.err(`Still running: ${data.remaining.join(', ')}\n`);
      context.exitWith(1);
    },
  },
  { name: 'stop', about: 'Stop the agent; containers run on, unless shutdownPolicy is drain-all', run: stop },
  { name: 'shutdown', about: 'The same as stop', run: stop },
  {
    name: 'completion',
    usage: 'bash | zsh | fish',
    words: { min: 1, max: 1 },
    about: 'Print what completes these commands in a shell',
    examples: ['completion zsh > ~/.zfunc/_skerry-agent'],
    offline: true,
    run: async ({ words: [shell = ''], out, table: commands }) => {
      const { completionScript, SHELLS } = await import('./completion.ts');
      const known = SHELLS.find((each) => each === shell);
      if (!known)
        throw new CliError('INVALID_ARGUMENT', `there is no completion for "${shell}"`, `One of: ${SHELLS.join(', ')}`);
      out(completionScript(known, commands));
    },
  },
];

/** shutdownGracePeriodSeconds at most, and what the answer needs; ms */
const LONGEST_DRAIN = 660_000;

async function stop(context: CommandContext): Promise<void> {
  const data = await context.client.call<{ shutdownPolicy?: string }>('POST', '/v1/system/stop');
  // RestartSec= of packaging/skerry-agent.service
  const again = '; its unit starts it again after 5 s. To keep it stopped: systemctl stop skerry-agent';
  const fate = data.shutdownPolicy === 'drain-all' ? 'after its containers' : 'containers run on';
  show(context, data, () => `The agent stops; ${fate}${context.isService ? again : ''}\n`);
}

interface Orphan {
  name: string;
  application: string;
  microservice: string;
  nodeUuid: string;
  running: boolean;
}

/** Only the owner can read the archive until they share it. */
function writeArchive(file: string, archive: Buffer): void {
  try {
    writeBytes(file, archive, 0o600);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    const isDisk = ['ENOSPC', 'EDQUOT', 'EROFS', 'EIO'].includes(code);
    const text = `${file} cannot be written: ${errorText(error)}`;
    throw new CliError(isDisk ? 'UNAVAILABLE' : 'INVALID_ARGUMENT', text, 'Name another file.');
  }
}
