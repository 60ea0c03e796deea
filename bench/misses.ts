/** Why a budget was missed, in a sentence, by figure. Only those that are missed are shown. */
export const MISSES: Readonly<Record<string, string>> = {
  'provisioning.rate':
    'A node costs two writes until it is answered, and the writes that follow (finalizer, status, events) compete with them for the same two cores: see the CPU-ms of one node.',
  'idle.privateDirty':
    "With Node's own settings; two flags bring it below the budget, as the row for them shows. Without them most of it is young objects that nobody has collected yet.",
  'idle.rss': "With Node's own settings; two flags bring it below the budget, as the row for them shows.",
  'idle.uplink':
    'HTTP is within the budget; the rest is TCP keep-alive: Node probes a connection that is kept open once a second unless told otherwise, and the agent keeps two.',
  'reconnect.reconnected':
    "The agents' own back-off decides: who found nobody twice or three times before the controller listened asks again only seconds later.",
  'poll.p99':
    'The process that polls needs as much of the two cores as the controller; on a machine that has something else to do, both wait.',
};

/** Budgets of the design that no benchmark here takes, and why. */
export const NOT_MEASURED: readonly (readonly [what: string, why: string])[] = [
  ['10,000 nodes x 6 microservices at the specified frequencies', 'needs a second machine to play the nodes'],
  ['reconnect storm of 10,000 agents', 'the same'],
  ['exec pairing; sockets per replica', 'exec sessions are not built yet'],
];
