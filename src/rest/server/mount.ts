import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express';
import type { z } from 'zod';
import type { ReadBody } from '../../http/body.ts';
import { HttpError } from '../../http/http-error.ts';
import { JSON_TYPE, type Reply, send } from '../../http/reply.ts';
import type { ByteBudget } from '../../lib/byte-budget.ts';
import type { Log } from '../../lib/log.ts';
import { explain } from '../../rules/validate.ts';
import { ESSENTIAL_KINDS } from '../../subjects/kinds.ts';
import { admit } from '../access/gate.ts';
import { abortable } from '../access/review-cache.ts';
import type { UserInfo } from '../contract/access.ts';
import { ConstantReply } from '../contract/constant-reply.ts';
import { objectsByKey, type RestDependencies } from '../contract/dependencies.ts';
import { badRequest, errorReply, notFound, unavailable } from '../contract/errors.ts';
import type { Limits, RestMetrics } from '../contract/limits.ts';
import { type AnyRoute, type RenderBody, type Requester, tableOf } from '../contract/route.ts';
import { withinBudgets } from '../objects/budgets.ts';
import { ListReply, writeList } from '../objects/list-reply.ts';
import { auditEvent, isAudited } from './audit.ts';
import { type ReceiveOptions, readInput } from './body.ts';
import type { Rates } from './rates.ts';
import { memberWarnings, warningHeader } from './unknown-members.ts';
import { parseYaml } from './yaml.ts';

/** The dependencies that the routes share. */
export interface Mounting {
  deps: RestDependencies;
  log: Log;
  metrics: RestMetrics;
  limits: Limits;
  validateReplies: boolean;
  /** See createTurns. */
  turn: () => Promise<void>;
  rates: Rates;
  readBody: ReadBody;
  receiving: ByteBudget;
  /** The client address to which rate limits are applied. */
  addressOf: (request: IncomingMessage) => string;
  /** A request on this connection was authenticated, as one of this caller. */
  authenticated: (request: IncomingMessage, caller: string) => void;
  /** whether events have the address of the client */
  recordsAddresses: boolean;
  renderBody: RenderBody;
}

/** As whose a connection of a user counts. */
export const userConnection = ({ name }: UserInfo) => `user ${name}`;

const REQUEST_ID = 'request-id';
const JSON_HEAD = { 'content-type': JSON_TYPE };

/** Sets the headers of every response, of REST and of agent routes, and the id of the request. */
export function preamble(request: IncomingMessage, response: ServerResponse, now: number): void {
  const given = request.headers[REQUEST_ID];
  const id = typeof given === 'string' && /^[\w.:/+=-]{1,128}$/.test(given) ? given : randomUUID();
  request.headers[REQUEST_ID] = id;
  response.setHeader(REQUEST_ID, id);
  response.setHeader('x-timestamp', String(now));
  response.setHeader('x-content-type-options', 'nosniff');
  response.setHeader('cache-control', 'no-store');
}

/**
 * Serves the routes: 404 for an unknown path, 405 for another method of a known path. A path may end in a slash. HEAD is served by
 * the route of GET when there is no other.
 */
export function serveRoutes(routes: readonly AnyRoute[], mounting: Mounting): RequestHandler {
  const table = tableOf(routes);
  const answerers = new Map(routes.map((one) => [one, answerer(one, mounting)]));
  return (request, response) => {
    const { method } = request;
    const path = request.path.replace(/\/$/, '');
    const found = table.find(method, path) ?? (method === 'HEAD' ? table.find('GET', path) : undefined);
    if (found) return answerers.get(found.value)?.(request, response, found.parameters);
    const methods = table.methodsOf(path);
    if (methods.length === 0) throw unknownPath();
    const allow = methods.join(', ');
    if (method !== 'OPTIONS')
      throw new HttpError(405, 'METHOD_NOT_ALLOWED', `this path answers ${allow}`, { headers: { allow } });
    response.writeHead(204, { allow }).end();
  };
}

export const unknownPath = () => notFound('ROUTE_NOT_FOUND', 'there is no such route');

/** The one error mapper, last of all handlers. */
export function answerErrors(log: Log): ErrorRequestHandler {
  return (error, request, response, _next) => {
    const reply = errorReply(error instanceof URIError ? badRequest('the path is not valid') : error);
    if (reply.cause) {
      const fields = { err: reply.cause, requestId: request.headers[REQUEST_ID], status: reply.status };
      if (reply.status === 503) log.warn(fields, 'Request not carried out');
      else log.error(fields, 'Request failed');
    }
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const { status, headers, body } = reply;
    response.locals.code = body.code;
    send(response, { status, headers, body: JSON.stringify(body) }, { closing: headers.connection === 'close' });
  };
}

/** Answers the requests of one route. */
type Answerer = (request: Request, response: Response, params: Record<string, string>) => Promise<void>;

function answerer(route: AnyRoute, mounting: Mounting): Answerer {
  const { deps, log, metrics, limits, validateReplies, turn, rates, readBody, renderBody, receiving, addressOf } =
    mounting;
  const audits = isAudited(route);
  const handle = route.handler as (call: object) => unknown;
  return async (request, response, params) => {
    const start = performance.now();
    const arrivedAt = performance.timeOrigin + start;
    let user = '';
    let responded: unknown;
    response.once('close', () => {
      const seconds = (performance.now() - start) / 1000;
      const status = response.writableFinished ? response.statusCode : 499;
      metrics.request?.({ method: route.method, route: route.path, status }, seconds);
      const requestId = request.headers[REQUEST_ID];
      // Parameters of routes without a permission may be credentials.
      const target = typeof route.access === 'object' ? params : {};
      const entry = { operation: route.operation, target, status, user, requestId };
      // Whoever is refused for the number of their requests could fill a disk with lines; the metric counts them.
      if (route.method === 'GET' || route.method === 'HEAD' || status === 429) log.debug(entry, 'Request');
      else log.info(entry, 'Request');
      if (audits)
        deps.audit.record(
          auditEvent(route, {
            params,
            user,
            address: mounting.recordsAddresses ? addressOf(request) : '',
            status,
            code: String(response.locals.code ?? ''),
            requestId: String(requestId),
            result: responded,
          }),
        );
    });

    if (request.method === 'HEAD' && route.method !== 'HEAD' && route.reply.status !== 200)
      throw new HttpError(405, 'METHOD_NOT_ALLOWED', 'this path answers no HEAD', { headers: { allow: route.method } });
    const { signal, stop } = deadline(response, limits.requestMs);
    try {
      const { authorization } = request.headers;
      const address = addressOf(request);
      if (route.guessable) rates.credentials(address);
      const guesses = rates.guesses(address);
      const identified = (identity: UserInfo) => {
        user = identity.name;
        mounting.authenticated(request, userConnection(identity));
      };
      const caller = await admit(deps, route, { authorization, params, signal, guesses, identified });
      if (route.body?.kind === 'file') rates.upload(user);
      if (route.access !== 'public' && !isSynced(deps, route))
        throw unavailable('the controller is still reading its state');
      const charge = route.body ? rates.body(user || address) : () => {};
      const call = {
        params: check(route.params, params, 'the path'),
        query: check(route.query, { ...request.query }, 'the query'),
        ...(await input(
          route,
          request,
          { read: readBody, budget: receiving, caller: user || address, received: charge, limits, renderBody },
          { deps, caller, signal },
        )),
        signal,
        deps: writes(route) ? withinBudgets(deps, caller, { storesMore: route.body !== undefined }) : deps,
        caller,
        client: {
          address,
          requestId: String(request.headers[REQUEST_ID]),
          arrivedAt,
          cookie: request.headers.cookie,
          ...((route.access === 'public' || route.passesToken) && { authorization }),
        },
        headers: {},
      };
      const result = await abortable(Promise.resolve(handle(call)), signal);
      responded = result;
      const isChecked = validateReplies && !(result instanceof ConstantReply);
      if (isChecked && !(result instanceof ListReply)) checkReply(route, result);
      if (request.method === 'HEAD')
        response.writeHead(route.reply.status, route.reply.schema ? JSON_HEAD : undefined).end();
      else if (result instanceof ListReply)
        await writeList(response.writeHead(route.reply.status, JSON_HEAD), result, {
          turn,
          signal,
          ...(isChecked && { check: (item) => checkReply(route, result.with([item])) }),
          leftOut(error, name) {
            metrics.leftOut?.({ operation: route.operation });
            log.error({ err: error, operation: route.operation, name }, 'An object cannot be shown and is left out');
          },
        });
      else {
        const reply = jsonReply(route.reply.status, route.reply.schema ? result : undefined);
        const warning = warningHeader(call.warnings);
        send(response, { ...reply, headers: { ...reply.headers, ...call.headers, ...(warning && { warning }) } });
      }
    } finally {
      stop();
    }
  };
}

/** What a deletion writes on the way follows from what was charged before: it is always carried out. */
const writes = ({ method }: AnyRoute) => method !== 'GET' && method !== 'HEAD' && method !== 'DELETE';

/** A list from an incomplete store would look complete. */
const isSynced = (deps: RestDependencies, route: AnyRoute) =>
  (route.needs?.(deps.kinds) ?? ESSENTIAL_KINDS).every((key) => objectsByKey(deps, key)?.synced !== false);

/** Aborts when the client is gone or the time is over. */
function deadline(response: ServerResponse, ms: number): { signal: AbortSignal; stop: () => void } {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(unavailable('this took too long, try again')), ms);
  const gone = () => controller.abort(unavailable('the client is gone'));
  response.once('close', gone);
  return {
    signal: controller.signal,
    stop() {
      clearTimeout(timer);
      response.off('close', gone);
    },
  };
}

/** Reads the body of a request and replaces its expressions, with the rights of the caller. */
async function input(
  { body }: AnyRoute,
  request: IncomingMessage,
  { renderBody, ...options }: ReceiveOptions & Pick<Mounting, 'renderBody'>,
  requester: Requester,
) {
  const nothing = { body: undefined, document: undefined, warnings: [] as string[] };
  if (!body) return nothing;
  const raw = await readInput(request, body, options);
  if ('file' in raw) {
    const document = await renderBody(requester, parseYaml(raw.file), body.templated, ['spec']);
    return { ...nothing, document, warnings: memberWarnings(body, document) };
  }
  if (body.kind !== 'json') return nothing;
  if (raw.json === undefined) {
    if (body.optional) return nothing;
    throw badRequest('the request needs a JSON body');
  }
  const value = await renderBody(requester, raw.json, body.templated);
  return { ...nothing, body: check(body.schema, value, 'the body'), warnings: memberWarnings(body, value) };
}

/** Parses by a schema. Only the first violation is reported (docs/spec/rest-v3.md#errors). */
function check(schema: z.ZodType | undefined, value: unknown, where: string): unknown {
  if (!schema) return undefined;
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw badRequest(firstIssue(result.error, where, value));
}

function firstIssue(error: z.ZodError, where = '', value?: unknown): string {
  const issue = error.issues[0];
  const path = issue?.path
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
    .join('')
    .replace(/^\./, '');
  return `${path || where}: ${issue ? explain(issue, value) : 'not valid'}`;
}

function checkReply(route: AnyRoute, result: unknown): void {
  const { schema } = route.reply;
  if (!schema) return;
  // The client gets JSON: without undefined members and with the results of toJSON.
  const outcome = schema.safeParse(JSON.parse(JSON.stringify(result)));
  if (!outcome.success) throw new TypeError(`reply of ${route.operation}: ${firstIssue(outcome.error, 'the body')}`);
}

/** A value as the JSON of a response; undefined is an empty body. */
function jsonReply(status: number, body: unknown): Reply {
  if (body === undefined) return { status };
  return { status, body: body instanceof ConstantReply ? body.json : JSON.stringify(body) };
}
