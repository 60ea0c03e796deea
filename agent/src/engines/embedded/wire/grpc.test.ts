import { createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { atEnd } from '../../../../../testing/at-end.ts';
import { temporaryFolder } from '../../../../../testing/temporary-folder.ts';
import { GrpcConnection, STATUS } from './grpc.ts';

const frame = (text: string) => {
  const header = Buffer.alloc(5);
  header.writeUInt32BE(Buffer.byteLength(text), 1);
  return Buffer.concat([header, Buffer.from(text)]);
};

/** A server that answers each call with the function. */
async function serve(answer: (stream: ServerHttp2Stream, path: string) => void) {
  const socket = join(temporaryFolder(), 'grpc.sock');
  const start = () =>
    new Promise<Http2Server>((resolve) => {
      const server = createServer();
      server.on('stream', (stream, headers) => {
        stream.on('error', () => {});
        answer(stream, String(headers[':path']));
      });
      server.listen(socket, () => resolve(server));
    });
  const connection = new GrpcConnection(socket);
  atEnd(() => connection.close());
  return { connection, start };
}

const succeed = (stream: ServerHttp2Stream, ...pieces: Buffer[]) => {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
  for (const piece of pieces) stream.write(piece);
  stream.end();
};

async function answersOf(calls: AsyncIterable<Buffer>): Promise<string[]> {
  const texts: string[] = [];
  for await (const each of calls) texts.push(each.toString());
  return texts;
}

describe('a call', () => {
  test('yields the messages of the answer, wherever the pieces are cut', async () => {
    const both = Buffer.concat([frame('one'), frame('')]);
    const { connection, start } = await serve((stream) =>
      succeed(stream, both.subarray(0, 3), both.subarray(3, 7), both.subarray(7)),
    );
    const server = await start();
    atEnd(() => void server.close());
    expect(await answersOf(connection.call({ path: '/a' }, [Buffer.from('q')]))).toEqual(['one', '']);
  });

  test('joins the pieces of a large message once', async () => {
    const text = 'x'.repeat(4 * 1024 * 1024);
    const { connection, start } = await serve((stream) => succeed(stream, frame(text), frame('end')));
    const server = await start();
    atEnd(() => void server.close());
    const concat = vi.spyOn(Buffer, 'concat');
    const answers = await answersOf(connection.call({ path: '/a' }, []));
    const calls = concat.mock.calls.length;
    concat.mockRestore();
    expect(answers.map(({ length }) => length)).toEqual([text.length, 3]);
    expect(calls).toBeLessThan(10);
  });

  test('throws the status and the words of an answer that is an error', async () => {
    const { connection, start } = await serve((stream) =>
      stream.respond(
        { ':status': 200, 'grpc-status': '5', 'grpc-message': 'no %22x%22: nicht %C3%BCberall' },
        { endStream: true },
      ),
    );
    const server = await start();
    atEnd(() => void server.close());
    await expect(answersOf(connection.call({ path: '/a' }, []))).rejects.toMatchObject({
      ...{ status: STATUS.notFound, message: 'no "x": nicht überall' },
    });
  });

  test('ends with its deadline, and with its signal', async () => {
    const { connection, start } = await serve(() => {});
    const server = await start();
    atEnd(() => void server.close());
    await expect(answersOf(connection.call({ path: '/a', deadline: 50 }, []))).rejects.toMatchObject({
      status: STATUS.deadline,
    });
    const stop = new AbortController();
    const call = answersOf(connection.call({ path: '/a', signal: stop.signal }, []));
    stop.abort(new RangeError('called off'));
    await expect(call).rejects.toThrow(new RangeError('called off'));
  });

  test('is Unavailable without a server, and works once there is one', async () => {
    const { connection, start } = await serve((stream) => succeed(stream, frame('here')));
    await expect(answersOf(connection.call({ path: '/a' }, []))).rejects.toMatchObject({ status: STATUS.unavailable });
    const server = await start();
    atEnd(() => void server.close());
    expect(await answersOf(connection.call({ path: '/a' }, []))).toEqual(['here']);
  });

  test('is Unavailable when the server goes away meanwhile', async () => {
    const { connection, start } = await serve((stream) => stream.session?.destroy());
    const server = await start();
    atEnd(() => void server.close());
    await expect(answersOf(connection.call({ path: '/a' }, []))).rejects.toMatchObject({ status: STATUS.unavailable });
  });

  test('refuses a message of more than 16 MiB before it is read', async () => {
    const header = Buffer.from([0, 0x7f, 0xff, 0xff, 0xff]);
    const { connection, start } = await serve((stream) => succeed(stream, header));
    const server = await start();
    atEnd(() => void server.close());
    await expect(answersOf(connection.call({ path: '/a' }, []))).rejects.toThrow(/a message has 2147483647 bytes/);
  });

  test('throws the error of a message that cannot be read', async () => {
    const { connection, start } = await serve((stream) => void stream.resume());
    const server = await start();
    atEnd(() => void server.close());
    const broken = async function* () {
      yield Buffer.from('first');
      throw new RangeError('it was changed');
    };
    await expect(answersOf(connection.call({ path: '/a' }, broken()))).rejects.toThrow(
      new RangeError('it was changed'),
    );
  });
});
