/** Why a budget was missed, in a sentence, by figure. Only those that are missed are shown. */
export const MISSES: Readonly<Record<string, string>> = {};

/** Budgets of the design that no benchmark here takes, and why. */
export const NOT_MEASURED: readonly (readonly [what: string, why: string])[] = [
  [
    '10,000 nodes x 6 microservices at the specified frequencies',
    'needs more cores than the two that the budget is for',
  ],
  ['start with 10,000 nodes and 10,000 applications; reconnect storm of 10,000', 'the same'],
  ['exec pairing; sockets per replica', 'exec sessions are not built yet'],
];
