import { HEADERS } from '../../api/names.ts';
import type { RateLimit } from '../../http/rate-limit.ts';
import type { Reply } from '../../http/reply.ts';
import { type AgentCall, createCall, isThirdParty, type Observe } from '../channel/call.ts';
import type { AgentOptions, AgentRouteMetrics, NodeIdentity } from '../channel/dependencies.ts';
import type { Exchange } from '../channel/exchange.ts';
import { AgentFailure } from '../channel/failure.ts';
import type { Authenticate } from './authenticate.ts';
import type { CheckEpoch } from './epoch-check.ts';
import type { Match } from './match.ts';
import type { NotOlderThan } from './not-older-than.ts';
import type { Readiness } from './readiness.ts';
import type { Receive } from './receive.ts';

/** A step of the pipeline. Throws or rejects with AgentFailure to refuse a request. Returns a promise only to wait. */
type Step = (exchange: Exchange) => void | Promise<void>;

export interface Pipeline {
  /** names of the steps, in order */
  readonly steps: readonly string[];
  run(exchange: Exchange): Promise<Reply>;
}

export interface PipelineOptions {
  readiness: Readiness;
  match: Match;
  authenticate: Authenticate;
  /** failed provisionings, by client address */
  guesses: RateLimit;
  /** Whether the body of a provisioning has a key that is in the store: it costs no request to the API server. */
  hasKnownKey(body: unknown): boolean;
  addressOf: (req: Exchange['req']) => string;
  /** A request on this connection was authenticated, as one of this caller. */
  authenticated?: AgentOptions['authenticated'];
  receive: Receive;
  notOlderThan: NotOlderThan;
  checkEpoch: CheckEpoch;
  observe: Observe;
  metrics: AgentRouteMetrics;
}

/** As whose a connection of an agent counts. */
export const nodeConnection = (uuid: string) => `node ${uuid}`;

/** Statuses of failed provisionings that count against the address: wrong keys, and bodies that never end. */
const COUNTED: ReadonlySet<number> = new Set([401, 404, 408]);

/**
 * The steps that every request of an agent takes, in the order of the list at the end. A step that need not wait returns
 * nothing, so that a poll takes no extra turn of the event loop.
 */
export function createPipeline(options: PipelineOptions): Pipeline {
  const { readiness, match, guesses, receive, checkEpoch, observe, metrics } = options;

  const ready: Step = () => readiness.wait();

  const matched: Step = (exchange) => match(exchange);

  const authenticated: Step = (exchange) => {
    if (exchange.route?.access === 'provisioning-key') {
      exchange.address = options.addressOf(exchange.req);
      return undefined;
    }
    const who = options.authenticate(exchange.req.headers.authorization, () => options.addressOf(exchange.req));
    return who instanceof Promise ? who.then((known) => identified(exchange, known)) : identified(exchange, who);
  };

  function identified(exchange: Exchange, who: NodeIdentity): void {
    const { req, res, query, route, parameter } = exchange;
    options.authenticated?.(req, nodeConnection(who.uuid));
    exchange.call = createCall(req, res, query, who);
    if (parameter !== undefined) exchange.call.parameter = parameter;
    if (route?.metric) metrics.agent?.(route.metric);
  }

  const received: Step = (exchange) =>
    receive(exchange)?.then((body) => {
      exchange.body = body;
    });

  const notOlderThan: Step = ({ route, call }) => {
    if (!call || !route?.notOlderThan || isThirdParty(call)) return undefined;
    const reached = options.notOlderThan.reached(call.notOlderThan, call.uuid);
    // The request is a contact, also if this replica cannot serve it in time.
    if (reached) observe(call);
    return reached?.then((valid) => {
      call.notOlderThan = valid;
    });
  };

  const epoch: Step = ({ route, call }) => {
    if (!call || !route?.epoch) return undefined;
    const checked = checkEpoch(call);
    if (checked instanceof Promise)
      return checked.then((known) => {
        call.epoch = known;
      });
    call.epoch = checked;
    return undefined;
  };

  const handled: Step = (exchange) => {
    const { route, call, req, res, address = '', body } = exchange;
    if (!route) return undefined;
    const identified = (uuid: string) => {
      exchange.provisioned = uuid;
      options.authenticated?.(req, nodeConnection(uuid));
    };
    // Wrong keys of others at the same address must not keep out a machine that has a right one.
    if (route.access === 'provisioning-key' && !options.hasKnownKey(body)) guesses.check(address);
    const reply =
      route.access === 'provisioning-key'
        ? route.handle({ req, res, address, identified }, body)
        : route.handle(call as AgentCall, body);
    if (reply instanceof Promise)
      return reply.then((settled) => {
        exchange.reply = settled;
      });
    exchange.reply = reply;
    return undefined;
  };

  /** Adds the headers that our agent saves with the response: how far the stores are, and the position in the epoch log. */
  const positioned: Step = (exchange) => {
    const { route, call, reply } = exchange;
    if (!call || !reply || isThirdParty(call)) return;
    const bound = route?.notOlderThan && options.notOlderThan.bound(call.notOlderThan);
    const position = positionIn(checkEpoch(call));
    if (bound === undefined && position === undefined) return;
    const headers = { ...reply.headers };
    if (bound !== undefined) headers[HEADERS.notOlderThan] = bound;
    if (position !== undefined) headers[HEADERS.epochPosition] = position;
    exchange.reply = { ...reply, headers };
  };

  const steps = [ready, matched, authenticated, received, notOlderThan, epoch, handled, positioned];

  return {
    steps: steps.map(({ name }) => name),
    async run(exchange) {
      try {
        for (const step of steps) {
          const pending = step(exchange);
          if (pending) await pending;
        }
      } catch (error) {
        const { address } = exchange;
        if (address !== undefined && error instanceof AgentFailure && COUNTED.has(error.status)) guesses.count(address);
        throw error;
      }
      return exchange.reply as Reply;
    },
  };
}

/** The agent gets a position only when the epoch log has the position that it presented. */
function positionIn(checked: ReturnType<CheckEpoch>): string | undefined {
  if (!(checked instanceof Promise)) return checked.retainUnlisted ? undefined : checked.position;
  // The response does not wait for the check; the next request repeats it.
  checked.catch(() => {});
  return undefined;
}
