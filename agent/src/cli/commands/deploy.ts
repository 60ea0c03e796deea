import { sleep } from '../../../../src/lib/clock.ts';
import { readYaml, YamlError } from '../../../../src/yaml/documents.ts';
import { CliError } from '../../local-api/client.ts';
import { systemClock } from '../../machine/clock.ts';
import { readText } from '../../machine/disk.ts';
import { type Command, type CommandContext, show } from './command.ts';

/** A manifest as it is sent, with what goes with it. */
interface Form {
  manifest: string;
  sourceName: string;
  dryRun?: boolean;
}

/** What the command line knows of a kind of manifest. */
interface Kind {
  /** the route that applies it */
  path: string;
  /** Waits until what was applied is done, and answers the last state; absent: it is done with the answer. */
  wait?(context: CommandContext, applied: Applied): Promise<Applied>;
}

interface Applied {
  operationId?: string;
  status?: string;
  name?: string;
  stage?: string;
  error?: { code: string; message: string };
}

/** A row for each kind that can be deployed on a machine. */
const KINDS: Readonly<Record<string, Kind>> = {
  Microservice: {
    path: '/v1/deploy/microservices:apply',
    wait: (context, applied) => untilDone(context, '/v1/deploy/microservices:apply', applied),
  },
};

/** An operation is asked after so often, and for so long, ms. */
const POLL = 500;
const BUDGET = 30 * 60_000;

export const DEPLOY_COMMANDS: readonly Command[] = [
  {
    name: 'deploy',
    about: 'Deploy on this machine what a manifest describes, without a controller, and wait until it is there',
    flags: {
      file: { short: 'f', value: '<file>', about: 'the manifest, a file of YAML' },
      'dry-run': { about: 'say whether this machine would take it, and change nothing' },
      'source-name': { value: '<text>', about: 'where the manifest comes from, for people (default local-cli)' },
    },
    examples: ['deploy -f web.yaml'],
    run: async (context) => {
      const { flags, client } = context;
      const file = flags.file === undefined ? '' : String(flags.file);
      if (file === '') throw new CliError('INVALID_ARGUMENT', 'the manifest is missing', 'Name it with -f <file>.');
      const manifest = readText(file);
      if (manifest === undefined) throw new CliError('NOT_FOUND', `there is no file ${file}`);
      const { path, wait } = kindOf(manifest, file);
      const sourceName = String(flags['source-name'] ?? 'local-cli');
      const form: Form = { manifest, sourceName, ...(flags['dry-run'] && { dryRun: true }) };
      const answer = await client.call<Applied>('POST', path, { form });
      if (flags['dry-run'])
        return show(context, answer, () => `${answer.name ?? file}: this machine takes it; nothing was changed\n`);
      const done = wait ? await wait(context, answer) : answer;
      show(context, done, () => `${done.name ?? file}: deployed\n`);
    },
  },
];

function kindOf(manifest: string, file: string): Kind {
  let document: unknown;
  try {
    document = readYaml(manifest);
  } catch (error) {
    if (error instanceof YamlError) throw new CliError('INVALID_ARGUMENT', `${file}: ${error.message}`);
    throw error;
  }
  const { kind } = (document ?? {}) as { kind?: unknown };
  const found = typeof kind === 'string' && Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
  if (found) return found;
  const said = kind === undefined ? 'has no kind' : `has the kind ${JSON.stringify(kind).slice(0, 80)}`;
  throw new CliError('INVALID_ARGUMENT', `${file} ${said}`, `One of: ${Object.keys(KINDS).join(', ')}`);
}

/** Asks after an operation until it has ended, and says how far it is; fails with its error. */
async function untilDone(context: CommandContext, path: string, begun: Applied): Promise<Applied> {
  const { client, signal, err, format } = context;
  const clock = systemClock();
  const end = clock.now() + BUDGET;
  let shown = '';
  for (let now = begun; ; ) {
    if (format === 'human' && now.stage && now.stage !== shown) {
      shown = now.stage;
      err(`${now.name}: ${now.stage}\n`);
    }
    if (now.status === 'failed') {
      const { code = 'INTERNAL', message = 'it failed' } = now.error ?? {};
      throw new CliError(code, `${now.name}: ${message}`, 'skerry-agent ms ls shows how it goes on.');
    }
    if (now.status !== 'running') return now;
    if (clock.now() > end)
      throw new CliError(
        'TIMEOUT',
        `${now.name}: it is not there after 30 minutes`,
        'skerry-agent ms ls shows how it goes on.',
      );
    await sleep(POLL, signal, clock);
    signal.throwIfAborted();
    now = await client.call<Applied>('GET', `${path}/${now.operationId}`);
  }
}
