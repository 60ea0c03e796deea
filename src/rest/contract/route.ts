import type { z } from 'zod';
import { type RouteTable, routeTable, spellingsOf } from '../../lib/path-pattern.ts';
import type { Kinds } from '../../subjects/kinds.ts';
import type { Caller, Verb } from './access.ts';
import type { RestDependencies } from './dependencies.ts';

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/**
 * The access rule of a route. `name` is the path parameter that names the object, so that a role can be limited to some
 * names; collections have none.
 */
export type Access = 'public' | 'authenticated' | Permission;
export interface Permission {
  resource: string;
  verb: Verb;
  name?: string;
  /** Further names by which roles can mean the object that this parameter names, such as the object name, which roles for kubectl have. */
  names?: (parameter: string, deps: RestDependencies) => readonly string[];
}

/** Whether texts of a body are expressions that are replaced before anything reads it: all of them, or those of one member. */
export type Templated = boolean | { only: string };

/** The body of a route. */
export type Body<T extends z.ZodType = z.ZodType> =
  | {
      kind: 'json';
      /** the body that the handler gets */
      schema: T;
      /** the schema for the OpenAPI document, when the domain checks the body and `schema` only its outer form */
      documents?: z.ZodType;
      /** the read of the object: a body may repeat its members without a warning */
      shows?: z.ZodType;
      optional?: boolean;
      templated?: Templated;
    }
  /** a YAML file: the only part of a multipart form, or an `application/x-yaml` body; the handler gets it parsed */
  | {
      kind: 'file';
      part: string;
      templated?: Templated;
      /** the schema of the spec of a document, when the domain drops the members that it does not know */
      spec?: z.ZodType;
      /** the JSON body with the same members, when the domain refuses members that it does not know */
      members?: z.ZodType;
    };

interface Reply<T extends z.ZodType = z.ZodType> {
  /** 302: the handler sets the header location */
  status: 200 | 201 | 202 | 204 | 302;
  /** Absent for an empty body. */
  schema?: T;
}

/** One operation of the API, as a value: the router, the roles and the OpenAPI document are made from these. */
export interface Route<
  P extends z.ZodType = z.ZodType,
  Q extends z.ZodType = z.ZodType,
  B extends z.ZodType = z.ZodType,
  R extends z.ZodType = z.ZodType,
> {
  method: Method;
  /** Below `/api/v3`, parameters in braces: `/node/{uuid}`. Served with and without a trailing slash. */
  path: string;
  /** Unique; the name of the operation for generated clients, logs and audit. */
  operation: string;
  summary: string;
  description?: string;
  access: Access;
  params?: P;
  query?: Q;
  body?: Body<B>;
  /** Whether the route allows guesses of passwords or codes: attempts are limited per address. */
  guessable?: boolean;
  /** It serves callers who have to change their password first, too. */
  ungated?: true;
  /** The handler gets the token of the caller. */
  passesToken?: true;
  /** The audit log has its requests although they change nothing: they read what gives access. */
  isAudited?: true;
  /** The route responds 501 only; client generators omit it. */
  isLater?: true;
  reply: Reply<R>;
  /**
   * Error statuses that not every route has. When absent: 404 where the path names an object, and 409 for a POST and for every
   * other write of that object.
   */
  errors?: readonly number[];
  /** keys of the kinds whose stores have to be complete; the kinds with routes of their own when absent */
  needs?: (kinds: Kinds) => readonly string[];
  handler: (call: Call<P, Q, B>) => Promise<z.input<R> | undefined> | z.input<R> | undefined;
}

/** The argument of a handler: validated input, the caller, and the dependencies of the REST API. */
export interface Call<
  P extends z.ZodType = z.ZodType,
  Q extends z.ZodType = z.ZodType,
  B extends z.ZodType = z.ZodType,
> {
  params: z.output<P>;
  query: z.output<Q>;
  body: z.output<B>;
  /** The YAML document, for routes with a file body. */
  document: unknown;
  /** Aborts when the client is gone or the deadline is over. */
  signal: AbortSignal;
  deps: RestDependencies;
  caller: Caller;
  client: Client;
  /** Headers of the reply, which the handler fills in. */
  headers: Record<string, string>;
  /** What the request has that takes no effect, for people; the reply has them in the header `Warning`. */
  warnings: string[];
}

/** From where a request comes. */
export interface Client {
  /** to which rate limits are applied */
  address: string;
  requestId: string;
  /** Unix ms at the listener */
  arrivedAt: number;
  /** the header Cookie */
  cookie?: string;
  /** the header Authorization, on routes without authentication and with `passesToken` */
  authorization?: string;
}

/** Any route, without the types of its schemas. */
export type AnyRoute = Omit<Route, 'handler'> & { handler: (call: never) => unknown };

/** A route of a group of operations, whose name is the tag in the OpenAPI document. */
export type TaggedRoute = AnyRoute & { tag: string };

export const grouped = (tag: string, routes: readonly AnyRoute[]): TaggedRoute[] =>
  routes.map((route) => ({ ...route, tag }));

/** Defines a route; the types of its handler follow from its schemas. */
export function route<
  P extends z.ZodType = z.ZodUndefined,
  Q extends z.ZodType = z.ZodUndefined,
  B extends z.ZodType = z.ZodUndefined,
  R extends z.ZodType = z.ZodUndefined,
>(value: Route<P, Q, B, R>): AnyRoute {
  return value as unknown as AnyRoute;
}

/**
 * Second spellings of the beginnings of paths, as existing v3 clients send them (docs/spec/rest-v3.md#spellings-of-paths).
 */
const SPELLINGS = [
  ['/node-list', '/iofog-list'],
  ['/node', '/iofog'],
  ['/bus', '/nats'],
  ['/network-topology/bus', '/network-topology/nats'],
  ['/capabilities/bus', '/capabilities/nats'],
] as const;

/** All paths of a route. */
export const spellings = (path: string): string[] => spellingsOf(path, SPELLINGS);

/** The table that finds the route of a request, by its path below `/api/v3` without a slash at the end. */
export const tableOf = (routes: readonly AnyRoute[]): RouteTable<AnyRoute> =>
  routeTable(routes.flatMap((route) => spellings(route.path).map((path) => [path, route] as const)));

/** A request: whose rights its expressions have, and how long it waits for them. */
export type Requester = Pick<Call, 'deps' | 'caller' | 'signal'> & Partial<Pick<Call, 'document' | 'warnings'>>;

/** Replaces the expressions of a request's body. `place` is where a file has the members of a JSON body. */
export type RenderBody = (
  requester: Requester,
  body: unknown,
  templated: Templated | undefined,
  place?: readonly string[],
) => Promise<unknown>;
