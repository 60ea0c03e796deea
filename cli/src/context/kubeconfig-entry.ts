import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isMap, isSeq, parseDocument, YAMLSeq } from 'yaml';
import type { CommandContext } from './command.ts';
import { CommandError } from './errors.ts';

/** The user and the context of the kubeconfig that use a login. */
const NAME = 'skerry';

/** Writes them, for the cluster of the current context; what else the file has stays, comments included. Returns its path. */
export function addLogin({ env, flags }: Pick<CommandContext, 'env' | 'flags'>, args: readonly string[]): string {
  const given = typeof flags.kubeconfig === 'string' ? flags.kubeconfig : env.KUBECONFIG?.split(':')[0];
  const path = given || join(env.HOME || homedir(), '.kube', 'config');
  const document = parseDocument(readFileSync(path, 'utf8'));
  const { contexts = [], 'current-context': current } = (document.toJS() ?? {}) as {
    contexts?: { name: string; context: { cluster: string; namespace?: string } }[];
    'current-context'?: string;
  };
  const wanted = typeof flags.context === 'string' ? flags.context : current;
  const chosen = contexts.find(({ name }) => name === wanted)?.context;
  if (!chosen)
    throw new CommandError(
      `${path} has no context "${wanted ?? ''}"; --context names one, --no-kubeconfig writes none`,
    );
  const exec = {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: 'kubectl-skerry',
    args,
    interactiveMode: 'Never',
    installHint: 'kubectl-skerry is the kubectl plugin of Skerry',
    provideClusterInfo: false,
  };
  put('users', { name: NAME, user: { exec } });
  const place = { cluster: chosen.cluster, ...(chosen.namespace !== undefined && { namespace: chosen.namespace }) };
  put('contexts', { name: NAME, context: { ...place, user: NAME } });
  const partial = `${path}.skerry`;
  writeFileSync(partial, document.toString(), { mode: 0o600 });
  renameSync(partial, path);
  return path;

  /** Replaces the entry of this name, or adds it. */
  function put(list: 'users' | 'contexts', entry: { name: string; [member: string]: unknown }): void {
    const present = document.get(list);
    const entries = isSeq(present) ? present : new YAMLSeq();
    if (!isSeq(present)) document.set(list, entries);
    const index = entries.items.findIndex((item) => isMap(item) && item.get('name') === entry.name);
    const node = document.createNode(entry);
    if (index === -1) entries.items.push(node);
    else entries.items[index] = node;
  }
}
