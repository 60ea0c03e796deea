import { createByteBudget, isFull } from '../../lib/byte-budget.ts';
import type { AgentLimits } from '../channel/dependencies.ts';
import { notReady } from '../channel/failure.ts';

/** Bounds the memory of large responses until their clients have taken them. Throws AgentFailure when there is no room. */
export interface Outgoing {
  /** Looks only: a response that would be refused need not be made. */
  check(caller: string, bytes: number): void;
  /** Charges a large response to a node, or to the address of a caller without identity; returns what ends the charge. */
  charge(caller: string, bytes: number): (() => void) | undefined;
}

/** Shorter responses are not charged: the buffers of the sockets take most of them. */
const LARGE = 16 * 1024;

export function createOutgoing({ sending }: Pick<AgentLimits, 'sending'>): Outgoing {
  const budget = createByteBudget({ ...sending.all, each: sending.node });

  function charge(caller: string, bytes: number): (() => void) | undefined {
    if (bytes < LARGE) return undefined;
    const share = budget.open(caller);
    if (isFull(share)) throw tooMany();
    if (share.take(bytes)) return () => share[Symbol.dispose]();
    share[Symbol.dispose]();
    throw tooMany();
  }

  return { charge, check: (caller, bytes) => charge(caller, bytes)?.() };
}

const tooMany = () => notReady('too many large responses are being sent');
