import type { Clock } from '../../../src/lib/clock.ts';
import type { UpgradeRequest } from '../../../src/lib/web-socket/handshake.ts';
import { CLOSE_CODES } from '../../../src/wire/sessions.ts';
import type { LogLine } from '../engine-port/logs.ts';
import { errorText } from '../machine/log.ts';
import type { LocalRun } from './session.ts';
import { acceptTextSocket } from './text-socket.ts';

/**
 * Sends a log over a WebSocket, each line as a text message, until it ends or the client does; an error in words is the last one.
 * Undefined where the handshake was refused.
 */
export function runLogStream(
  upgrade: UpgradeRequest,
  clock: Clock,
  lines: (signal: AbortSignal) => AsyncIterable<LogLine>,
): LocalRun | undefined {
  const over = new AbortController();
  const end = () => over.abort();
  const socket = acceptTextSocket(upgrade, clock, { message() {}, closed: end });
  if (!socket) return undefined;
  const close = () => {
    end();
    socket.close(CLOSE_CODES.ended);
  };
  const fail = async (error: string) => {
    if (over.signal.aborted) return;
    await socket.send({ error });
    close();
  };
  async function send(to: NonNullable<typeof socket>): Promise<void> {
    try {
      for await (const { ts, stream, line } of lines(over.signal)) {
        if (over.signal.aborted) return;
        await to.send({ ts, stream, line });
      }
      close();
    } catch (error) {
      await fail(errorText(error));
    }
  }
  return {
    connection: { end: close, drop: () => socket.drop() },
    refuse: (reason) => void fail(reason),
    done: send(socket),
  };
}
