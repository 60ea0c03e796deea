import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { BASE } from './contract/base.ts';
import { type AnyRoute, grouped, tableOf } from './contract/route.ts';
import { openApiDocument } from './server/openapi.ts';

/** A response, checked against the OpenAPI document. */
export interface Answer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: the schema was checked; tests read any member
  body: any;
  headers: Headers;
}

interface RequestOptions {
  token?: string;
  json?: unknown;
  yaml?: string;
  /** a multipart form with one file */
  form?: { part: string; text: string };
  headers?: Record<string, string>;
  /** sent unchanged */
  raw?: string | Uint8Array;
}

/** A client that throws for every response that the OpenAPI document does not allow. */
export interface TestClient {
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  get(path: string, options?: RequestOptions): Promise<Answer>;
  post(path: string, options?: RequestOptions): Promise<Answer>;
  put(path: string, options?: RequestOptions): Promise<Answer>;
  patch(path: string, options?: RequestOptions): Promise<Answer>;
  delete(path: string, options?: RequestOptions): Promise<Answer>;
  /** The same client with another token. */
  as(token: string): TestClient;
}

export function createTestClient(origin: string, routes: readonly AnyRoute[], token?: string): TestClient {
  return clientFor(origin, createChecker(routes), token);
}

function clientFor(origin: string, check: Checker, token?: string): TestClient {
  async function request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const { json, yaml, form, raw } = options;
    const headers = new Headers(options.headers);
    const bearer = options.token ?? token;
    if (bearer && !headers.has('authorization')) headers.set('authorization', `Bearer ${bearer}`);
    let body: string | Uint8Array | FormData | undefined = raw;
    if (json !== undefined) {
      body = JSON.stringify(json);
      headers.set('content-type', 'application/json');
    } else if (yaml !== undefined) {
      body = yaml;
      headers.set('content-type', 'application/x-yaml');
    } else if (form) {
      const data = new FormData();
      data.append(form.part, new Blob([form.text], { type: 'application/yaml' }), `${form.part}.yaml`);
      body = data;
    }
    const response = await fetch(`${origin}${BASE}${path}`, { method, headers, body: body as string });
    const text = await response.text();
    const answer: Answer = {
      status: response.status,
      headers: response.headers,
      body: text ? JSON.parse(text) : undefined,
    };
    check(method, path, answer);
    return answer;
  }
  const verb =
    (method: string): TestClient['get'] =>
    (path, options) =>
      request(method, path, options);
  return {
    request,
    get: verb('GET'),
    post: verb('POST'),
    put: verb('PUT'),
    patch: verb('PATCH'),
    delete: verb('DELETE'),
    as: (other) => clientFor(origin, check, other),
  };
}

/** Throws unless the OpenAPI document allows the response. `path` is below `/api/v3`. */
export type Checker = (method: string, path: string, answer: Answer) => void;

export function createChecker(routes: readonly AnyRoute[]): Checker {
  const document = JSON.parse(JSON.stringify(openApiDocument(grouped('Test', routes))));
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });
  ajv.addSchema({ ...document, $id: 'openapi' });
  const validators = new Map<string, ValidateFunction>();
  const validator = (pointer: string) => {
    const known = validators.get(pointer) ?? ajv.compile({ $ref: `openapi#${pointer}` });
    validators.set(pointer, known);
    return known;
  };
  const table = tableOf(routes);

  return (method, path, { status, body, headers }) => {
    const what = `${method} ${path} -> ${status}`;
    const fail = (text: string) => {
      throw new Error(`${what}: ${text}\n${JSON.stringify(body)?.slice(0, 2000)}`);
    };
    if (!/^\d{13}$/.test(headers.get('x-timestamp') ?? '')) fail('no X-Timestamp');
    if (!headers.get('request-id')) fail('no request-id');
    // A test may request a path that is not valid percent-encoding.
    const route = table.find(method, path.replace(/\/?(\?.*)?$/s, '').replaceAll('%', '%25'))?.value;
    const promised = route && document.paths[BASE + route.path][method.toLowerCase()].responses[String(status)];
    if (route && !promised) fail('this status is not in the document');
    if (body === undefined) {
      if (status >= 400 && method !== 'HEAD') fail('an error without a body');
      if (promised?.content) fail('a body was promised');
      return;
    }
    if (!headers.get('content-type')?.startsWith('application/json')) fail('the body is not called JSON');
    const pointer =
      status >= 400
        ? '/components/schemas/Error'
        : `/paths/${[BASE + (route?.path ?? ''), method.toLowerCase(), 'responses', String(status), 'content', 'application/json', 'schema'].map(token).join('/')}`;
    const validate = validator(pointer);
    if (!validate(body)) fail(ajv.errorsText(validate.errors?.slice(0, 5)));
  };
}

const token = (text: string) => encodeURIComponent(text.replaceAll('~', '~0').replaceAll('/', '~1'));
