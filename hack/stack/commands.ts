import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../paths.ts';
import { writeAtomically } from './files.ts';

/** Where the commands of the local stack find it. */
export interface CommandsOptions {
  /** Data folder of the stack. */
  dir: string;
  /** URL of REST. */
  rest: string;
  /** File of the authority of its certificate, where it is HTTPS. */
  ca?: string | undefined;
  /** URL of the registry. */
  registry: string;
  /** The socket of a docker that the stack started. */
  dockerHost?: string | undefined;
  kubeconfig: string;
  tokenFile: string;
  agentConfig: string;
  /** Path of a kubectl, which may still be on its way. */
  kubectl: string;
}

/** A word of a shell. */
const word = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * Writes the file `env` for a shell to source, and the commands that it puts on the PATH: kubectl, its plugin with its completion, and
 * skerry-agent. Returns the path of `env`.
 */
export function writeCommands({ dir, kubectl, tokenFile, ...places }: CommandsOptions): string {
  const bin = join(dir, 'bin');
  const node = join(ROOT, 'node_modules/.bin/node');
  const commands: Record<string, string> = {
    kubectl: `test -x ${word(kubectl)} || { echo 'kubectl is not there yet: make up says when it is' >&2; exit 1; }\nexec ${word(kubectl)} "$@"`,
    'kubectl-skerry': `exec ${word(node)} ${word(join(ROOT, 'bin/kubectl-skerry.cjs'))} "$@"`,
    'kubectl_complete-skerry': 'exec kubectl-skerry __complete "$@"',
    'skerry-agent': `exec ${word(node)} ${word(join(ROOT, 'bin/skerry-agent.cjs'))} "$@"`,
  };
  rmSync(bin, { recursive: true, force: true });
  mkdirSync(bin, { recursive: true });
  for (const [name, text] of Object.entries(commands)) {
    writeAtomically(join(bin, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  const variables = {
    KUBECONFIG: places.kubeconfig,
    SKERRY_CONTROLLER: places.rest,
    SKERRY_TOKEN_FILE: tokenFile,
    SKERRY_AGENT_CONFIG: places.agentConfig,
    URL: places.rest,
    ...(places.ca && { CA: places.ca }),
    REGISTRY: new URL(places.registry).host,
    ...(places.dockerHost && { DOCKER_HOST: places.dockerHost }),
  };
  const lines = [
    '# Commands and addresses of the local stack, for this shell: . .skerry/env',
    `case ":$PATH:" in *:${word(bin)}:*) ;; *) export PATH=${word(bin)}:"$PATH" ;; esac`,
    ...Object.entries(variables).map(([name, value]) => `export ${name}=${word(value)}`),
    '# It is replaced within the hour: source this file again after a 401.',
    `export TOKEN="$(cat ${word(tokenFile)})"`,
  ];
  const file = join(dir, 'env');
  writeAtomically(file, `${lines.join('\n')}\n`);
  return file;
}
