import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { recordedProcess } from '../process.ts';
import { readJson, STACK_PROCESS, type StackFile } from './files.ts';

/** Where the logs of a stack that failed are; empty when it had not come so far. */
export function logsIn(dir: string): string {
  const logs = join(dir, 'logs');
  const near = relative(process.cwd(), logs);
  return existsSync(logs) ? `\nLogs are in ${near.startsWith('..') ? logs : near}.\n` : '';
}

/** The message for a user who starts the stack a second time: what runs, and how to continue without losing data. */
export function alreadyRuns(dir: string): string {
  const urls = readJson<StackFile>(join(dir, 'stack.json'));
  const pid = recordedProcess(dir, STACK_PROCESS);
  return [
    `The local stack runs already${pid ? `, as process ${pid}` : ''}${urls ? '' : ', and is starting or stopping'}.`,
    ...(urls ? [`  REST      ${urls.rest}`, '  kubectl   export KUBECONFIG=.skerry/kubeconfig'] : []),
    `To stop it, press Ctrl-C where it runs${pid ? `, or: kill ${pid}` : ''}. Its data stays; make clean removes that as well.`,
  ].join('\n');
}
