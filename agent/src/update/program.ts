import { join } from 'node:path';
import { jsonOr } from '../domain/json.ts';
import {
  exists,
  fileSystemSize,
  linkTarget,
  listDirectory,
  readText,
  removePath,
  switchLinkSync,
  writeDurably,
} from '../machine/disk.ts';

/**
 * The program directory of an installed agent. The launcher and every release of the agent read and write it, so names and
 * forms here never change (docs/spec/agent-local-api.md#program-directory):
 *
 *     node, launcher.mjs                        never replaced by an update
 *     releases/<version>/{node,agent,release.json}
 *     current                                   link to the release that is started
 *     update.json                               UpdateState; written by the launcher only while no agent runs
 */
export const PROGRAM_VARIABLE = 'SKERRY_AGENT_PROGRAM';
/** Set by a launcher that watches its agent, which then ends instead of replacing its process. */
export const WATCHED_VARIABLE = 'SKERRY_AGENT_WATCHED';
/** Exit code of an agent that is to be started again. */
export const RESTART_CODE = 75;

/** A release that was switched to and that no report has confirmed yet. */
export interface Trial {
  version: string;
  /** the release that runs again when this one fails */
  from: string;
  /** of the manifest; a release that is built again under the same version has another one */
  digest: string;
  /** the action that requested it */
  action: string;
  starts: number;
  /** why it failed; then the link is switched back */
  failed?: string;
  /** it failed without ending, perhaps because the network was down: a new action may try it again */
  isLate?: true;
}

interface Failure {
  version: string;
  reason: string;
  /** the release that ran on; absent in files of an older launcher */
  runs?: string;
}

export interface UpdateState {
  /** the release before the present one */
  previous?: string;
  trial?: Trial;
  /** releases that ended on trial, by version: they are not tried again */
  bad: Record<string, { digest: string; reason: string }>;
  /** why the last version action failed; absent when it did not */
  failure?: Failure;
  /** the last version action that was carried out, or failed */
  finished?: string;
}

export interface Release {
  version: string;
  /** command line options of Node for this release */
  nodeFlags: string[];
}

/** The program directory as files. */
export class Program {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  get releases(): string {
    return join(this.directory, 'releases');
  }

  release(version: string): string {
    return join(this.releases, version);
  }

  /** Complete releases: a directory gets its name when all files are in it. */
  versions(): string[] {
    return listDirectory(this.releases).filter(
      (name) => !name.startsWith('.') && exists(join(this.releases, name, 'release.json')),
    );
  }

  read(version: string): Release {
    const { nodeFlags } = parse(readText(join(this.release(version), 'release.json')));
    return { version, nodeFlags: Array.isArray(nodeFlags) ? nodeFlags.filter((flag) => typeof flag === 'string') : [] };
  }

  /** The version that the link names, whether or not it is complete. */
  get current(): string | undefined {
    return linkTarget(join(this.directory, 'current'))?.split('/').at(-1);
  }

  switchTo(version: string): void {
    switchLinkSync(join(this.directory, 'current'), join('releases', version));
  }

  get state(): UpdateState {
    const { previous, trial, bad, failure, finished } = parse(readText(this.#stateFile)) as Partial<UpdateState>;
    return {
      bad: bad !== null && typeof bad === 'object' ? bad : {},
      ...(typeof previous === 'string' && { previous }),
      ...(typeof trial?.version === 'string' &&
        typeof trial.from === 'string' && { trial: { ...NO_STARTS, ...trial } }),
      ...(typeof failure?.version === 'string' && { failure }),
      ...(typeof finished === 'string' && { finished }),
    };
  }

  save(state: UpdateState): void {
    writeDurably(this.#stateFile, `${JSON.stringify(state, undefined, 2)}\n`, 0o644);
  }

  /** Removes all releases but these, and what was left of downloads. */
  keepOnly(versions: readonly (string | undefined)[]): void {
    for (const name of listDirectory(this.releases))
      if (!versions.includes(name)) removePath(join(this.releases, name));
  }

  get freeBytes(): number | undefined {
    return fileSystemSize(this.directory)?.available;
  }

  get #stateFile(): string {
    return join(this.directory, 'update.json');
  }
}

const NO_STARTS = { starts: 0, digest: '', action: '' };

function parse(text: string | undefined): Record<string, unknown> {
  const value = jsonOr(text ?? '', {});
  return value !== null && typeof value === 'object' ? (value as Record<string, unknown>) : {};
}
