import { describe, expect, test } from 'vitest';
import { EngineError } from '../../engine-port/error.ts';
import { containerdPullError, translated } from './errors.ts';
import { GrpcError, STATUS } from './wire/grpc.ts';

const url = 'unix:///run/x.sock';
const error = (status: number, message: string) => translated(new GrpcError(status, message), url) as EngineError;

describe('an error of containerd', () => {
  test.each([
    [STATUS.notFound, 'container "x": not found', 'NotFound'],
    [STATUS.exists, 'x: already exists', 'Conflict'],
    [STATUS.precondition, 'cannot be done', 'Conflict'],
    [STATUS.invalid, 'bad', 'Invalid'],
    [STATUS.unknown, 'write /a: no space left on device', 'DiskFull'],
    [STATUS.unknown, 'runc create failed: error setting rlimit type 7: operation not permitted', 'LimitRefused'],
    [STATUS.unknown, 'something else', 'Failed'],
    [STATUS.unknown, 'server is not initialized yet', 'Unavailable'],
    [STATUS.unavailable, 'connect ENOENT', 'Unavailable'],
    [STATUS.deadline, 'no answer within 30 s', 'Unavailable'],
  ])('the status %i with the words "%s" is %s', (status, message, code) => {
    expect(error(status, message)).toMatchObject({ code });
  });

  test('an error of the runtime keeps the words of the runtime alone, and no more than 4096 characters', () => {
    const words = 'OCI runtime create failed: unable to start container process: exec: "/x": no such file: unknown';
    expect(error(STATUS.unknown, words).message).toBe('exec: "/x": no such file');
    expect(error(STATUS.unknown, 'x'.repeat(10_000)).message).toHaveLength(4096);
  });

  test('an error of the agent stays as it is', () => {
    const own = new RangeError('it was changed');
    expect(translated(own, url)).toBe(own);
  });
});

describe('a pull that fails', () => {
  const failed = (message: string) =>
    containerdPullError('r.example/a:1', new EngineError('Failed', message)) as EngineError;
  test.each([
    ['failed to resolve: 401 Unauthorized', 'ImageUnauthorized'],
    ['failed to authorize: insufficient_scope: authorization failed', 'ImageUnauthorized'],
    ['r.example/a:1: not found', 'ImageNotFound'],
    ['dial tcp: lookup r.example: no such host, not found', 'ImagePullFailed'],
    ['connection refused', 'ImagePullFailed'],
  ])('a pull with the words "%s" is %s', (message, code) => {
    expect(failed(message)).toMatchObject({ code, message: expect.stringContaining('pull r.example/a:1: ') });
  });

  test('a pull from an unknown authority says where the authority can be named', () => {
    expect(failed('x509: certificate signed by unknown authority').message).toMatch(/`ca` of the registry$/);
  });

  test('a pull keeps the error of a full disk and of a containerd that is away', () => {
    for (const code of ['DiskFull', 'Unavailable'] as const)
      expect(containerdPullError('r.example/a:1', new EngineError(code, 'x'))).toMatchObject({ code, message: 'x' });
  });
});
