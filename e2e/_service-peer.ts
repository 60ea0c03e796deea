import { createServer } from 'node:http';
import { connect, createServer as createTcpServer, type Socket } from 'node:net';

/**
 * A program in a container of a test: it answers each line at ECHO_PORT with its name and the line, and keeps connections of its own, by
 * which it says lines to others when it is asked to over HTTP at CONTROL_PORT.
 */
const { CONTROL_PORT, ECHO_PORT, NAME = '' } = process.env;
const ANSWER_MS = 1_500;
const open = new Map<string, Socket>();

if (ECHO_PORT)
  createTcpServer((socket) => {
    socket.on('error', () => {}).on('data', (chunk) => void socket.write(`${NAME}: ${chunk}`));
  }).listen(Number(ECHO_PORT));

/** Says a line by a connection of this name, which is opened first unless it is open. */
function say(id: string, target: string, line: string): Promise<string> {
  const [host = '', port = ''] = target.split(':');
  return new Promise((resolve, reject) => {
    const socket = open.get(id) ?? connect({ host, port: Number(port) });
    open.set(id, socket);
    const timer = setTimeout(() => fail('no answer'), ANSWER_MS);
    const end = () => {
      clearTimeout(timer);
      socket
        .removeAllListeners('data')
        .removeAllListeners('error')
        .removeAllListeners('close')
        .on('error', () => {});
    };
    const fail = (why: string) => {
      end();
      socket.destroy();
      open.delete(id);
      reject(new Error(why));
    };
    socket.once('error', ({ message }) => fail(message)).once('close', () => fail('closed'));
    socket.once('data', (chunk) => {
      end();
      resolve(String(chunk));
    });
    socket.write(line);
  });
}

if (CONTROL_PORT)
  createServer(async ({ url = '' }, response) => {
    const { searchParams } = new URL(url, 'http://peer');
    const [id = '', target = '', line = ''] = ['id', 'target', 'line'].map((name) => searchParams.get(name) ?? '');
    try {
      const isOpen = open.has(id);
      response.end(JSON.stringify({ answer: await say(id, target, line), isNew: !isOpen }));
    } catch (error) {
      response.end(JSON.stringify({ error: (error as Error).message }));
    }
  }).listen(Number(CONTROL_PORT));
