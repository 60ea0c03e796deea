import { spawn } from 'node:child_process';
import { stringify } from 'yaml';
import { type Kube, KubeError } from '../../hack/kube.ts';
import { API_VERSION } from '../../src/api/names.ts';
import type { Application, MicroserviceEntry } from '../../src/api/v3/index.ts';
import type { UserStep } from './generate.ts';
import type { Operation } from './history.ts';
import type { Wanted } from './model.ts';
import { holdSession } from './sessions.ts';

/** What users need to reach each API surface. */
export interface Doors {
  namespace: string;
  /** directly to the API server */
  kube: Kube;
  kubectl: string;
  kubeconfig: string;
  token: string;
  /** URL of a controller, which may be down */
  rest(): string;
  /** reference of an image by colour */
  image(colour: string): string;
}

type Result = Pick<Operation, 'outcome' | 'said' | 'read' | 'typed' | 'shown'>;

/** Timeout of users; a request that timed out may still be carried out. */
const PATIENCE = 10_000;

/** Carries out a user's action, and returns its outcome. */
export async function perform(step: UserStep, doors: Doors): Promise<Result> {
  try {
    switch (step.door) {
      case 'kubectl':
        return await withKubectl(step, doors);
      case 'api':
        return await overApi(step, doors);
      default:
        return await overRest(step, doors);
    }
  } catch (error) {
    return outcomeOf(error);
  }
}

const isResult = (value: unknown): value is Result => typeof value === 'object' && value !== null && 'outcome' in value;

const DONE: Result = { outcome: 'done' };
const SKIPPED: Result = { outcome: 'skipped' };

function outcomeOf(error: unknown): Result {
  const { message, status } = error as Error & { status?: number };
  const refused = status !== undefined && status >= 400 && status < 500;
  return { outcome: refused ? 'refused' : 'unknown', said: message.slice(0, 300) };
}

const entryOf = (name: string, { value, image, node }: Wanted, doors: Doors) => ({
  name,
  agent: { name: node },
  images: { amd64: doors.image(image), arm64: doors.image(image) },
  container: { env: [{ key: 'VALUE', value }] },
});

const manifest = (name: string, entries: Readonly<Record<string, Wanted>>, doors: Doors) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name },
  spec: { microservices: Object.entries(entries).map(([entry, wanted]) => entryOf(entry, wanted, doors)) },
});

/** Each entry has a field manager of its own: an apply that leaves an entry out would otherwise remove it. */
const managerOf = (entry: string) => `apply-${entry}`;

async function withKubectl({ app, action }: UserStep, doors: Doors): Promise<Result> {
  if (action.kind !== 'apply') throw new Error(`kubectl does not ${action.kind}`);
  const args = [
    ...['--kubeconfig', doors.kubeconfig, '-n', doors.namespace, '--request-timeout', `${PATIENCE / 1000}s`],
    ...['apply', '--server-side', '--force-conflicts', '--field-manager', managerOf(action.entry), '-f', '-'],
  ];
  const child = spawn(doors.kubectl, args, { stdio: ['pipe', 'ignore', 'pipe'] });
  child.stdin.on('error', () => {});
  child.stdin.end(JSON.stringify(manifest(app, { [action.entry]: action }, doors)));
  let errors = '';
  child.stderr.on('data', (bytes) => {
    errors += bytes;
  });
  const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve));
  if (code === 0) return DONE;
  const refused = /\((Conflict|Invalid|Forbidden|NotFound|BadRequest)\)| is invalid/.test(errors);
  return { outcome: refused ? 'refused' : 'unknown', said: errors.slice(0, 300) };
}

async function overApi({ app, action }: UserStep, { namespace, kube, ...doors }: Doors): Promise<Result> {
  const path = `/apis/${API_VERSION}/namespaces/${namespace}/applications/${app}`;
  /** As `kubectl edit` does. */
  const edit = async (name: string, change: (entry: MicroserviceEntry) => MicroserviceEntry[]): Promise<Result> => {
    const current = await kube.get<Application>(path);
    if (!current?.spec.microservices?.some((one) => one.name === name)) return SKIPPED;
    const microservices = current.spec.microservices.flatMap((one) => (one.name === name ? change(one) : [one]));
    await kube.request('PUT', `${path}?fieldManager=edit`, { ...current, spec: { ...current.spec, microservices } });
    return DONE;
  };
  switch (action.kind) {
    case 'apply':
      await kube.request(
        'PATCH',
        `${path}?fieldManager=${managerOf(action.entry)}&force=true`,
        manifest(app, { [action.entry]: action }, { namespace, kube, ...doors }),
        'application/apply-patch+yaml',
      );
      return DONE;
    case 'patch':
      return edit(action.entry, (entry) => [
        {
          ...entry,
          container: { ...entry.container, env: [{ key: 'VALUE', value: action.value }] } as never,
          ...(action.image && { images: { amd64: doors.image(action.image), arm64: doors.image(action.image) } }),
        },
      ]);
    case 'place':
      return edit(action.entry, (entry) => [{ ...entry, agent: { name: action.node } }]);
    case 'remove':
      return edit(action.entry, () => []);
    case 'activate':
      await kube.request('PATCH', path, { spec: { isActivated: action.active } }, 'application/merge-patch+json');
      return DONE;
    case 'delete':
      await kube.request('DELETE', path).catch((error: unknown) => {
        if (!(error instanceof KubeError && error.status === 404)) throw error;
      });
      return DONE;
    default:
      throw new Error(`the API server does not ${action.kind}`);
  }
}

/** A response of the REST API that is not a success. */
class RestError extends Error {
  readonly status: number;
  constructor(status: number, text: string) {
    super(`${status} ${text}`);
    this.status = status;
  }
}

interface Flat {
  name: string;
  uuid: string;
  delete?: boolean;
  env?: { key: string; value: string }[];
}

async function overRest({ app, action, door }: UserStep, doors: Doors): Promise<Result> {
  const origin = doors.rest();
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const form = body instanceof FormData;
    const response = await fetch(`${origin}/api/v3${path}`, {
      method,
      headers: {
        authorization: `Bearer ${doors.token}`,
        ...(body !== undefined && !form && { 'content-type': 'application/json' }),
      },
      body: form ? body : body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE),
    });
    const text = await response.text();
    if (!response.ok) throw new RestError(response.status, text);
    return (text ? JSON.parse(text) : undefined) as T;
  };
  const flat = (name: string, { value, image, node }: Wanted) => ({
    name,
    agentName: node,
    images: [1, 2].map((archId) => ({ containerImage: doors.image(image), archId })),
    env: [{ key: 'VALUE', value }],
  });
  const body = (entries: Readonly<Record<string, Wanted>>) => ({
    name: app,
    microservices: Object.entries(entries).map(([name, wanted]) => flat(name, wanted)),
  });
  const upload = (part: string, document: unknown) => {
    const form = new FormData();
    form.append(part, new Blob([stringify(document)], { type: 'application/yaml' }), `${part}.yaml`);
    return form;
  };
  /** Finds the microservice first, as a user who selects it from a list. */
  const onEntry = async (name: string, then: (path: string, uuid: string) => Promise<unknown>): Promise<Result> => {
    let found: Flat | undefined;
    try {
      const list = await call<{ microservices: Flat[] }>('GET', `/microservices?application=${app}`);
      found = list.microservices.find((one) => one.name === name && !one.delete);
    } catch (error) {
      return { outcome: 'skipped', said: (error as Error).message.slice(0, 300) };
    }
    if (!found) return SKIPPED;
    const result = await then(`/microservices/${found.uuid}`, found.uuid);
    return isResult(result) ? result : DONE;
  };

  switch (action.kind) {
    case 'create':
      if (door === 'yaml')
        await call('POST', '/application/yaml', upload('application', manifest(app, action.entries, doors)));
      else await call('POST', '/application', body(action.entries));
      return DONE;
    case 'replace':
      if (door === 'yaml')
        await call('PUT', `/application/yaml/${app}`, upload('application', manifest(app, action.entries, doors)));
      else await call('PUT', `/application/${app}`, body(action.entries));
      return DONE;
    case 'add': {
      const { name, ...spec } = entryOf(action.entry, action, doors);
      const document = { apiVersion: API_VERSION, kind: 'Microservice', metadata: { name: `${app}/${name}` }, spec };
      if (door === 'yaml') await call('POST', '/microservices/yaml', upload('microservice', document));
      else await call('POST', '/microservices', { ...flat(action.entry, action), application: app });
      return DONE;
    }
    case 'patch': {
      const { image, value } = action;
      return onEntry(action.entry, (path) =>
        call('PATCH', path, {
          env: [{ key: 'VALUE', value }],
          ...(image && { images: [1, 2].map((archId) => ({ containerImage: doors.image(image), archId })) }),
        }),
      );
    }
    case 'remove':
      return onEntry(action.entry, (path) => call('DELETE', path));
    case 'start':
    case 'stop':
    case 'rebuild':
      return onEntry(action.entry, (path) => call('PATCH', `${path}/${action.kind}`));
    case 'session':
      return onEntry(action.entry, (_, uuid) => holdSession({ origin, token: doors.token, uuid }, action));
    case 'activate':
      await call('PATCH', `/application/${app}`, { isActivated: action.active });
      return DONE;
    case 'delete':
      await call('DELETE', `/application/${app}`).catch((error: unknown) => {
        if (!(error instanceof RestError && error.status === 404)) throw error;
      });
      return DONE;
    case 'read':
      try {
        const { microservices } = await call<{ microservices: Flat[] }>('GET', `/application/${app}`);
        const shown = microservices.filter((one) => !one.delete);
        const read = Object.fromEntries(shown.map(({ name, env }) => [name, valueIn(env)]));
        return { outcome: 'done', read };
      } catch (error) {
        if (error instanceof RestError && error.status === 404) return DONE;
        return { outcome: 'unknown', said: (error as Error).message.slice(0, 300) };
      }
    default:
      throw new Error(`REST does not ${action.kind}`);
  }
}

const valueIn = (env: readonly { key: string; value?: string }[] = []) =>
  env.find(({ key }) => key === 'VALUE')?.value ?? '';
