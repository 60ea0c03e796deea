import type { Claims } from '../../state/token.ts';

/** A request that is not answered to its end, or an open WebSocket. */
interface OpenCall {
  claims: Claims;
  /** of the microservice that asks; empty for the admin */
  microservice: string;
  /** what the microservice is and may do, as it was when the call began */
  standing: string;
  end(): void;
}

/** The calls that are open. */
export class OpenCalls {
  readonly #calls = new Set<OpenCall>();
  readonly #standingOf: (microservice: string) => string;

  constructor(standingOf: (microservice: string) => string) {
    this.#standingOf = standingOf;
  }

  /** `end` is called when the token of the call is revoked, and when the role of its microservice changes. Returns a function to be called at the end of the call. */
  add({ claims, microservice }: Pick<OpenCall, 'claims' | 'microservice'>, end: () => void): () => void {
    const call = { claims, microservice, standing: this.#standing(microservice), end };
    this.#calls.add(call);
    return () => this.#calls.delete(call);
  }

  endRevoked(isRevoked: (claims: Claims) => boolean): void {
    for (const { claims, end } of [...this.#calls]) if (isRevoked(claims)) end();
  }

  /** Ends the calls of microservices that are or may something else than when these began. */
  endChanged(): void {
    for (const { microservice, standing, end } of [...this.#calls])
      if (this.#standing(microservice) !== standing) end();
  }

  #standing(microservice: string): string {
    return microservice === '' ? '' : this.#standingOf(microservice);
  }
}
