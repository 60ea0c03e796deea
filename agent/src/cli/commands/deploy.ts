import { YamlError, yamlDocuments } from '../../../../src/yaml/documents.ts';
import type { ArtifactKind } from '../../domain/artifact.ts';
import { CliError } from '../../local-api/client.ts';
import { readText } from '../../machine/disk.ts';
import { type Command, type CommandContext, show } from './command.ts';
import { untilPulled } from './content.ts';
import { APPLY_BUDGET, CONTROL_PLANE_BUDGET, type PolledOperation, untilEnded } from './operations.ts';

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
  /** what it is called; absent: by its name */
  nameOf?(applied: Applied): string | undefined;
}

interface Applied extends PolledOperation {
  registry?: { id: number };
  /** of models or knowledge: operations, or why one was not begun */
  pulls?: (Omit<PolledOperation, 'error'> & { error?: PolledOperation['error'] | string })[];
}

const applied = (
  path: string,
  { budget = APPLY_BUDGET, hint = 'skerry-agent ms ls shows how it goes on.' } = {},
): Kind => ({
  path: `${path}:apply`,
  wait: (context, begun) => untilEnded(context, begun, { path: `${path}:apply`, budget, hint }),
});

const pulled = (kind: ArtifactKind): Kind => ({
  path: `/v1/deploy/${kind}:apply`,
  wait: async (context, begun) => {
    const pulls: PolledOperation[] = [];
    for (const pull of begun.pulls ?? []) {
      if (typeof pull.error === 'string') throw new CliError('CONFLICT', `${pull.name}: ${pull.error}`);
      pulls.push(await untilPulled(context, kind, pull as PolledOperation));
    }
    return { ...begun, pulls };
  },
  nameOf: ({ pulls = [] }) => pulls.map(({ name }) => name).join(', '),
});

/** A row for each kind that can be deployed on a machine. */
const KINDS: Readonly<Record<string, Kind>> = {
  Microservice: applied('/v1/deploy/microservices'),
  ControlPlane: applied('/v1/deploy/controlplane', {
    ...{ budget: CONTROL_PLANE_BUDGET, hint: 'skerry-agent controlplane get shows how it goes on.' },
  }),
  Model: pulled('models'),
  Knowledge: pulled('knowledge'),
  Registry: {
    path: '/v1/deploy/registries:apply',
    nameOf: ({ registry }) => registry && `registry ${registry.id}`,
  },
  RuntimeClass: applied('/v1/deploy/runtimeclasses'),
};

export const DEPLOY_COMMANDS: readonly Command[] = [
  {
    name: 'deploy',
    about: 'Deploy on this machine what a manifest describes, without a controller, and wait until it is there',
    flags: {
      file: { short: 'f', value: '<file>', about: 'the manifest, a file of YAML; - is the standard input' },
      'dry-run': { about: 'say whether this machine would take it, and change nothing' },
      'source-name': { value: '<text>', about: 'where the manifest comes from, for people (default local-cli)' },
    },
    examples: ['deploy -f web.yaml'],
    run: async (context) => {
      const { flags, client } = context;
      const named = flags.file === undefined ? '' : String(flags.file);
      if (named === '') throw new CliError('INVALID_ARGUMENT', 'the manifest is missing', 'Name it with -f <file>.');
      const file = named === '-' ? '/dev/stdin' : named;
      const manifest = readManifest(file);
      const { path, wait, nameOf = ({ name }) => name } = kindOf(manifest, file);
      const sourceName = String(flags['source-name'] ?? 'local-cli');
      const form: Form = { manifest, sourceName, ...(flags['dry-run'] && { dryRun: true }) };
      const answer = await client.call<Applied>('POST', path, { form });
      if (flags['dry-run'])
        return show(context, answer, () => `${nameOf(answer) || file}: this machine takes it; nothing was changed\n`);
      const done = wait ? await wait(context, answer) : answer;
      show(context, done, () => `${nameOf(done) || file}: deployed\n`);
    },
  },
];

function readManifest(file: string): string {
  let manifest: string | undefined;
  try {
    manifest = readText(file);
  } catch (error) {
    throw new CliError('INVALID_ARGUMENT', `${file} cannot be read: ${(error as Error).message}`);
  }
  if (manifest === undefined) throw new CliError('NOT_FOUND', `there is no file ${file}`);
  return manifest;
}

function kindOf(manifest: string, file: string): Kind {
  let document: unknown;
  try {
    // Of several documents, all have to be of one kind: the agent says so where they are not.
    const [read] = yamlDocuments(manifest);
    document = read?.();
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
