/**
 * Keeps the making of containers and the destruction of volumes apart. Between the moment at which a container's directories
 * are made and the moment at which the engine lists the container nothing shows that they are in use.
 *
 * Guarantee: nothing is destroyed while a container is being made; several are made at the same time; a destruction waits for
 * those that are under way and lets no other one begin.
 */
export class VolumeLock {
  #making = 0;
  #isIdle = Promise.withResolvers<void>();
  /** of the last destruction that was asked for */
  #destroyed: Promise<unknown> = Promise.resolve();

  /** Makes a container. */
  async whileMaking<T>(act: () => Promise<T>): Promise<T> {
    for (let seen: unknown; seen !== this.#destroyed; ) {
      seen = this.#destroyed;
      await seen;
    }
    this.#making++;
    try {
      return await act();
    } finally {
      if (--this.#making === 0) this.#isIdle.resolve();
    }
  }

  /** Destroys volumes. */
  whileDestroying<T>(act: () => Promise<T>): Promise<T> {
    const before = this.#destroyed;
    const done = (async () => {
      await before;
      await this.#idle();
      return await act();
    })();
    this.#destroyed = done.catch(() => {});
    return done;
  }

  async #idle(): Promise<void> {
    if (this.#making === 0) return;
    this.#isIdle = Promise.withResolvers();
    await this.#isIdle.promise;
  }
}
