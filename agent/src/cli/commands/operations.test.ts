import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { COMMANDS } from '../commands.ts';
import type { CommandContext } from './command.ts';
import { type PolledOperation, untilEnded } from './operations.ts';

const running = (progress: number): PolledOperation => ({ operationId: 'a1', status: 'running', progress });
const waiting = { path: '/v1/things:do', budget: 60_000, what: 'thing', hint: 'Look.' };

/** A command whose agent answers these in turn. */
function contextOf(answers: PolledOperation[], change: Partial<CommandContext> = {}) {
  const asked: string[] = [];
  const errors: string[] = [];
  const call = async (_method: string, path: string) => {
    asked.push(path);
    return answers.shift();
  };
  const err = (text: string) => void errors.push(text);
  const budget = (usual: number) => usual;
  const plain = { client: { call }, err, budget, format: 'human', signal: new AbortController().signal };
  const context = { ...plain, ...change };
  return { asked, errors, context: context as unknown as CommandContext };
}

describe('an operation that a command waits for', () => {
  test('is polled until it has ended, and its progress is shown in steps of ten percent', async () => {
    const done: PolledOperation = { operationId: 'a1', status: 'succeeded', progress: 100 };
    const { context, asked, errors } = contextOf([running(5), running(37), running(39), done]);
    expect(await untilEnded(context, running(0), waiting)).toEqual(done);
    expect(asked).toEqual(Array(4).fill('/v1/things:do/a1'));
    expect(errors).toEqual(['thing: 30 %\n', 'thing: 100 %\n']);
  });

  test('shows nothing but data where data was asked for', async () => {
    const { context, errors } = contextOf([{ ...running(100), status: 'succeeded' }], { format: 'json' });
    await untilEnded(context, running(50), waiting);
    expect(errors).toEqual([]);
  });

  test('fails with its own error', async () => {
    const error = { code: 'CONFLICT', message: 'in use' };
    const { context } = contextOf([{ ...running(1), status: 'failed', error }]);
    const failure = { code: 'CONFLICT', message: 'thing: in use', hint: 'Look.' };
    await expect(untilEnded(context, running(0), waiting)).rejects.toMatchObject(failure);
  });

  test('continues when the command no longer waits, and the command says so', async () => {
    // As --timeout has it.
    const { context } = contextOf([], { budget: () => -1 });
    const late = { code: 'TIMEOUT', message: 'thing: it is not over after 0s' };
    await expect(untilEnded(context, running(0), waiting)).rejects.toMatchObject(late);
  });

  test('is left when the command is interrupted', async () => {
    const stop = new AbortController();
    const { context, asked } = contextOf([], { signal: stop.signal });
    stop.abort(new Error('interrupted'));
    await expect(untilEnded(context, running(0), waiting)).rejects.toThrow('interrupted');
    expect(asked).toEqual([]);
  });
});

describe('without --timeout', () => {
  const folder = temporaryFolder();
  const waits: [string, string[], number][] = [
    ['image pull', ['web:1'], 30],
    ['image load', ['web.tar'], 30],
    ['model pull', ['detector'], 6 * 60],
    ['knowledge pull', ['manual'], 6 * 60],
    ['runtimeclass rm', ['fast'], 30],
    ['deploy', ['Microservice'], 30],
    ['deploy', ['ControlPlane'], 15],
    ['deploy', ['RuntimeClass'], 30],
    ['deploy', ['Model'], 6 * 60],
    ['deploy', ['Knowledge'], 6 * 60],
  ];

  test.each(waits)('%s %j waits %d minutes at most', async (name, words, minutes) => {
    const file = join(folder, `${words[0]}.yaml`);
    writeFileSync(file, `kind: ${words[0]}\n`);
    const begun = { ...running(0), name: 'x' };
    const asked: number[] = [];
    const { context } = contextOf([{ ...begun, ...{ pulls: [begun] } }], {
      words,
      flags: name === 'deploy' ? { file } : {},
      budget: (usual) => {
        asked.push(usual / 60_000);
        return -1;
      },
    });
    const command = COMMANDS.find((each) => each.name === name);
    await expect(command?.run(context)).rejects.toMatchObject({ code: 'TIMEOUT' });
    expect(asked).toEqual([minutes]);
  });
});
