import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Waits until no other process of this machine has this name, and has it until it is disposed of. Tests that put private engines into
 * networks of their own disturb each other: a container of the one is then not reached by the other.
 */
export async function exclusive(name: string): Promise<Disposable> {
  for (;;) {
    // A socket without a file: it ends with its process, however that ends.
    const server = await new Promise<ReturnType<typeof createServer> | undefined>((resolve) => {
      const made = createServer().unref();
      made.once('error', () => resolve(undefined));
      made.listen(`\0${name}`, () => resolve(made));
    });
    if (server) return { [Symbol.dispose]: () => void server.close() };
    await sleep(500);
  }
}
