import type { Attached } from '../../../src/session-client/attach.ts';
import { PROGRAM_FLAGS, passedOn, programSession } from '../../../src/terminal/sessions.ts';
import type { Command } from '../context/command.ts';
import { CONTROLLER_DETAILS, CONTROLLER_FLAGS, controllerOf, sessionRefusal } from '../context/controller.ts';
import { CommandError } from '../context/errors.ts';
import { createNotices } from '../context/notices.ts';
import { CONTAINER_FLAG, completeTargets, microserviceTarget, withContainer } from '../objects/targets.ts';

export const exec: Command = {
  name: 'exec',
  usage: 'APP/MS [-- COMMAND...]',
  about: 'Run a program in a microservice: a shell, or a command whose exit code is passed on',
  details: [
    'Without a command: bash where the container has it, else sh, on this terminal.',
    'With a command, nothing is passed to its standard input without --stdin. Ends with 1 when the session fails, 130 after Ctrl-C.',
    ...CONTROLLER_DETAILS,
  ],
  examples: [
    'exec -it plant-a/reader -- sh',
    'exec plant-a/reader -- cat /etc/os-release',
    "exec -i plant-a/reader -- sh -c 'cat > /tmp/data' < data",
  ],
  hint: 'flags of the program go behind --, as in: exec plant-a/reader -- ls -l',
  flags: {
    ...PROGRAM_FLAGS,
    ...CONTAINER_FLAG,
    ...CONTROLLER_FLAGS,
  },
  words: { min: 1, max: Number.POSITIVE_INFINITY },
  complete: (context, words) => (words.length === 0 ? completeTargets(context, false) : []),
  async run(context) {
    const { words, flags, streams, err } = context;
    const [given = '', ...command] = words;
    const word = withContainer(given, flags);
    const controller = await controllerOf(context);
    const { exec: path = '' } = await microserviceTarget(context, word);
    const { query, takesInput, isTerminal, note } = programSession(command, flags, streams);
    if (note !== undefined) err(`note: ${note}\n`);
    const notices = createNotices(context);
    const { attach } = await import('../../../src/session-client/attach.ts');
    try {
      const end = await attach(await controller.socket(path, query), {
        ...(takesInput && { input: streams.input }),
        ...{ output: streams.output, errors: streams.errors, isTerminal, signal: context.signal },
        notice: notices.show,
      });
      context.exitWith(codeOf(end));
    } finally {
      notices.end();
    }
  },
};

/** The exit code of the program; throws when there is none. */
export function codeOf(end: Attached): number {
  if ('exitCode' in end) return passedOn(end.exitCode);
  if ('interrupted' in end) return 130;
  throw new CommandError(sessionRefusal(end.failed));
}
