import type { Socket } from 'node:net';

/** A link between two machines, the same in both directions. */
export interface SlowLink {
  /** one way */
  delayMs: number;
  bytesPerSecond: number;
}

/** The most bytes on their way, as with a TCP window: whoever sends waits then. */
const WINDOW = 256 * 1024;

/**
 * Passes bytes from one socket to another as such a link does. The handshake of TCP takes a round trip, which is added to the
 * first bytes of the side that connects.
 */
export function carry(from: Socket, to: Socket, link: SlowLink, { connects }: { connects: boolean }): void {
  const pieces: Buffer[] = [];
  let onTheWay = 0;
  let freeAt = performance.now() + (connects ? 2 * link.delayMs : 0);
  /** Whoever reads slowly makes the sender wait, too. */
  const isFull = () => onTheWay + to.writableLength > WINDOW;
  const goOn = () => {
    if (from.isPaused() && !isFull()) from.resume();
  };
  from.on('data', (piece: Buffer) => {
    const now = performance.now();
    freeAt = Math.max(freeAt, now) + (piece.length / link.bytesPerSecond) * 1_000;
    onTheWay += piece.length;
    pieces.push(piece);
    if (isFull()) from.pause();
    // Each timer passes on the oldest piece, so that the order of timers does not matter.
    setTimeout(
      () => {
        const oldest = pieces.shift();
        if (!oldest) return;
        onTheWay -= oldest.length;
        if (to.writable) to.write(oldest);
        goOn();
      },
      freeAt - now + link.delayMs,
    );
  });
  to.on('drain', goOn);
  from.on('end', () => setTimeout(() => to.end(), Math.max(0, freeAt - performance.now()) + link.delayMs + 1));
}
