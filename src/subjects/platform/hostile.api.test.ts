import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { kubeFromFile } from '../../../hack/kube.ts';
import type {} from '../../../hack/testing/provided.ts';
import { waitFor } from '../../../hack/wait.ts';
import { API_VERSION, LABELS } from '../../api/names.ts';
import type { Secret } from '../../api/resources.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import { applyPolicies, clientOf, MERGE } from '../../assembly/_system-cluster.ts';
import { decodeData } from '../../datastore/keyed-text.ts';
import { poll, startTestCluster } from '../../rest/_cluster.ts';
import { KINDS } from '../kinds.ts';

/** What users without rights on core Secrets try to get or disturb of the platform of a node, over REST and with kubectl. */
const kube = await kubeFromFile(inject('kubeconfig'));
const cluster = await startTestCluster();
const { namespace } = cluster;
await applyPolicies(kube, namespace, ['skerry-system', 'skerry-system-names', 'skerry-system-authorities']);
const { app, client } = await cluster.startController();
const admin = client.as(await cluster.token('admin'));
const developer = client.as(await cluster.token('developer'));
const kubectl = { developer: await clientOf(kube, cluster, 'developer'), sre: await clientOf(kube, cluster, 'sre') };
afterAll(() => {
  kube.close();
  for (const by of Object.values(kubectl)) by.close();
});

const uuids: Record<string, string> = {};
const desired = (node: string) => app.agents.routes.desired(uuids[node] ?? '');
/** PEM texts of private keys by Secret. */
const keys = new Map<string, readonly string[]>();
let platformSecret = '';
const AUTHORITY_SECRET = 'skerry-ca-router-site-ca';
const core = (name: string) => `/api/v1/namespaces/${namespace}/secrets/${name}`;
const at = (plural: string, name = '') => `/apis/${API_VERSION}/namespaces/${namespace}/${plural}${name && `/${name}`}`;

beforeAll(async () => {
  await waitFor(async () => (await admin.get('/node-list')).status === 200, { what: 'the controller' });
  for (const name of ['gw', 'other']) {
    const { status, body } = await admin.post('/node', {
      json: { name, archId: 1, routerMode: 'edge', host: `${name}.example` },
    });
    expect(status, JSON.stringify(body)).toBe(201);
    uuids[name] = body.uuid;
  }
  platformSecret = `skerry-platform-${uuids.gw}`;
  for (const name of [platformSecret, AUTHORITY_SECRET]) {
    await waitFor(() => kube.get<Secret>(core(name)), { what: name });
    const texts = decodeData((await kube.get<Secret>(core(name)))?.data);
    keys.set(
      name,
      Object.values(texts).filter((text) => text.includes('PRIVATE KEY')),
    );
  }
  await waitFor(() => desired('gw')?.systemFiles.length === 3, { what: 'the files' });
}, 60_000);

/** Lines of private keys that a text has, as they are or in base64. */
function keysIn(text: string): readonly string[] {
  const lines = [...keys.values()]
    .flat()
    .flatMap((pem) => pem.split('\n').filter((line) => line.length > 40 && !line.includes('-')));
  expect(lines.length).toBeGreaterThan(3);
  return lines.filter(
    (line) => text.includes(line) || text.includes(Buffer.from(line).toString('base64').slice(4, -4)),
  );
}

interface Container {
  env?: object[];
  volumes?: object[];
}
let count = 0;
const application = (name: string, { env, volumes }: Container) => ({
  name,
  microservices: [
    {
      ...{ name: 'thief', agentName: 'gw', images: [{ archId: 1, containerImage: 'thief:1' }] },
      ...(env && { env }),
      ...(volumes && { volumeMappings: volumes }),
    },
  ],
});
const manifest = (kind: string, name: string, spec: object) => ({
  ...{ apiVersion: API_VERSION, kind, metadata: { name, namespace } },
  spec,
});
const applicationObject = (name: string, container: Container) =>
  manifest('Application', name, {
    microservices: [{ name: 'thief', agent: { name: 'gw' }, images: { amd64: 'thief:1' }, container }],
  });
const volume = (type: string, hostDestination: string) => ({
  ...{ type, hostDestination, containerDestination: '/stolen', accessMode: 'ro' },
});

interface Attempt {
  /** what REST gets: path and body */
  rest: readonly [string, object];
  refused: readonly [number, RegExp];
  /** what kubectl creates, and with which reason it then is not ready; a text is the refusal of the API server */
  object: { kind: string; spec?: object; metadata: object };
  found: string | RegExp;
}

const MOUNTS = ['router-site-server', 'router-site-server/tls.key', 'router-local-server/tls.crt'];
const NOT_SHAREABLE = /no .*[Ss]ecret "skerry-/;

/** Names are made anew for each row; Secrets are known once the nodes exist. */
const ATTEMPTS: Readonly<Record<string, (name: string, secret: string) => Attempt>> = {
  'a certificate of an authority of the system': (name) => {
    const spec = { subject: 'hub', hosts: 'gw.example', ca: { type: 'direct', secretName: 'router-site-ca' } };
    return {
      rest: ['/certificates', { name, ...spec }],
      refused: [403, /"router-site-ca" signs for the controller alone/],
      object: manifest('Certificate', name, spec),
      found: 'AuthorityOfSystem',
    };
  },
  'a certificate signed by a Secret of the system': (name, secret) => {
    const spec = { subject: 'hub', hosts: 'gw.example', ca: { type: 'direct', secretName: secret } };
    return {
      rest: ['/certificates', { name, ...spec }],
      refused: [404, /no certificate authority and no shareable secret "skerry-/],
      object: manifest('Certificate', name, spec),
      found: 'AuthorityNotFound',
    };
  },
  'a certificate whose Secret would be a Secret of the system': (_, secret) => {
    const spec = { subject: 'hub', hosts: 'gw.example' };
    return {
      rest: ['/certificates', { name: secret, ...spec }],
      refused: [400, /is a name for Secrets of the system/],
      object: manifest('Certificate', secret, spec),
      found: 'NameReserved',
    };
  },
  'an authority of the type direct': (name, secret) => ({
    rest: ['/certificates/ca', { name, type: 'direct', secretName: secret }],
    refused: [404, /no shareable secret "skerry-/],
    object: manifest('CertificateAuthority', name, { type: 'direct', secretName: secret }),
    found: 'SecretNotFound',
  }),
  'an authority of the type k8s-secret': (name, secret) => ({
    rest: ['/certificates/ca', { name, type: 'k8s-secret', secretName: secret }],
    refused: [404, /no shareable secret "skerry-/],
    object: manifest('CertificateAuthority', name, { type: 'k8s-secret', secretName: secret }),
    found: 'SecretNotFound',
  }),
  'a volume mount of the Secret': (name, secret) => ({
    rest: ['/volumeMounts', { name, secretName: secret }],
    refused: [404, NOT_SHAREABLE],
    object: manifest('VolumeMount', name, { secretName: secret }),
    found: 'SecretNotFound',
  }),
  'a variable with a key of the Secret': (name, secret) => {
    const env = [{ key: 'STOLEN', valueFromSecret: `${secret}/router-site-server.key` }];
    return {
      rest: ['/application', application(name, { env })],
      refused: [404, NOT_SHAREABLE],
      object: applicationObject(name, { env }),
      found: 'SecretNotFound',
    };
  },
};

describe.each([
  ['of a node', () => platformSecret],
  ['of an authority', () => AUTHORITY_SECRET],
])('the Secret %s', (_, secret) => {
  test.each(Object.keys(ATTEMPTS))('is not got by %s', async (what) => {
    const make = ATTEMPTS[what] as (typeof ATTEMPTS)[string];
    const { rest, refused, object, found } = make(`try-${count++}`, secret());
    const [path, json] = rest;
    const answer = await developer.post(path, { json });
    expect([answer.status, answer.body.message]).toEqual([refused[0], expect.stringMatching(refused[1])]);
    expect(keysIn(JSON.stringify(answer.body))).toEqual([]);
    const { name } = object.metadata as { name: string };
    const { definition } = Object.values(KINDS).find(
      ({ definition: { kind } }) => kind === object.kind,
    ) as (typeof KINDS)['nodes'];
    await kubectl.developer.request('POST', at(definition.plural), object);
    const ready = async () =>
      (await kube.get<EdgeNode>(at(definition.plural, name)))?.status?.conditions?.find(({ type }) => type === 'Ready');
    await poll(async () => (await ready())?.reason).toBe(found);
    expect((await ready())?.status).toBe('False');
  });

  test.each(['GET', 'PATCH', 'DELETE'])(
    'is absent for %s over REST, for whoever may read Secrets too',
    async (method) => {
      const options = method === 'PATCH' ? { json: { data: { a: 'b' } } } : {};
      const path = `/secrets/${secret()}`;
      expect(await admin.request(method, path, options)).toMatchObject({
        status: 404,
        body: { code: 'SECRET_NOT_FOUND' },
      });
      const { status, body } = await developer.request(method, path, options);
      expect([status, body.code]).toEqual(method === 'GET' ? [403, 'FORBIDDEN'] : [404, 'SECRET_NOT_FOUND']);
      expect(JSON.stringify((await admin.get('/secrets')).body)).not.toContain(secret());
    },
  );

  test('is not read with kubectl by roles of users', async () => {
    for (const by of Object.values(kubectl))
      await expect(by.request('GET', core(secret()))).rejects.toThrow('forbidden');
  });

  test('is no password of a registry', async () => {
    const name = `thief-${count++}`;
    const url = `${name}.example`;
    const passwordSecretRef = { name: secret(), key: 'router-site-server.key' };
    const spec = { url, isPublic: false, username: 'a', passwordSecretRef };
    // Over REST nobody names a Secret for it.
    await developer.post('/registries', { json: { ...spec, url: `rest.${url}` } });
    const { items } = await kube.request<{ items: object[] }>('GET', at('registries'));
    expect(JSON.stringify(items)).not.toContain(secret());
    await kubectl.developer.request('POST', at('registries'), manifest('Registry', name, spec));
    const entry = { name: 'thief', agent: { name: 'gw' }, images: { amd64: 'thief:1', registry: name } };
    const object = manifest('Application', name, { microservices: [entry] });
    await kubectl.developer.request('POST', at('applications'), object);
    const sent = () => desired('gw')?.registries.find((one) => one.url === url);
    await waitFor(sent, { what: 'the registry' });
    expect(keysIn(JSON.stringify(sent()))).toEqual([]);
    expect(sent()?.password ?? '').toBe('');
  });

  test('is not shared by a label, which is taken off again', async () => {
    const seen: number[] = [];
    await kube.request('PATCH', core(secret()), { metadata: { labels: { [LABELS.shareable]: 'true' } } }, MERGE);
    await poll(async () => {
      seen.push((await admin.get(`/secrets/${secret()}`)).status);
      return (await kube.get<Secret>(core(secret())))?.metadata.labels?.[LABELS.shareable];
    }).toBeUndefined();
    expect(new Set(seen)).toEqual(new Set([404]));
    expect(await developer.post('/volumeMounts', { json: { name: 'sly', secretName: secret() } })).toMatchObject({
      status: 404,
    });
  });
});

describe('a mapping of the files of the system', () => {
  test.each(
    MOUNTS.flatMap((set) =>
      [`system:${set}`, `system-${set}`, `system/${set}`, `SYSTEM:${set}`, ` system:${set}`].flatMap((spelling) =>
        (['volumeMount', 'volume', 'bind'] as const)
          // A volume of the engine may have such a name.
          .filter((type) => type !== 'volume' || /[:/ ]/.test(spelling))
          .map((type) => [type, spelling] as const),
      ),
    ),
  )('is refused with a text for the type %s and the spelling %j', async (type, hostDestination) => {
    const name = `map-${count++}`;
    const { status, body } = await developer.post('/application', {
      json: application(name, { volumes: [volume(type, hostDestination)] }),
    });
    expect([status, body.message], type).toEqual([expect.toBeOneOf([400, 404]), expect.stringMatching(/.{20}/)]);
  });

  test.each(['system:router-site-server', 'system'])('is no volume mount with the name %s', async (name) => {
    const { status } = await developer.post('/volumeMounts', { json: { name, secretName: 'none' } });
    expect(status).toBe(name === 'system' ? 404 : 400);
  });
});

describe('an application of a user', () => {
  test.each([{}, { isSystem: true }])(
    'does not get the name of the application of the system on a node, with %j',
    async (more) => {
      for (const name of ['system-gw', 'system-none', 'System-gw']) {
        const answer = await developer.post('/application', { json: { ...application(name, {}), ...more } });
        expect([answer.status, answer.body.message], name).toEqual([400, expect.stringMatching(/system|isSystem/i)]);
        const object = applicationObject(name.toLowerCase(), {});
        const made = { ...object, spec: { ...object.spec, ...more } };
        await expect(kubectl.developer.request('POST', at('applications'), made)).rejects.toThrow(
          'isSystem' in more ? /isSystem/ : 'names that begin with system- belong to applications of the system',
        );
      }
    },
  );
});

test('nothing of all that has a key of the system in the desired state of a node, besides its own files', () => {
  for (const node of Object.keys(uuids)) {
    const { systemFiles, ...rest } = desired(node) ?? {};
    expect(keysIn(JSON.stringify(rest))).toEqual([]);
    const files = Object.values(systemFiles ?? []).flatMap((set) => Object.values(set.files));
    const texts = files.map((content) => Buffer.from(content, 'base64').toString());
    expect(keysIn(texts.join('\n')).length > 0).toBe(node === 'gw');
  }
});
