import type { Digests } from '../../../src/wire/sections.ts';
import type { Store } from '../state/database.ts';
import type { Log } from '../system/log.ts';
import { type OrderSection, orStoreError } from './sync-loop.ts';

export interface OrdersPorts {
  store: Pick<Store, 'value' | 'saveValue'>;
  log: Log;
  /** those that this version carries out */
  executors: Partial<Record<OrderSection, () => void>>;
}

/** The controller's orders: each is carried out once, however often it is told. */
export class Orders {
  readonly #ports: OrdersPorts;
  #noted: Readonly<Record<string, { digest: string; count?: number }>>;

  constructor(ports: OrdersPorts) {
    this.#ports = ports;
    this.#noted = JSON.parse(ports.store.value('orders') ?? '{}');
  }

  /**
   * Answers whether this was a new order. It is noted before it is carried out: one that ends the process is not carried
   * out for ever.
   */
  carryOut(section: OrderSection, digest: string, count: number | undefined): boolean {
    const { store, log, executors } = this.#ports;
    if (this.#noted[section]?.digest === digest) return false;
    const noted = { ...this.#noted, [section]: { digest, count } };
    orStoreError(() => store.saveValue('orders', JSON.stringify(noted)));
    this.#noted = noted;
    const execute = executors[section];
    if (execute) execute();
    else log.warn('This version of the agent does not carry out such orders', { order: section });
    return true;
  }

  get digests(): Digests {
    return Object.fromEntries(Object.entries(this.#noted).map(([section, { digest }]) => [section, digest]));
  }

  /** Only what was really done is echoed: the controller believes it. */
  get echo(): Record<string, number> | undefined {
    const counts = Object.entries(this.#noted).flatMap(([section, { count }]) =>
      Object.hasOwn(this.#ports.executors, section) && count !== undefined ? [[section, count] as const] : [],
    );
    return counts.length > 0 ? Object.fromEntries(counts) : undefined;
  }

  /** Another controller counts from elsewhere. */
  forget(): void {
    this.#noted = {};
    this.#ports.store.saveValue('orders', undefined);
  }
}
