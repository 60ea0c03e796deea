import { passedOn, programSession } from '../../../../src/terminal/sessions.ts';
import { sessionError } from '../../local-api/client.ts';
import { type CommandContext, required } from './command.ts';

/** Runs a program in a microservice of this machine, between its standard streams and those of this process. */
export async function runProgram(context: CommandContext): Promise<void> {
  const { client, words, flags, streams, err, signal, exitWith } = context;
  const id = required(context, 'the microservice');
  const { query, takesInput, isTerminal, note } = programSession(words.slice(1), flags, streams);
  if (note !== undefined) err(`note: ${note}\n`);
  const { attach } = await import('../../../../src/session-client/attach.ts');
  const end = await attach(await client.socket(`/v1/ms/${encodeURIComponent(id)}/exec?${query}`), {
    ...(takesInput && { input: streams.input }),
    ...{ output: streams.output, errors: streams.errors, isTerminal, signal },
    notice: () => {},
  });
  if ('failed' in end) throw sessionError(end.failed);
  exitWith('exitCode' in end ? passedOn(end.exitCode) : 130);
}
