import type { z } from 'zod';
import type { UpgradeRequest } from '../../../../src/lib/web-socket/handshake.ts';
import type { Claims } from '../../state/token.ts';
import type { ManifestForm } from './form.ts';
import type { Grant, ReachFilter } from './grants.ts';

/**
 * Who may use a route. open: no token, also over TCP. admin: the socket, with the admin token. workload: the token of a microservice, for
 * objects of its own, also over TCP. A grant: the admin, and over TCP as well the microservices whose role allows it.
 */
export type LocalAccess = 'open' | 'admin' | 'workload' | Grant;

/** Whose request it is. */
export interface LocalCaller {
  /** of the caller's token; absent on open routes */
  claims?: Claims;
  /** uuid of the microservice that asks; empty for the admin */
  microservice: string;
  /** the microservices that the caller reaches */
  reach: ReachFilter;
  /** Whether the caller may have an object that has one of these names, where the resource of its grant has names. */
  mayName(...names: string[]): boolean;
}

/** The argument of a handler: validated input, the caller, and what the group of routes needs of the agent. */
export interface LocalCall<D, Path extends string = string, Q = unknown, B = unknown> {
  params: Record<Names<Path>, string>;
  query: Q;
  body: B;
  /** aborts when the client is gone */
  signal: AbortSignal;
  caller: LocalCaller;
  deps: D;
}

type Names<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never;

/** The reply of a route. Its schemas are for the document and for tests: the agent does not make them. */
export interface LocalReply<R = unknown> {
  /** envelope: `{success: true, data}`; bare: the data itself; text: of this media type */
  form: 'envelope' | 'bare' | { text: string };
  schema: () => z.ZodType<unknown, R>;
  /** of each line, where the handler may return lines, which are sent one by one */
  line?: () => z.ZodType;
  /** 200 where it is absent. 202: the work has begun. With a condition: 200 where it does not hold. */
  status?: 202 | { other: 202 | 503; when: (data: NoInfer<R>) => boolean };
}

interface Head<Path extends string, Q extends z.ZodObject, B extends z.ZodObject> {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** `{name}` stands for one segment */
  path: Path;
  /** Unique; the name of the operation for generated clients. */
  operation: string;
  summary: string;
  access: LocalAccess;
  /** also served to a web page, and under any name of this machine: for probes, which tell nothing */
  anyHost?: true;
  /** Made when the first request comes: most agents never get one. A list is a parameter that may occur several times. */
  query?: () => Q;
  /** Members that the schema does not have are refused. */
  body?: () => B;
  /** Error statuses of this route in addition to those that follow from its other members. */
  errors?: readonly number[];
}

interface PlainRoute<D, Path extends string, Q extends z.ZodObject, B extends z.ZodObject, R, Out>
  extends Head<Path, Q, B> {
  reply: LocalReply<R>;
  handler(call: LocalCall<D, Path, z.output<Q>, z.output<B>>): Out | Promise<Out>;
}

interface UploadRoute<D, Path extends string, Q extends z.ZodObject, R, Out>
  extends Omit<Head<Path, Q, z.ZodObject>, 'body'> {
  reply: LocalReply<R>;
  handler(call: LocalCall<D, Path, z.output<Q>, ManifestForm>): Out | Promise<Out>;
}

interface SocketRoute<D, Path extends string, Q extends z.ZodObject> extends Omit<Head<Path, Q, z.ZodObject>, 'body'> {
  method: 'GET';
  /** the connection in words, for a request that does not ask for an upgrade */
  socket: string;
  /** Serves the WebSocket on the connection that `take` gives. */
  connect(call: LocalCall<D, Path, z.output<Q>>, take: () => UpgradeRequest): void | Promise<void>;
}

/** Any route, without the types of its schemas: with a reply and a handler, or with a WebSocket. */
export interface LocalRoute<in D = never> extends Head<string, z.ZodObject, z.ZodObject> {
  /** of its group */
  tag: string;
  /** the body is a multipart form with a manifest (form.ts) */
  form?: true;
  reply?: LocalReply;
  handler?: (call: LocalCall<D>) => unknown;
  socket?: string;
  connect?: (call: LocalCall<D>, take: () => UpgradeRequest) => void | Promise<void>;
}

/** Returns functions that define the routes of a group, which need `D` of the agent; the types of a handler follow from its schemas. */
export function routesWith<D>(tag: string) {
  return { route, upload, socket };
  /** Of a request and its reply. */
  function route<
    const Path extends string,
    R,
    const Out extends NoInfer<R> | AsyncIterable<unknown>,
    Q extends z.ZodObject,
    B extends z.ZodObject,
  >(value: PlainRoute<D, Path, Q, B, R, Out>): LocalRoute<D> {
    return withLazySchemas({ ...value, tag } as unknown as LocalRoute<D>);
  }
  /** Of a request with a manifest, as a multipart form, and its reply. */
  function upload<
    const Path extends string,
    R,
    const Out extends NoInfer<R> | AsyncIterable<unknown>,
    Q extends z.ZodObject,
  >(value: UploadRoute<D, Path, Q, R, Out>): LocalRoute<D> {
    return withLazySchemas({ ...value, tag, form: true } as unknown as LocalRoute<D>);
  }
  /** Of a WebSocket. */
  function socket<const Path extends string, Q extends z.ZodObject>(value: SocketRoute<D, Path, Q>): LocalRoute<D> {
    return withLazySchemas({ ...value, tag } as unknown as LocalRoute<D>);
  }
}

function withLazySchemas<D>(route: LocalRoute<D>): LocalRoute<D> {
  const { query, body } = route;
  return { ...route, query: once(query), body: once(body && (() => body().strict())) };
}

function once<T>(make: (() => T) | undefined): (() => T) | undefined {
  let made: T | undefined;
  return (
    make &&
    (() => {
      made ??= make();
      return made;
    })
  );
}
