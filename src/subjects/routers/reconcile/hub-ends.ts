import type { RouterEntity } from '../../../router-client/changes.ts';
import type { RouterState } from '../../../router-client/delivery.ts';
import type { RouterHubEnd, RouterHubEnds } from '../../../rules/router-hub.ts';

/** Keeps what the running default router had of services when it was compared last. */
export class HubEnds implements RouterHubEnds {
  readonly #isThere: () => boolean;
  readonly #clock: () => number;
  #ends: ReadonlyMap<string, RouterHubEnd> = new Map();
  #unreachedSince: number | undefined;
  readonly #listeners = new Set<(names: readonly string[]) => void>();

  /** `since`: Unix ms from which the router counts as not reached. */
  constructor({ isThere, clock, since }: { isThere: () => boolean; clock: () => number; since: number }) {
    this.#isThere = isThere;
    this.#clock = clock;
    this.#unreachedSince = since;
  }

  get isThere(): boolean {
    return this.#isThere();
  }

  get unreachedSince(): number | undefined {
    return this.#unreachedSince;
  }

  of(name: string): RouterHubEnd | undefined {
    return this.#ends.get(name);
  }

  /** The connection to the router ended. What it had last is kept: a router that starts again has it soon. */
  lost(): void {
    if (this.#unreachedSince !== undefined) return;
    this.#unreachedSince = this.#clock();
    this.#tell([]);
  }

  /** The router was compared with these entities, and answered with this state. */
  compared(entities: readonly RouterEntity[], { refused, notUp }: RouterState): void {
    const problems = new Map<string, NonNullable<RouterHubEnd['problem']>>([
      ...notUp.map(({ name, message }) => [name, { is: message ? 'failed' : 'waiting', ...told(message) }] as const),
      ...refused.map(({ name, message }) => [name, { is: 'refused', ...told(message) }] as const),
    ]);
    const now = new Map(
      entities.filter(({ kind }) => kind.startsWith('tcp')).map((entity) => [entity.name, endOf(entity, problems)]),
    );
    const before = this.#ends;
    this.#ends = now;
    const changed = [...new Set([...before.keys(), ...now.keys()])].filter(
      (name) => !isSame(before.get(name), now.get(name)),
    );
    const wasReached = this.#unreachedSince === undefined;
    this.#unreachedSince = undefined;
    if (!wasReached) this.#tell([]);
    if (changed.length > 0) this.#tell(changed);
  }

  subscribe(listener: (names: readonly string[]) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  #tell(names: readonly string[]): void {
    for (const listener of this.#listeners) listener(names);
  }
}

const told = (message: string | undefined) => (message === undefined ? {} : { message });

function endOf(
  { name, attributes: { port, host } }: RouterEntity,
  problems: ReadonlyMap<string, NonNullable<RouterHubEnd['problem']>>,
): RouterHubEnd {
  const problem = problems.get(name);
  return { port: String(port), ...(host !== undefined && { host: String(host) }), ...(problem && { problem }) };
}

const isSame = (one: RouterHubEnd | undefined, other: RouterHubEnd | undefined) =>
  JSON.stringify(one) === JSON.stringify(other);
