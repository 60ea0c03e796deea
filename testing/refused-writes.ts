import { FIELD_MANAGERS } from '../src/api/names.ts';
import { ApiError } from '../src/kube/mod.ts';
import type { InMemoryController } from './in-memory-controller.ts';

const VERBS = ['create', 'replace', 'patch', 'delete'] as const;
type Verb = (typeof VERBS)[number];

/** How an API server refuses writes that could be made, and which: it has no conflict for a new object. */
export const REFUSALS: readonly (readonly [
  what: string,
  refusal: { status: number; reason: string; verbs: readonly Verb[] },
])[] = [
  ['conflicts (409)', { status: 409, reason: 'Conflict', verbs: ['replace', 'patch', 'delete'] }],
  ['too many requests (429)', { status: 429, reason: 'TooManyRequests', verbs: VERBS }],
];

/**
 * Lets the API server of a controller in memory refuse writes by the leader in each round: the first write of each object, or, where the refusal
 * lasts, every write until `relent`.
 */
export class RefusedWrites {
  #refusal: { status: number; reason: string; verbs: readonly Verb[]; resources: RegExp; lasts: boolean } | undefined;
  #hasRelented = false;
  readonly #refusedOnce = new Set<string>();
  /** writes that were refused since the first round */
  count = 0;

  constructor(fleet: InMemoryController) {
    // biome-ignore lint/suspicious/noExplicitAny: four functions with other parameters
    const client = fleet.cluster.client as any;
    for (const verb of VERBS) {
      const write = client[verb].bind(client);
      client[verb] = async (...args: unknown[]) => {
        const [{ plural }, object] = args as [{ plural: string }, { name?: string; metadata?: { name: string } }];
        const { fieldManager, signal } = args.at(-1) as { fieldManager?: string; signal?: AbortSignal };
        const name = object.metadata?.name ?? object.name;
        // A write of the test itself ends with no term of a leader.
        const isOfLeader = fieldManager !== FIELD_MANAGERS.rest && signal !== undefined;
        const error = isOfLeader ? this.#refused(verb, `${plural}/${name}`) : undefined;
        if (error) throw error;
        return write(...args);
      };
    }
  }

  /** Refuses from now on what matches `resources`: `plural/name` of an object. */
  begin(refusal: (typeof REFUSALS)[number][1], resources: RegExp, { lasts = false } = {}): void {
    this.#refusal = { ...refusal, resources, lasts };
    this.count = 0;
    this.nextRound();
  }

  nextRound(): void {
    this.#refusedOnce.clear();
    this.#hasRelented = false;
  }

  /** Refuses nothing until the next round. */
  relent(): void {
    this.#hasRelented = true;
  }

  /** Whether a write of an object was refused in this round. */
  hasRefused(object: string): boolean {
    return VERBS.some((verb) => this.#refusedOnce.has(`${verb} ${object}`));
  }

  end(): void {
    this.#refusal = undefined;
  }

  #refused(verb: Verb, what: string): Error | undefined {
    const { status, reason, verbs, resources, lasts } = this.#refusal ?? {};
    if (status === undefined || !resources?.test(what) || !verbs?.includes(verb) || this.#hasRelented) return undefined;
    if (!lasts && this.#refusedOnce.has(`${verb} ${what}`)) return undefined;
    this.#refusedOnce.add(`${verb} ${what}`);
    this.count++;
    return new ApiError(status, { reason }, what, 0);
  }
}
