import { readFileSync } from 'node:fs';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { parse, parseAllDocuments } from 'yaml';

/** The fields of a Kubernetes object that the stack reads. */
export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; [key: string]: unknown };
  [key: string]: unknown;
}

/** A response of the API server that is not a success. */
export class KubeError extends Error {
  readonly status: number;

  constructor(method: string, path: string, status: number, message: string) {
    super(`${method} ${path}: ${status} ${message}`);
    this.status = status;
  }
}

/** A few plain requests to an API server, for set-up; the controller has its own client. */
export interface Kube {
  readonly server: string;
  /** The namespace of the kubeconfig's context. */
  readonly namespace: string;
  request<T>(method: string, path: string, body?: unknown, contentType?: string): Promise<T>;
  /** Undefined when the object does not exist. */
  get<T = KubeObject>(path: string): Promise<T | undefined>;
  /** Server-side apply. */
  apply(object: KubeObject): Promise<KubeObject>;
  close(): void;
}

const FIELD_MANAGER = 'skerry-hack';

/** A client for the current context of a kubeconfig file, whichever way it authenticates. */
export async function kubeFromFile(kubeconfig: string): Promise<Kube> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const context = config.getContextObject(config.currentContext);
  const server = config.getCurrentCluster()?.server;
  if (!server) throw new Error(`${kubeconfig} has no current cluster`);
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  return createKube(server, options, context?.namespace ?? 'default');
}

/** A client for a server, with the credentials of each request. */
export function createKube(server: string, credentials: RequestOptions, namespace = 'default'): Kube {
  const { headers, agent: given, ...tls } = credentials;
  const agent = given instanceof Agent ? given : new Agent({ ...(tls as object), keepAlive: true, maxSockets: 8 });
  const resources = new Map<string, Promise<{ resources: { kind: string; name: string; namespaced: boolean }[] }>>();

  const request = <T>(method: string, path: string, body?: unknown, contentType = 'application/json') =>
    new Promise<T>((resolve, reject) => {
      const url = new URL(path, server);
      const outgoing = httpsRequest(url, {
        ...tls,
        agent,
        method,
        headers: { ...headers, accept: 'application/json', ...(body !== undefined && { 'content-type': contentType }) },
        timeout: 30_000,
      });
      outgoing.on('timeout', () => outgoing.destroy(new Error(`${method} ${path}: no answer in 30 s`)));
      outgoing.on('error', reject);
      outgoing.on('response', (incoming) => {
        const pieces: Buffer[] = [];
        incoming.on('data', (piece) => pieces.push(piece));
        incoming.on('error', reject);
        incoming.on('end', () => {
          const text = Buffer.concat(pieces).toString();
          const isJson = incoming.headers['content-type']?.includes('json');
          const value = isJson ? JSON.parse(text) : text;
          const status = incoming.statusCode ?? 0;
          if (status < 300) resolve(value as T);
          else reject(new KubeError(method, path, status, isJson ? value.message : text));
        });
      });
      outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    });

  async function pathOf({ apiVersion, kind, metadata }: KubeObject): Promise<string> {
    const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    for (const fresh of [false, true]) {
      if (fresh || !resources.has(root)) resources.set(root, request('GET', root));
      const known = await resources.get(root)?.catch(() => undefined);
      const resource = known?.resources.find((each) => each.kind === kind && !each.name.includes('/'));
      if (!resource) continue;
      const scope = resource.namespaced ? `/namespaces/${metadata.namespace ?? namespace}` : '';
      return `${root}${scope}/${resource.name}/${encodeURIComponent(metadata.name)}`;
    }
    throw new Error(`The API server knows no ${kind} in ${apiVersion}`);
  }

  return {
    server,
    namespace,
    request,
    async get<T>(path: string) {
      try {
        return await request<T>('GET', path);
      } catch (error) {
        if ((error as KubeError).status === 404) return undefined;
        throw error;
      }
    },
    async apply(object) {
      const query = `?fieldManager=${FIELD_MANAGER}&force=true`;
      return request('PATCH', `${await pathOf(object)}${query}`, object, 'application/apply-patch+yaml');
    },
    close: () => agent.destroy(),
  };
}

/** A kubeconfig for the same cluster and namespace whose user authenticates with a bearer token. */
export function withToken(kubeconfig: string, token: string): string {
  const config = parse(kubeconfig);
  const context = config.contexts.find((each: { name: string }) => each.name === config['current-context']);
  const users = [{ name: context.context.user, user: { token } }];
  return `${JSON.stringify({ ...config, contexts: [context], users }, undefined, 2)}\n`;
}

/** The objects of a YAML text; a `List` is split into its items. */
export function objectsOfYaml(text: string, name = 'YAML'): KubeObject[] {
  return parseAllDocuments(text).flatMap((document) => {
    const problem = document.errors?.[0];
    if (problem) throw new Error(`${name}: ${problem.message}`);
    const object = document.toJS();
    if (!object) return [];
    return object.kind?.endsWith('List') && Array.isArray(object.items) ? object.items : [object];
  });
}

/** The objects of a YAML file on disk. */
export function readObjects(file: string): KubeObject[] {
  return objectsOfYaml(readFileSync(file, 'utf8'), file);
}
