import { randomUUID } from 'node:crypto';
import { kubeFromFile } from '../../hack/kube.ts';
import { waitFor } from '../../hack/wait.ts';
import type { CoreCase } from '../api/_core-agreement.ts';
import { LABELS } from '../api/names.ts';
import { CORE_RESOURCES } from '../api/resources.ts';
import { admissionPolicies } from '../manifests/policies.ts';
import { isObject } from '../rules/document.ts';
import { CORE_KINDS } from '../subjects/content/kinds/core-objects.ts';
import { type Answer, clientFor, serveDry, strictDryRun } from './_doors.ts';
import { createMemoryDependencies } from './_memory.ts';
import { createConfigMaps, createSecrets } from './adapters/core-objects.ts';
import type { Objects } from './contract/dependencies.ts';

/**
 * The ways by which a Secret or ConfigMap comes in: kubectl, with the admission policy of an installation, a YAML file in the form of
 * kubectl, and a JSON body of REST. Nothing is stored: the API server judges in dry runs.
 */
export interface CoreDoors extends AsyncDisposable {
  kubectl(key: CoreKey, one: CoreCase): Promise<Answer>;
  yaml(key: CoreKey, one: CoreCase): Promise<Answer>;
  /** undefined for a document that JSON bodies cannot say */
  json(key: CoreKey, one: CoreCase): Promise<Answer | undefined>;
}
type CoreKey = keyof typeof CORE_KINDS;

const NAME = 'corpus';
const POLICY = /^skerry-shareable\./;

export async function openCoreDoors(kubeconfig: string): Promise<CoreDoors> {
  const cleanup = new AsyncDisposableStack();
  const kube = await kubeFromFile(kubeconfig);
  cleanup.defer(() => kube.close());
  const client = cleanup.use(clientFor(kubeconfig));
  const namespace = `core-${randomUUID().slice(0, 8)}`;
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  for (const manifest of admissionPolicies(namespace)) {
    const { name } = manifest.metadata as { name: string };
    if (!POLICY.test(name)) continue;
    await kube.apply(manifest as never);
    const plural = manifest.kind === 'ValidatingAdmissionPolicy' ? 'policies' : 'policybindings';
    cleanup.defer(() =>
      kube
        .request('DELETE', `/apis/admissionregistration.k8s.io/v1/validatingadmission${plural}/${name}`)
        .then(() => {}),
    );
  }
  const kubectl = (key: CoreKey, { document, metadata }: Pick<CoreCase, 'document' | 'metadata'>) => {
    const { kind, plural } = CORE_RESOURCES[key];
    const labels = { [LABELS.shareable]: 'true', ...(metadata.labels as object | undefined) };
    const object = { apiVersion: 'v1', kind, ...document, metadata: { name: NAME, ...metadata, labels } };
    return strictDryRun(client, `/api/v1/namespaces/${namespace}/${plural}`, object);
  };
  const refused = { document: { type: 'example.com/none' }, metadata: {} };
  await waitFor(async () => !(await kubectl('secrets', refused)).accepted, { what: 'the policy to act' });

  const objects = (key: CoreKey) =>
    ({
      synced: true,
      find: () => [],
      read: async () => undefined,
      refresh: async () => {},
      create: (object: { metadata: object }) =>
        client.create(
          CORE_RESOURCES[key] as never,
          { ...object, metadata: { ...object.metadata, namespace } } as never,
          { dryRun: true },
        ),
    }) as unknown as Objects<never>;
  const deps = createMemoryDependencies({
    secrets: createSecrets(objects('secrets')),
    configMaps: createConfigMaps(objects('configMaps')),
    authenticator: { authenticate: async (name) => ({ name, groups: [] }) },
    authorizer: { allowed: async () => true },
  });
  const { answer } = await serveDry(deps, cleanup);
  const pathOf = (key: CoreKey) => CORE_KINDS[key].rest.crud.path;
  return {
    kubectl,
    yaml(key, { document, metadata }) {
      const { kind } = CORE_RESOURCES[key];
      const whole = { apiVersion: 'v1', kind, metadata: { name: NAME, ...metadata }, ...document };
      return answer(`${pathOf(key)}/yaml`, { yaml: JSON.stringify(whole) });
    },
    async json(key, one) {
      const body = key === 'secrets' ? secretBody(one) : configMapBody(one);
      return body && answer(pathOf(key), { json: body });
    },
    [Symbol.asyncDispose]: () => cleanup.disposeAsync(),
  };
}

type Fields = Record<string, unknown>;

/** The name in a body; undefined where v3 has a rule of its own: for names, for keys, and for metadata besides the name. */
function nameOf({ metadata, document }: CoreCase): { name: string } | undefined {
  const { name = NAME, annotations, labels } = metadata as { name?: string } & Record<string, Fields | undefined>;
  const keys = [document.data, document.stringData, document.binaryData].flatMap((data) =>
    isObject(data) ? Object.keys(data) : [],
  );
  const isFree = keys.every((key) => /^(?!\.)[-._a-zA-Z0-9]{1,253}$/.test(key)) && /^[a-z0-9-]{1,253}$/.test(name);
  const given = annotations?.['skerry.dev/name'];
  if (given === '' || String(given).length > 255) return undefined;
  if (!isFree || (labels && !('skerry.dev/secret-type' in labels)) || typeof (given ?? '') !== 'string')
    return undefined;
  return { name: typeof given === 'string' ? given : name };
}

const isBase64 = (value: unknown) =>
  typeof value === 'string' && Buffer.from(value, 'base64').toString('base64') === value;
const isText = (value: string) => Buffer.from(Buffer.from(value, 'base64').toString()).toString('base64') === value;

/** The v3 body: text by key, base64 of a certificate; a document whose base64 is wrong cannot be said. */
function secretBody(one: CoreCase): Fields | undefined {
  const { type = 'Opaque', data, stringData = {}, ...others } = one.document;
  const name = nameOf(one);
  const isTls =
    type === 'kubernetes.io/tls' || (one.metadata.labels as Fields | undefined)?.['skerry.dev/secret-type'] === 'tls';
  if (typeof type !== 'string' || others.binaryData !== undefined) return undefined;
  const isPlain = isObject(stringData) && Object.values(stringData).every((value) => typeof value === 'string');
  if (!name || !isPlain || (isObject(data) && !Object.values(data).every(isBase64)) || type === '' || !type)
    return undefined;
  if (data !== undefined && data !== null && !isObject(data)) return { ...name, type, data, ...others };
  if (!data && !isTls) return { ...name, type, data: stringData, ...others };
  const encoded = {
    ...(data as Record<string, string>),
    ...Object.fromEntries(
      Object.entries(stringData as Record<string, string>).map(([key, text]) => [
        key,
        Buffer.from(text).toString('base64'),
      ]),
    ),
  };
  if (isTls) return { ...name, type: 'tls', data: encoded, ...others };
  const pick = (wanted: boolean) => Object.entries(encoded).filter(([, value]) => isText(value) === wanted);
  if (pick(true).some(([, value]) => Buffer.from(value, 'base64').includes(0))) return undefined;
  const texts = pick(true).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]);
  return {
    ...name,
    type,
    data: Object.fromEntries(texts),
    ...(pick(false).length > 0 && { binaryData: Object.fromEntries(pick(false)) }),
    ...others,
  };
}

function configMapBody(one: CoreCase): Fields | undefined {
  const { data, useVault, ...others } = one.document;
  const name = nameOf(one);
  return name && useVault === undefined ? { ...name, data: data ?? {}, ...others } : undefined;
}
