/** A reply that is the same for every caller, serialized once since it is large and public. */
export class ConstantReply {
  readonly #make: () => object;
  #json: Buffer | undefined;

  constructor(make: () => object) {
    this.#make = make;
  }

  get json(): Buffer {
    this.#json ??= Buffer.from(JSON.stringify(this.#make()));
    return this.#json;
  }
}

/** For a handler its type is that of the object that it becomes. */
export const constantReply = <T extends object>(make: () => T): T => new ConstantReply(make) as unknown as T;
