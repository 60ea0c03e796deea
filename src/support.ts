import packageJson from '../package.json' with { type: 'json' };
import type { ResourceOf } from './api/resources.ts';
import type { Config } from './config.ts';
import { type KubeClient, type KubeObject, LEASES } from './kube/mod.ts';
import { KINDS, type Kinds } from './subjects/kinds.ts';

const MASK = '***';
/** Values that people write into a microservice may be secret, whatever their names; their size and names are sufficient. */
const WITHHELD: ReadonlySet<string> = new Set([
  'config',
  'entrypoint',
  'commands',
  'cmd',
  'test',
  'value',
  'variables',
  'annotations',
]);
const DEADLINE = 10_000;

/**
 * The support document: one JSON document with the version of the controller, its configuration, its
 * metrics, and its objects. Secrets and ConfigMaps are not read. Values of env variables, configs and
 * arguments of microservices are withheld, and so are annotations that are not ours: kubectl stores whole files in one.
 */
export async function supportDocument(
  config: Config,
  client: Pick<KubeClient, 'list'>,
  kinds: Kinds = KINDS,
): Promise<object> {
  const { namespace, metricsPort, controlPlane, installation } = config;
  const { name, appLabel, componentDomain } = installation;
  const objects = (resource: ResourceOf<KubeObject>, withholdsTexts = false) =>
    attempt(async () =>
      (await client.list(resource, { namespace, timeoutMs: DEADLINE })).items.map((object) =>
        shown(object, withholdsTexts),
      ),
    );
  const page = (path: string) =>
    attempt(async () => {
      const answer = await fetch(`http://127.0.0.1:${metricsPort}${path}`, { signal: AbortSignal.timeout(DEADLINE) });
      return (await answer.text()).trim();
    });
  return {
    about: {
      controller: packageJson.version,
      node: process.version,
      made: new Date().toISOString(),
      namespace,
      installation: name,
      controlPlane,
      labels: { 'app.kubernetes.io/name': appLabel, component: `${componentDomain}/component` },
    },
    settings: withoutUsers(config),
    ready: await page('/readyz'),
    metrics: await page('/metrics'),
    leases: await objects(LEASES),
    ...Object.fromEntries(
      await Promise.all(
        Object.entries(kinds).map(async ([key, kind]) => [key, await objects(kind.resource, kind.withholdsTexts)]),
      ),
    ),
  };
}

/** A part that fails is replaced by the reason, and the other parts are unaffected. */
async function attempt(make: () => Promise<unknown>): Promise<unknown> {
  try {
    return await make();
  } catch (error) {
    return `not available: ${(error as Error).message}`;
  }
}

function shown(object: KubeObject, withholdsTexts: boolean): unknown {
  const { annotations = {}, ...metadata } = object.metadata as KubeObject['metadata'] & {
    annotations?: Record<string, string>;
    managedFields?: unknown;
  };
  delete metadata.managedFields;
  const ours = Object.entries(annotations).filter(([name]) => /(^|\.)skerry\.dev\//.test(name));
  const { spec, ...rest } = object as KubeObject & { spec?: unknown };
  return {
    ...(withoutUsers(rest) as object),
    metadata: { ...metadata, annotations: Object.fromEntries(ours) },
    spec: withoutUsers(withholdsTexts ? withheld(spec) : spec),
  };
}

function withheld(value: unknown, name = ''): unknown {
  if (WITHHELD.has(name) && value !== null && value !== undefined) return MASK;
  if (Array.isArray(value)) return value.map((item) => withheld(item));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withheld(member, key)]));
}

/** Removes credentials from URLs at any depth. */
function withoutUsers(value: unknown): unknown {
  const text = JSON.stringify(value ?? null);
  return JSON.parse(text.replace(/((?<![a-z0-9+.-])[a-z][a-z0-9+.-]*:\/\/)[^/\s"'@:]*:[^/\s"'@]*@/gi, `$1${MASK}@`));
}
