import { execFile } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { dirname } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** Makes named pipes. Node has no call for it. */
export async function makeFifos(paths: readonly string[]): Promise<void> {
  for (const path of paths) mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  await execute('mkfifo', ['-m', '600', ...paths], { timeout: 10_000 });
}

export const removeFifos = (paths: readonly string[]): void => {
  for (const path of paths) rmSync(path, { force: true });
};

/** The end of a pipe that reads. It is read once `read` is called: without a writer a pipe would seem to have ended. */
export function readingEnd(path: string): { read(): Socket; close(): void } {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  let socket: Socket | undefined;
  return {
    read() {
      socket ??= new Socket({ fd: descriptor, readable: true, writable: false });
      return socket;
    },
    close() {
      if (socket) socket.destroy();
      else closeSync(descriptor);
    },
  };
}

/** The end of a pipe that writes; opened before there is a reader. */
export function writingEnd(path: string): Socket {
  // Only with both directions does it open without a reader; nothing reads here.
  const descriptor = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  return new Socket({ fd: descriptor, readable: false, writable: true });
}
