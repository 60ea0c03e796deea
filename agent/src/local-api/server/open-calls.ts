import type { Claims } from '../../state/token.ts';

/** Requests that are not answered to their end, and open WebSockets. */
export class OpenCalls {
  readonly #calls = new Set<{ claims: Claims; end(): void }>();

  /** `end` is called when the token of the call is revoked. Returns a function to be called at the end of the call. */
  add(claims: Claims, end: () => void): () => void {
    const call = { claims, end };
    this.#calls.add(call);
    return () => this.#calls.delete(call);
  }

  endRevoked(isRevoked: (claims: Claims) => boolean): void {
    for (const { claims, end } of [...this.#calls]) if (isRevoked(claims)) end();
  }
}
