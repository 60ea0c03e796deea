import { Writable } from 'node:stream';

/** A writable that keeps what it gets, and takes nothing while it is held. */
export class Sink extends Writable {
  readonly chunks: Buffer[] = [];
  #held: (() => void)[] = [];
  isHeld = false;
  constructor() {
    super({ highWaterMark: 1 });
  }
  override _write(chunk: Buffer, _: string, done: () => void): void {
    this.chunks.push(Buffer.from(chunk));
    if (this.isHeld) this.#held.push(done);
    else setImmediate(done);
  }
  free(): void {
    this.isHeld = false;
    for (const done of this.#held.splice(0)) done();
  }
  get bytes(): Buffer {
    return Buffer.concat(this.chunks);
  }
  get text(): string {
    return this.bytes.toString();
  }
  get length(): number {
    return this.chunks.reduce((sum, { length }) => sum + length, 0);
  }
}
