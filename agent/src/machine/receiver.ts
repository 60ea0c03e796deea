import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isatty, ReadStream } from 'node:tty';
import { type Clock, sleep } from '../../../src/lib/clock.ts';

/** A device that is no terminal is asked so often, ms, for more. */
const PAUSE = 200;
const PIECE = 4096;

/**
 * What a device sends, until the signal fires. Only character devices are read: a FIFO or a file that someone put in its place is
 * refused. Throws when the device is not there, and ends when it is pulled out.
 */
export async function* readDevice(path: string, signal: AbortSignal, clock: Clock): AsyncGenerator<Uint8Array> {
  const { O_RDONLY, O_NONBLOCK, O_NOCTTY } = constants;
  const device = await open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  let isOurs = true;
  try {
    if (!(await device.stat()).isCharacterDevice()) throw new Error(`${path} is no character device`);
    if (isatty(device.fd)) {
      isOurs = false;
      yield* readTerminal(device, signal);
    } else yield* poll(device, signal, clock);
  } finally {
    if (isOurs) await device.close();
  }
}

async function* readTerminal(device: FileHandle, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const stream = new ReadStream(device.fd);
  const stop = () => stream.destroy();
  signal.addEventListener('abort', stop, { once: true });
  try {
    // As it is: with the settings of a terminal the receiver would get an echo of what it says.
    stream.setRawMode(true);
    for await (const piece of stream) yield piece as Uint8Array;
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener('abort', stop);
    stream.destroy();
    await device.close().catch(() => {});
  }
}

async function* poll(device: FileHandle, signal: AbortSignal, clock: Clock): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.alloc(PIECE);
  while (!signal.aborted) {
    const length = await device.read(buffer, 0, PIECE).then(
      ({ bytesRead }) => bytesRead,
      (error: NodeJS.ErrnoException) => {
        if (error.code === 'EAGAIN') return undefined;
        throw error;
      },
    );
    if (length === 0) return;
    if (length === undefined) await sleep(PAUSE, signal, clock);
    else yield Uint8Array.prototype.slice.call(buffer, 0, length);
  }
}
