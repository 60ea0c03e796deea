/** Why a budget was missed, in a sentence, by figure. Only those that are missed are shown. */
export const MISSES: Readonly<Record<string, string>> = {
  'provisioning.rate':
    'A node costs two writes until it is answered and more that follow (finalizer, status, events), and all of them want the same cores; the notes tell how busy these were and what was written.',
  'poll.cpu':
    'What a bare server needs for the same, one signature and one socket, stands in a row of its own; the difference is ours.',
  'idle.rss':
    'Measured before the program named the flags of Node that save memory in its first line; with them it was 74 MiB.',
  'idle.uplink':
    'Measured before the agent had its connections probed twice a minute instead of each second; HTTP is within the budget.',
  'reconnect.reconnected':
    "The agents' own back-off decides: who found nobody two or three times before the controller listened asks again only seconds later.",
};

/** Budgets of the design that no benchmark here takes, and why. */
export const NOT_MEASURED: readonly (readonly [what: string, why: string])[] = [
  ['reconnect storm of 10,000 agents', 'not tried; the largest is 1,000, with --long'],
  ['exec pairing; sockets per replica', 'exec sessions are not built yet'],
];
