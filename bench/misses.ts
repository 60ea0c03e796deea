/** Why a budget was missed, in a sentence, by figure. Only those that are missed are shown. */
export const MISSES: Readonly<Record<string, string>> = {
  'provisioning.rate':
    'A node costs two writes until it is answered and more that follow (finalizer, status, events), and all of them want the same cores; the notes tell how busy these were and what was written.',
  'poll.cpu':
    'What a bare server needs for the same, one signature and one socket, stands in a row of its own; the difference is ours.',
  'nodes.heartbeat@100':
    'Each is a whole report of six microservices; most agents send what changed, which costs less.',
  'nodes.heartbeat@1000':
    'Each is a whole report of six microservices; most agents send what changed, which costs less.',
  'nodes.reconnected@1000':
    'The controller needs about three seconds until it has read its state; on a network with 120 ms round trip and losses an agent then needs two requests until it holds a poll, and the last of a thousand is one whose connection broke meanwhile. Without such a network, see `reconnect`.',
  'reconnect.reconnected':
    "The agents' own back-off decides: who found nobody two or three times before the controller listened asks again only seconds later.",
};

/** Budgets of the design that no benchmark here takes, and why. */
export const NOT_MEASURED: readonly (readonly [what: string, why: string])[] = [
  ['reconnect storm of 10,000 agents', 'not tried; the largest is 1,000, with --long'],
  ['exec pairing; sockets per replica', 'exec sessions are not built yet'],
];
