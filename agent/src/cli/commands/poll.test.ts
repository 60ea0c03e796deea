import { describe, expect, test } from 'vitest';
import type { CommandContext } from './command.ts';
import { follow, type PolledOperation } from './poll.ts';

const running = (progress: number): PolledOperation => ({ operationId: 'a1', status: 'running', progress });
const options = { path: '/v1/things:do', budget: 60_000, what: 'thing' };

/** A command whose agent answers these in turn. */
function context(answers: PolledOperation[], change: Partial<CommandContext> = {}) {
  const asked: string[] = [];
  const errors: string[] = [];
  const client = {
    call: async (_method: string, path: string) => {
      asked.push(path);
      return answers.shift();
    },
  };
  const err = (text: string) => void errors.push(text);
  const plain = { client, err, format: 'human', signal: new AbortController().signal, ...change };
  return { asked, errors, context: plain as unknown as CommandContext };
}

describe('an operation that is followed', () => {
  test('is polled until it has ended, and its progress is shown in steps of ten percent', async () => {
    const done: PolledOperation = { operationId: 'a1', status: 'succeeded', progress: 100 };
    const { context: command, asked, errors } = context([running(5), running(37), done]);
    expect(await follow(command, running(0), options)).toEqual(done);
    expect(asked).toEqual(Array(3).fill('/v1/things:do/a1'));
    expect(errors).toEqual(['thing: 30%\n']);
  });

  test('shows nothing but data where data was asked for', async () => {
    const { context: command, errors } = context([running(50), { ...running(100), status: 'succeeded' }], {
      format: 'json',
    });
    await follow(command, running(0), options);
    expect(errors).toEqual([]);
  });

  test('fails with its own error', async () => {
    const error = { code: 'CONFLICT', message: 'in use' };
    const { context: command } = context([{ ...running(1), status: 'failed', error }]);
    await expect(follow(command, running(0), options)).rejects.toMatchObject({ code: 'CONFLICT', message: 'in use' });
  });

  test('continues when the command no longer waits, and the command says so', async () => {
    const { context: command } = context([running(1)]);
    await expect(follow(command, running(0), { ...options, budget: -1 })).rejects.toMatchObject({
      message: 'thing has not ended after 0 minutes, and continues',
      hint: 'Its state: /v1/things:do/a1',
    });
  });

  test('is left when the command is interrupted', async () => {
    const stop = new AbortController();
    const { context: command, asked } = context([], { signal: stop.signal });
    stop.abort(new Error('interrupted'));
    await expect(follow(command, running(0), options)).rejects.toThrow('interrupted');
    expect(asked).toEqual([]);
  });
});
