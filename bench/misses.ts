/** Why a budget was missed, in a sentence, by figure. Only those that are missed are shown. */
export const MISSES: Readonly<Record<string, string>> = {
  'provisioning.rate':
    'A node costs two writes until it is answered and more that follow (finalizer, status, events), and all of them want the same cores; the notes tell how busy these were and what was written.',
  'poll.cpu':
    'What a bare server needs for the same, one signature and one socket, stands in a row of its own; the difference is ours.',
  'nodes.poll@100':
    'The token is signed and the hold of the same node goes on meanwhile; the poll alone is in the rows of `poll`.',
  'nodes.heartbeat@100':
    'Each is a whole report of six microservices; most agents send what changed, which costs less.',
  'nodes.heartbeat@1000':
    'Each is a whole report of six microservices; most agents send what changed, which costs less.',
  'nodes.starts@1000':
    'The 100 edits of the smaller fleet had started 100 containers anew: 6,100 for 6,000, and none besides.',
  'nodes.p99.1500@1000':
    'The process of the thousand agents, which sends the load as well, shares two cores with all the others; where it only sends, the p99 is that of `poll`.',
  'nodes.reconnected@1000':
    'On a network with 120 ms round trip and losses each agent needs three requests until it holds a poll; without it, see `reconnect`.',
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
