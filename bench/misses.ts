const SPOKE_AT_ONCE =
  'The load makes all nodes speak within seconds, so that the writes of signs of life that are five minutes old fall into them as well (the notes count them), and a controller that has just been started is not warm. What one costs otherwise stands in the rows of `poll` and `heartbeat`.';

const TEXT_OF_LISTS = 'Half of it makes JSON text; the rest makes the objects for it.';
const LIVE_OBJECT =
  'A single read asks the API server for its live object, so that it is never older than a write that was answered; parsing this and writing to sockets is most of the cost.';

/** The reason why a budget is missed, in one sentence, by figure. Only the reasons of missed budgets are shown. */
export const MISSES: Readonly<Record<string, string>> = {
  'provisioning.rate':
    'A node costs two writes until it is answered and more that follow (finalizer, status, events), and all of them want the same cores; the notes tell how busy these were and what was written.',
  'poll.cpu':
    'What a bare server needs for the same, one signature and one socket, stands in a row of its own; the difference is ours.',
  'nodes.poll@100': SPOKE_AT_ONCE,
  'nodes.poll@1000': SPOKE_AT_ONCE,
  'nodes.heartbeat@100': SPOKE_AT_ONCE,
  'nodes.heartbeat@1000': SPOKE_AT_ONCE,
  'nodes.p99Beside@1000':
    'Lists of a thousand nodes and of their six thousand microservices go on without a pause meanwhile; which part of that makes a poll wait was not looked into yet. With 200 nodes, see `listing`.',
  'nodes.reconnected@1000':
    'The controller needs about three seconds until it has read its state; on a network with 120 ms round trip and losses an agent then needs two requests until it holds a poll, and the last of a thousand is one whose connection broke meanwhile. Without such a network, see `reconnect`.',
  'growth.list@100':
    'The list is read right after thirty creates and edits, while what the controller writes about them still arrives; see `listing` for one at rest.',
  'growth.backP99':
    'All of them return within a second: each asks for its whole state and reports all that it runs, and the polls of the others wait behind these requests; the writes themselves yield to polls.',
  'pull.throughput': 'It is what a link of one gigabit carries. A third of the time waits for the disk.',
  'sessions.pollBusy':
    'Both ends of 500 terminals, who polls, and the controller share two cores, which 1,500 polls and 2,000 lines a second fill: the load is three times that of 10,000 nodes. At which rate the budget is kept was not measured.',
  'pull.cpu': 'See the row above.',
  'reads.applications.p99': TEXT_OF_LISTS,
  'reads.applications.cpu': TEXT_OF_LISTS,
  'reads.microservices.p99': TEXT_OF_LISTS,
  'reads.microservices.cpu': TEXT_OF_LISTS,
  'reads.ofApplication.cpu': LIVE_OBJECT,
  'reads.application.cpu': LIVE_OBJECT,
  'reads.microservice.cpu': LIVE_OBJECT,
  'reconnect.reconnected':
    "The agents' own back-off decides: who found nobody two or three times before the controller listened asks again only seconds later.",
};

/** Budgets that no benchmark measures, and the reason. */
export const NOT_MEASURED: readonly (readonly [what: string, why: string])[] = [
  ['reconnect storm of 10,000 agents', 'not tried; the largest is 1,000, with --long'],
];
