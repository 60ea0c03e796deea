import { statSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import type { Command, CommandContext } from '../context/command.ts';
import { CONTROLLER_DETAILS, CONTROLLER_FLAGS, controllerOf } from '../context/controller.ts';
import { CommandError, UsageError } from '../context/errors.ts';
import { createNotices } from '../context/notices.ts';
import { completeTargets, microserviceTarget } from '../objects/targets.ts';
import { codeOf } from './exec.ts';
import { archive, extract, lastName } from './files.ts';

/** What is kept of what tar writes to its standard error. */
const COMPLAINT_BYTES = 2_000;
/** How engines and shells say that they have not found a program. */
const NOT_FOUND: ReadonlySet<number> = new Set([126, 127]);

export const cp: Command = {
  name: 'cp',
  usage: 'APP/MS:PATH PATH | PATH APP/MS:PATH',
  about: 'Copy a file or a folder out of a microservice, or into it',
  details: [
    'Needs a tar in the container. A target that is a folder, or ends with a slash, gets the source by its own name; any other is its new name.',
    'Out of a container, links are left out, and what is in the way is replaced only where it is a file.',
    ...CONTROLLER_DETAILS,
  ],
  examples: [
    'cp plant-a/reader:/etc/app.conf .',
    'cp ./app.conf plant-a/reader:/etc/',
    'cp plant-a/reader:/var/log logs',
  ],
  flags: CONTROLLER_FLAGS,
  words: { min: 2, max: 2 },
  complete: async (context) => (await completeTargets(context, false)).map((name) => `${name}:/`),
  async run(context) {
    const [from = '', to = ''] = context.words;
    const [source, target] = [remoteOf(from), remoteOf(to)];
    if (source && !target) return copyOut(context, source, to);
    if (target && !source) return copyIn(context, from, target);
    throw new UsageError(
      'cp needs one path of a container, such as plant-a/reader:/etc/app.conf, and one of this machine',
    );
  },
};

interface Remote {
  microservice: string;
  path: string;
}

/** A path of this machine that looks like one of a container begins with `./` or `/`. */
function remoteOf(word: string): Remote | undefined {
  const [, microservice, path] = /^([^/.:][^/:]*\/[^/:]+):(.+)$/s.exec(word) ?? [];
  return microservice !== undefined && path !== undefined ? { microservice, path } : undefined;
}

async function copyOut(context: CommandContext, { microservice, path }: Remote, to: string): Promise<void> {
  const root = lastName(path);
  if (root === '' || root === '.' || root === '..')
    throw new UsageError(`"${path}" must end with the name of a file or folder`);
  const isFolder = to.endsWith('/') || statSync(to, { throwIfNoEntry: false })?.isDirectory() === true;
  const output = new PassThrough();
  let leftOut = 0;
  const folder = path.replace(/(?<!\/)\/+$/, '').slice(0, -root.length) || '.';
  const [, files] = await Promise.all([
    tar(context, microservice, ['-cf', '-', '-C', folder, `./${root}`], { output }).finally(() => output.end()),
    extract(output as AsyncIterable<Buffer>, {
      root,
      target: isFolder ? join(to, root) : to,
      leftOut(text) {
        leftOut += 1;
        context.err(`warning: ${text}\n`);
      },
    }).catch((error: unknown) => {
      output.destroy();
      throw error;
    }),
  ]);
  if (files === 0 && leftOut > 0) throw new CommandError('nothing was copied');
  context.err(`${files} ${files === 1 ? 'file' : 'files'} copied\n`);
}

async function copyIn(context: CommandContext, from: string, { microservice, path }: Remote): Promise<void> {
  if (!statSync(from, { throwIfNoEntry: false })) throw new CommandError(`there is no file ${from}`);
  const own = lastName(from);
  // Else tar would put the file in the place of an empty folder.
  const isFolder = path.endsWith('/') || (await isFolderThere(context, microservice, path));
  const given = isFolder ? `${path.replace(/(?<!\/)\/*$/, '/')}${own}` : path;
  const name = lastName(given);
  if (['', '.', '..'].includes(name)) throw new UsageError(`"${path}" must end with a name, or with a slash`);
  const folder = given.slice(0, -name.length) || '.';
  const input = Readable.from(archive(from, name), { objectMode: false, highWaterMark: 256 * 1024 });
  await tar(context, microservice, ['-xmf', '-', '-C', folder], { input, output: new PassThrough().resume() });
}

/** A container without `test` has no tar either, most likely, which is the better error. */
async function isFolderThere(context: CommandContext, microservice: string, path: string): Promise<boolean> {
  const { code } = await run(context, microservice, ['test', '-d', path], { output: new PassThrough().resume() });
  return code === 0;
}

/** Runs tar in a container; throws with its own words when it fails. */
async function tar(
  context: CommandContext,
  microservice: string,
  args: readonly string[],
  streams: { input?: Readable; output: Writable },
): Promise<void> {
  const { code, complaint } = await run(context, microservice, ['tar', ...args], streams);
  if (code === 0) return;
  // What a container writes may have escape sequences for the terminal.
  const words = complaint
    .trim()
    .replaceAll('\n', '; ')
    .replaceAll(/\p{Cc}/gu, '');
  const isMissing = NOT_FOUND.has(code) && !complaint.startsWith('tar:');
  throw new CommandError(
    isMissing
      ? `the container of ${microservice} has no tar, which cp needs`
      : `tar in the container of ${microservice} ended with ${code}: ${words}`,
  );
}

/** Runs a program in a container: its exit code, and what it wrote to its standard error. */
async function run(
  context: CommandContext,
  microservice: string,
  command: readonly string[],
  streams: { input?: Readable; output: Writable },
): Promise<{ code: number; complaint: string }> {
  const controller = await controllerOf(context);
  const { exec: path = '' } = await microserviceTarget(context, microservice);
  const query = new URLSearchParams({ tty: 'false' });
  for (const one of command) query.append('command', one);
  let complaint = '';
  const errors = new Writable({
    write(chunk, _, done) {
      complaint = (complaint + String(chunk)).slice(0, COMPLAINT_BYTES);
      done();
    },
  });
  let problem: Error | undefined;
  streams.input?.once('error', (error) => {
    problem = error;
    stop.abort();
  });
  streams.output.once('close', () => stop.abort());
  const stop = new AbortController();
  const notices = createNotices(context);
  const { attach } = await import('../../../src/session-client/attach.ts');
  try {
    const end = await attach(await controller.socket(path, query), {
      ...streams,
      ...{ errors, isTerminal: false, notice: notices.show },
      signal: AbortSignal.any([context.signal, stop.signal]),
    });
    if (problem) throw problem;
    if (context.signal.aborted) throw new CommandError('interrupted');
    if ('failed' in end && /executable file not found|no such file or directory/.test(end.failed.reason))
      return { code: 127, complaint: end.failed.reason };
    return { code: codeOf(end), complaint };
  } finally {
    notices.end();
  }
}
