import { X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { makeCertificate } from '../../../hack/certificate.ts';
import { kubeFromFile } from '../../../hack/kube.ts';
import type {} from '../../../hack/testing/provided.ts';
import { waitFor } from '../../../hack/wait.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import {
  API_VERSION,
  CONTROLLER_AUTHORITY,
  CONTROLLER_CERTIFICATE,
  LABELS,
  SYSTEM_AUTHORITIES,
} from '../../api/names.ts';
import type { Secret } from '../../api/resources.ts';
import type { Certificate } from '../../api/v3/certificate.ts';
import { applyPolicies, clientOf, MERGE, verdict } from '../../assembly/_system-cluster.ts';
import { startTestCluster } from '../../rest/_cluster.ts';
import { ROLE_NAMES, type RoleName } from '../../rest/access/roles.ts';
import { createCoreObjectController } from '../content/reconcile/core-objects.ts';
import { createVolumeMountController } from '../content/reconcile/volume-mount.ts';
import { KINDS, RESOURCES } from '../kinds.ts';
import { pki } from './subject.ts';

/** Certificates and their authorities on a real API server, with their reconcilers, over REST and with kubectl. */
const cluster = await startTestCluster();
const { namespace } = cluster;
const kube = await kubeFromFile(inject('kubeconfig'));
afterAll(() => kube.close());
await applyPolicies(kube, namespace, ['skerry-in-use', 'skerry-system-authorities', 'skerry-used-by-system']);
const replica = await cluster.startReplica();
cluster.reconcile(replica, (deps) => [
  ...Object.values(pki.reconcilers(deps).ofKinds),
  createCoreObjectController(deps, 'secrets'),
  createVolumeMountController(deps),
]);
const clients = Object.fromEntries(
  await Promise.all(ROLE_NAMES.map(async (role) => [role, replica.client.as(await cluster.token(role))] as const)),
) as Record<RoleName, typeof replica.client>;
const { admin } = clients;
const timeout = 30_000;

const CA = { name: 'plant', type: 'self-signed', subject: 'Plant 3', expiration: 36 };
const direct = (secretName: string) => ({ type: 'direct', secretName });
const certificate = (name: string, more: object = {}) => ({
  ...{ name, subject: name, hosts: `${name}.example,10.0.0.5`, expiration: 12, ca: direct('plant') },
  ...more,
});
type Plural = 'certificates' | 'certificateAuthorities';
const ref = (name: string) => ({ namespace, name });
const find = (plural: Plural, name: string) =>
  cluster.kube.find(KINDS[plural].resource as (typeof KINDS)['certificates']['resource'], ref(name)) as Promise<
    Certificate | undefined
  >;
const secretOf = (name: string) => cluster.kube.find<Secret>(RESOURCES.secrets, ref(name));
const readyOf = async (plural: Plural, name: string) =>
  (await find(plural, name))?.status?.conditions?.find(({ type }) => type === 'Ready');
const untilReady = (plural: Plural, name: string) =>
  waitFor(async () => (await readyOf(plural, name))?.status === 'True', { what: `${plural} ${name}` });
const base64 = (text: string) => Buffer.from(text).toString('base64');
const kindOf = (plural: Plural) => KINDS[plural].definition.kind;
const document = (plural: Plural, { name, ...spec }: { name?: string; [member: string]: unknown }) => ({
  ...{ apiVersion: API_VERSION, kind: kindOf(plural) },
  ...{ metadata: { name, namespace }, spec },
});
const upload = (object: object) => ({ form: { part: 'certificate', text: JSON.stringify(object) } });
const pathOf = (plural: Plural) => `/apis/${API_VERSION}/namespaces/${namespace}/${KINDS[plural].definition.plural}`;
/** `created`, or the refusal of the API server. */
const kubectl = (plural: Plural, body: { name: string }) =>
  kube.request('POST', `${pathOf(plural)}?fieldValidation=Strict`, document(plural, body)).then(
    () => 'created',
    (error: Error) => error.message,
  );
const remove = (plural: Plural, name: string) => cluster.kube.delete(KINDS[plural].resource as never, ref(name));
/** `allowed`, or the refusal of the API server to delete an object. */
const deletion = (plural: Plural, name: string) => verdict(kube, 'DELETE', `${pathOf(plural)}/${name}`);

async function made(path: string, json: object) {
  const { status, body } = await admin.post(path, { json });
  expect(status, JSON.stringify(body)).toBe(201);
  return body;
}
async function issued(name: string, more: object = {}) {
  await made('/certificates', certificate(name, more));
  await untilReady('certificates', name);
}

/** Keys of another owner, in shareable Secrets unless the name says otherwise. */
async function makeSecrets() {
  const own = makeCertificate(temporaryFolder(), ['own.example']);
  const { readFileSync } = await import('node:fs');
  const leaf = { 'tls.crt': readFileSync(own.cert, 'utf8'), 'tls.key': readFileSync(own.key, 'utf8') };
  await untilReady('certificateAuthorities', 'plant');
  const keys = await secretOf('skerry-ca-plant');
  const of = (key: string) => Buffer.from(keys?.data?.[key] ?? '', 'base64').toString();
  const authority = { 'tls.crt': of('tls.crt'), 'tls.key': of('tls.key') };
  const all: Record<string, Record<string, string>> = {
    'company-keys': authority,
    'private-keys': authority,
    'other-key': { ...authority, 'tls.key': leaf['tls.key'] },
    'no-authority': leaf,
    'no-pem': { 'tls.crt': 'x', 'tls.key': 'y' },
  };
  for (const [name, texts] of Object.entries(all)) {
    const labels: Record<string, string> = name === 'private-keys' ? {} : { [LABELS.shareable]: 'true' };
    const data = Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, base64(text)]));
    const metadata = { ...ref(name), labels };
    await cluster.kube.create(RESOURCES.secrets, { apiVersion: 'v1', kind: 'Secret', metadata, data });
  }
  await waitFor(async () => replica.stores.secrets.get(namespace, 'no-pem'), { what: 'the Secrets' });
}

beforeAll(async () => {
  await made('/certificates/ca', CA);
  await makeSecrets();
});

describe('a certificate over REST', () => {
  test('has the dates, the names and the chain of the certificate itself', async () => {
    const created = await made('/certificates', certificate('pump'));
    await untilReady('certificates', 'pump');
    const { status, body } = await admin.get('/certificates/pump');
    expect(status).toBe(200);
    const read = new X509Certificate(body.data.certificate);
    const [from, to] = [read.validFromDate, read.validToDate].map((at) => at.toISOString().replace('.000Z', 'Z'));
    expect(body).toMatchObject({
      ...{ name: 'pump', subject: 'pump', hosts: 'pump.example,10.0.0.5', is_ca: false, ca_name: 'plant' },
      ...{ valid_from: from, valid_to: to, is_expired: false, serial_number: read.serialNumber.toLowerCase() },
    });
    expect(created).toMatchObject({ valid_from: from, valid_to: to, uuid: body.uuid });
    expect(body.certificate_chain.map(({ subject }: { subject: string }) => subject)).toEqual(['pump', 'Plant 3']);
    expect(read.subjectAltName).toMatch(/DNS:10\.0\.0\.5.*IP Address:10\.0\.0\.5/);
    const ca = new X509Certificate(body.data.ca);
    expect(read.verify(ca.publicKey)).toBe(true);
  });

  test('is listed without data, and among those that end within some days', async () => {
    await issued('short', { expiration: 10 * 86_400_000 });
    const { body } = await admin.get('/certificates');
    expect(body.certificates.map(({ name }: { name: string }) => name)).toEqual(expect.arrayContaining(['short']));
    expect(JSON.stringify(body)).not.toMatch(/BEGIN|private_key/);
    const names = async (query: string) =>
      (await admin.get(`/certificates/expiring${query}`)).body.certificates.map(({ name }: { name: string }) => name);
    expect(await names('')).toEqual(['short']);
    expect(await names('?days=9')).toEqual([]);
    expect(await names('?days=4000')).toEqual(expect.arrayContaining(['short', 'pump']));
    for (const days of ['x', '-1', '1.5'])
      expect((await admin.get(`/certificates/expiring?days=${days}`)).status).toBe(400);
  });

  test('is renewed with a new key; the reply has the dates of the next certificate', async () => {
    await issued('renewed');
    const before = (await admin.get('/certificates/renewed')).body;
    const { status, body } = await admin.post('/certificates/renewed/renew');
    expect(status).toBe(200);
    const serial = async () => (await admin.get('/certificates/renewed')).body.serial_number;
    await expect.poll(serial, { timeout }).not.toBe(before.serial_number);
    const after = (await admin.get('/certificates/renewed')).body;
    expect(after).toMatchObject({ valid_from: body.valid_from, valid_to: body.valid_to, hosts: before.hosts });
    expect(after.data.private_key).not.toBe(before.data.private_key);
    expect((await admin.post('/certificates/none/renew')).status).toBe(404);
  });

  test('is changed in part, and gets another key for other hosts', async () => {
    await issued('changed');
    const before = (await admin.get('/certificates/changed')).body;
    const { status, body } = await admin.patch('/certificates/changed', { json: { hosts: 'other.example' } });
    expect([status, body.hosts, body.subject]).toEqual([200, 'other.example', 'changed']);
    const sans = async () =>
      new X509Certificate((await admin.get('/certificates/changed')).body.data.certificate).subjectAltName;
    await expect.poll(sans, { timeout }).toBe('DNS:other.example');
    expect((await admin.get('/certificates/changed')).body.data.private_key).not.toBe(before.data.private_key);
  });

  test('comes from a file, as does an authority, and is changed by one', async () => {
    const spec = { subject: 'mail', hosts: 'mail.local', ca: direct('plant') };
    const fromFile = await admin.post(
      '/certificates/yaml',
      upload(document('certificates', { name: 'mail', ...spec })),
    );
    expect([fromFile.status, fromFile.body.ca_name]).toEqual([201, 'plant']);
    const authority = document('certificateAuthorities', { name: 'file-ca', subject: 'From a file' });
    const made = await admin.post('/certificates/yaml', upload(authority));
    expect([made.status, made.body.is_ca, made.body.subject]).toEqual([201, true, 'From a file']);
    const changed = document('certificates', { name: 'mail', ...spec, subject: 'post' });
    expect((await admin.patch('/certificates/yaml/mail', upload(changed))).body.subject).toBe('post');
    // Another name than the path has, another kind, and none.
    for (const [path, body] of [
      ['/certificates/yaml/pump', changed],
      ['/certificates/yaml/mail', { ...authority, metadata: { name: 'mail' } }],
      ['/certificates/yaml/mail', { metadata: { name: 'mail' }, spec }],
    ] as const)
      expect([path, (await admin.patch(path, upload(body))).status]).toEqual([path, 400]);
    expect((await admin.post('/certificates/yaml', upload({ kind: 'Secret', metadata: { name: 'x' } }))).status).toBe(
      400,
    );
  });
});

describe('an authority over REST', () => {
  test('is read, listed and changed', async () => {
    await made('/certificates/ca', { ...CA, name: 'other-ca', keyAlgorithm: 'RSA' });
    await untilReady('certificateAuthorities', 'other-ca');
    const { body } = await admin.get('/certificates/ca/other-ca');
    const read = new X509Certificate(body.data.certificate);
    expect([read.ca, read.publicKey.asymmetricKeyDetails?.modulusLength]).toEqual([true, 2_048]);
    expect(body).toMatchObject({ name: 'other-ca', type: 'self-signed', is_ca: true, subject: 'Plant 3' });
    const { cas } = (await admin.get('/certificates/ca')).body;
    expect(cas.map(({ name }: { name: string }) => name)).toEqual(expect.arrayContaining(['plant', 'other-ca']));
    const changed = await admin.patch('/certificates/ca/other-ca', { json: { subject: 'Plant 4' } });
    expect([changed.status, changed.body.subject]).toEqual([200, 'Plant 4']);
    expect((await admin.delete('/certificates/ca/other-ca')).status).toBe(200);
    expect((await admin.get('/certificates/ca/other-ca')).status).toBe(404);
  });

  test('with the key of another owner signs, and so does the Secret itself', async () => {
    await made('/certificates/ca', { name: 'company', ...direct('company-keys') });
    await untilReady('certificateAuthorities', 'company');
    await issued('by-company', { ca: { type: 'k8s-secret', secretName: 'company' } });
    await issued('by-secret', { ca: direct('company-keys') });
    for (const name of ['by-company', 'by-secret']) {
      const { body } = await admin.get(`/certificates/${name}`);
      expect(new X509Certificate(body.data.certificate).issuer).toBe('CN=Plant 3');
    }
  });

  test('cuts the life of what it signs to its own', async () => {
    await issued('cut', { expiration: 120 });
    const [own, authority] = [await admin.get('/certificates/cut'), await admin.get('/certificates/ca/plant')];
    expect(own.body.valid_to).toBe(authority.body.valid_to);
  });
});

/** Refused documents with status and code of REST, and with kubectl: the text of a refusal, or the reason of Ready=False. */
type Bad = readonly [what: string, body: object, status: number, code: string, kubectl: RegExp];
const [INVALID, NOT_READY] = ['VALIDATION_ERROR', /^AuthorityInvalid$/] as const;
const hosts = (count: number) => ({ hosts: Array.from({ length: count }, (_, i) => `h${i}.example`).join(',') });
const BAD_CERTIFICATES: readonly Bad[] = [
  ['an unknown authority', { ca: direct('none') }, 404, 'CA_NOT_FOUND', /^AuthorityNotFound$/],
  ['a Secret that is not shareable', { ca: direct('private-keys') }, 404, 'CA_NOT_FOUND', /^AuthorityNotFound$/],
  ['the Secret of an authority', { ca: direct('skerry-ca-plant') }, 404, 'CA_NOT_FOUND', /^AuthorityNotFound$/],
  ['a Secret without an authority', { ca: direct('no-authority') }, 400, 'INVALID_CA', NOT_READY],
  ['a key that does not fit its certificate', { ca: direct('other-key') }, 400, 'INVALID_CA', NOT_READY],
  ['no PEM', { ca: direct('no-pem') }, 400, 'INVALID_CA', NOT_READY],
  ...SYSTEM_AUTHORITIES.map(
    (name): Bad => [`the authority ${name}`, { ca: direct(name) }, 403, 'FORBIDDEN', /^AuthorityOfSystem$/],
  ),
  ['a URL as host', { hosts: 'https://a.example' }, 400, INVALID, /hosts/],
  ['a host in Unicode', { hosts: 'wärme.example' }, 400, INVALID, /hosts/],
  ['a line break in a host', { hosts: 'a\nb.example' }, 400, INVALID, /hosts/],
  ['an address that is none', { hosts: '10.0.0.256' }, 400, INVALID, /^HostInvalid$/],
  ['an IPv6 address that is none', { hosts: '2001:db8::5::1' }, 400, INVALID, /^HostInvalid$/],
  ['101 hosts', hosts(101), 400, INVALID, /^HostInvalid$/],
  ['10,000 hosts', hosts(10_000), 400, INVALID, /hosts/],
  ['a subject that turns the direction of text', { subject: 'a\u202eb' }, 400, INVALID, /subject/],
  ['a life of less than an hour', { expiration: 3_599_999 }, 400, INVALID, /^ExpirationInvalid$/],
  ['no life', { expiration: 0 }, 400, INVALID, /expiration/],
  ['an unknown member', { dnsNames: ['a'] }, 400, INVALID, /dnsNames/],
  ['an unknown member of ca', { ca: { ...direct('plant'), key: 'x' } }, 400, INVALID, /key/],
];
const BAD_AUTHORITIES: readonly Bad[] = [
  ['an unknown type', { type: 'acme' }, 400, INVALID, /type/],
  ['a Secret that does not exist', direct('none'), 404, 'SECRET_NOT_FOUND', /^SecretNotFound$/],
  ['a Secret that is not shareable', direct('private-keys'), 404, 'SECRET_NOT_FOUND', /^SecretNotFound$/],
  ['the key of another certificate', direct('other-key'), 400, 'INVALID_CA', NOT_READY],
  ['no Secret', { type: 'direct' }, 400, INVALID, /secretName/],
  ['an unknown member', { validity: 3 }, 400, INVALID, /validity/],
];
const BAD = [
  ...BAD_CERTIFICATES.map((row) => ['certificates', ...row] as const),
  ...BAD_AUTHORITIES.map((row) => ['certificateAuthorities', ...row] as const),
];

describe.each(BAD)('in %s, %s', (plural, _, body, status, code, reason) => {
  const name = () => `bad-${Math.random().toString(36).slice(2, 10)}`;
  const whole = (name: string) => (plural === 'certificates' ? certificate(name, body) : { name, ...body });
  const path = plural === 'certificates' ? '/certificates' : '/certificates/ca';

  test('a body and a file over REST are refused', async () => {
    const json = whole(name());
    expect(await admin.post(path, { json })).toMatchObject({ status, body: { code } });
    expect(await admin.post('/certificates/yaml', upload(document(plural, json)))).toMatchObject({
      status,
      body: { code },
    });
  });

  test('kubectl is refused, or the object is not ready for the same reason and gets no Secret', async () => {
    const one = whole(name());
    const answer = await kubectl(plural, one);
    if (answer !== 'created') return expect(answer).toMatch(reason);
    await expect
      .poll(() => readyOf(plural, one.name), { timeout })
      .toMatchObject({ status: 'False', reason: expect.stringMatching(reason) });
    expect(await secretOf(plural === 'certificates' ? one.name : `skerry-ca-${one.name}`)).toBeUndefined();
    await remove(plural, one.name);
  });
});

describe('a name', () => {
  test('a taken name gets 409, at both kinds', async () => {
    await issued('taken');
    for (const [path, json] of [
      ['/certificates', certificate('taken')],
      ['/certificates/ca', CA],
    ] as const)
      expect(await admin.post(path, { json })).toMatchObject({ status: 409, body: { code: 'DUPLICATE_NAME' } });
  });

  test.each(['Pump', 'a.b', '', 'a'.repeat(64), '../x', 'ä'])('%j is refused with 400', async (name) => {
    expect((await admin.post('/certificates', { json: certificate(name) })).status).toBe(400);
    expect((await admin.post('/certificates/ca', { json: { ...CA, name } })).status).toBe(400);
  });

  test('a Secret of the name that belongs to something else is not overwritten', async () => {
    await admin.post('/secrets', { json: { name: 'mine', type: 'Opaque', data: { a: 'b' } } });
    await made('/certificates', certificate('mine'));
    await expect.poll(() => readyOf('certificates', 'mine'), { timeout }).toMatchObject({ reason: 'SecretTaken' });
    expect((await secretOf('mine'))?.data).toEqual({ a: base64('b') });
    // Neither its data nor the Secret itself is the certificate's.
    expect((await admin.get('/certificates/mine')).body).not.toHaveProperty('data');
    expect((await admin.delete('/certificates/mine')).status).toBe(200);
    expect((await secretOf('mine'))?.data).toEqual({ a: base64('b') });
  });
});

describe('who may', () => {
  const EVERY = ['admin', 'sre', 'developer', 'viewer'] as const;
  const WRITERS = ['admin', 'sre', 'developer'] as const;
  const status = async (role: RoleName, method: string, path: string, options: object = {}) =>
    (await clients[role].request(method, path, options)).status;
  beforeAll(() => issued('guarded'));

  test.each(EVERY)('%s reads certificates, and a private key with the permission alone', async (role) => {
    for (const path of ['/certificates', '/certificates/ca', '/certificates/expiring'])
      expect([path, await status(role, 'GET', path)]).toEqual([path, 200]);
    for (const path of ['/certificates/guarded', '/certificates/ca/plant']) {
      const { body } = await clients[role].get(path);
      expect(body.data.certificate).toContain('BEGIN CERTIFICATE');
      const mayRead = role === 'admin' || role === 'sre';
      expect([path, 'private_key' in body.data, JSON.stringify(body).includes('PRIVATE')]).toEqual([
        path,
        mayRead,
        mayRead,
      ]);
    }
    // The same key by another way: the Secret.
    expect(await status(role, 'GET', '/secrets/guarded')).toBe(role === 'admin' || role === 'sre' ? 200 : 403);
  });

  test.each(EVERY)('%s writes as the table of roles says', async (role) => {
    const allowed = (WRITERS as readonly string[]).includes(role);
    const name = `by-${role}`;
    const is = (expected: number) => (allowed ? expected : 403);
    expect(await status(role, 'POST', '/certificates/ca', { json: { name: `${name}-ca` } })).toBe(is(201));
    expect(await status(role, 'POST', '/certificates', { json: certificate(name) })).toBe(is(201));
    expect(
      await status(role, 'POST', '/certificates/yaml', upload(document('certificates', certificate(`${name}-2`)))),
    ).toBe(is(201));
    const target = allowed ? name : 'guarded';
    const changed = await clients[role].patch(`/certificates/${target}`, { json: { subject: 'x' } });
    expect(changed.status).toBe(is(200));
    // No reply of a write shows a key to whom a read does not.
    expect(JSON.stringify(changed.body)).not.toContain(role === 'developer' ? 'PRIVATE' : '\u0000');
    expect(await status(role, 'POST', `/certificates/${target}/renew`)).toBe(is(200));
    expect(await status(role, 'DELETE', `/certificates/${target}`)).toBe(is(200));
    expect(await status(role, 'DELETE', `/certificates/ca/${allowed ? `${name}-ca` : 'plant'}`)).toBe(is(200));
  });

  test('kubectl of a developer neither creates, changes nor deletes an authority of the system', async () => {
    const name = SYSTEM_AUTHORITIES[2] as string;
    const by = await clientOf(kube, cluster, 'developer');
    const path = `${pathOf('certificateAuthorities')}/${name}`;
    const create = () =>
      verdict(by, 'POST', pathOf('certificateAuthorities'), document('certificateAuthorities', { name }));
    try {
      await expect.poll(create, { timeout }).toContain('belongs to the system');
      await kubectl('certificateAuthorities', { name });
      const spec = direct('company-keys');
      expect(await verdict(by, 'PATCH', path, { spec }, MERGE)).toContain('belongs to the system');
      expect(await verdict(by, 'DELETE', path)).toContain('belongs to the system');
      // Nor do the roles let anybody but the controller near core Secrets.
      const secret = `/api/v1/namespaces/${namespace}/secrets/skerry-ca-${name}`;
      expect(await verdict(by, 'DELETE', secret)).toContain('forbidden');
    } finally {
      by.close();
    }
  });

  test('a developer neither creates, changes nor deletes an authority of the system, in any way', async () => {
    const name = SYSTEM_AUTHORITIES[1] as string;
    const { developer } = clients;
    const json = { name, subject: 'mine' };
    expect((await developer.post('/certificates/ca', { json })).status).toBe(403);
    expect((await developer.post('/certificates/yaml', upload(document('certificateAuthorities', json)))).status).toBe(
      403,
    );
    await made('/certificates/ca', json);
    await untilReady('certificateAuthorities', name);
    expect((await developer.patch(`/certificates/ca/${name}`, { json: { subject: 'other' } })).status).toBe(403);
    expect((await developer.delete(`/certificates/ca/${name}`)).status).toBe(403);
    expect((await developer.get(`/certificates/ca/${name}`)).body.data).not.toHaveProperty('private_key');
    // Neither by the Secret of its key, nor by an authority of another name that takes that Secret.
    const secret = `skerry-ca-${name}`;
    expect(await developer.post('/certificates/ca', { json: { name: 'sly', ...direct(secret) } })).toMatchObject({
      ...{ status: 404, body: { code: 'SECRET_NOT_FOUND' } },
    });
    const path = `/secrets/${secret}`;
    expect((await admin.get(path)).status).toBe(404);
    expect((await developer.patch(path, { json: { data: {} } })).status).toBe(404);
    expect((await developer.delete(path)).status).toBe(404);
    // A Secret of that name is another object.
    expect(
      (await developer.post('/secrets', { json: { name: secret, type: 'Opaque', data: { a: 'b' } } })).status,
    ).toBe(201);
    expect((await developer.delete(path)).status).toBe(200);
    // A certificate of that name would have a shareable Secret of it.
    expect(await developer.post('/certificates', { json: certificate(secret) })).toMatchObject({
      ...{ status: 400, body: { message: expect.stringContaining('name for Secrets of the system') } },
    });
    await kubectl('certificates', certificate(secret));
    await expect.poll(() => readyOf('certificates', secret), { timeout }).toMatchObject({ reason: 'NameReserved' });
    expect((await secretOf(secret))?.metadata.labels).not.toHaveProperty([LABELS.shareable]);
  });
});

describe('the certificate of the controller', () => {
  const name = CONTROLLER_CERTIFICATE;
  const own = certificate(name, { ca: direct(CONTROLLER_AUTHORITY) });
  beforeAll(async () => {
    await made('/certificates/ca', { name: CONTROLLER_AUTHORITY });
    const refused = { status: 403, body: { message: expect.stringContaining('belongs to the system') } };
    expect(await clients.developer.post('/certificates', { json: own })).toMatchObject(refused);
    const file = upload(document('certificates', own));
    expect(await clients.developer.post('/certificates/yaml', file)).toMatchObject(refused);
    await made('/certificates', own);
    await untilReady('certificates', name);
  });

  test('is changed, renewed and deleted over REST by no developer', async () => {
    const { developer } = clients;
    const refused = { status: 403, body: { message: expect.stringContaining('belongs to the system') } };
    expect(await developer.patch(`/certificates/${name}`, { json: { subject: 'x' } })).toMatchObject(refused);
    expect(await developer.post(`/certificates/${name}/renew`)).toMatchObject(refused);
    expect(await developer.delete(`/certificates/${name}`)).toMatchObject(refused);
    expect((await developer.get(`/certificates/${name}`)).body.data).not.toHaveProperty('private_key');
    expect((await admin.post(`/certificates/${name}/renew`)).status).toBe(200);
  });

  test('is created, changed and deleted with kubectl by no developer', async () => {
    const by = await clientOf(kube, cluster, 'developer');
    const path = `${pathOf('certificates')}/${name}`;
    try {
      await expect
        .poll(() => verdict(by, 'PATCH', path, { spec: { hosts: 'evil.example' } }, MERGE), { timeout })
        .toContain('belongs to the system');
      expect(await verdict(by, 'DELETE', path)).toContain('belongs to the system');
      expect(await verdict(by, 'POST', pathOf('certificates'), document('certificates', own))).toContain(
        'belongs to the system',
      );
    } finally {
      by.close();
    }
  });

  test('has a key that no developer gets by a microservice', async () => {
    const { developer } = clients;
    expect((await developer.post('/volumeMounts', { json: { name: 'sly', secretName: name } })).status).toBe(404);
    // An admin reads Secrets that microservices can use, and this is none.
    expect((await admin.get(`/secrets/${name}`)).status).toBe(404);
    expect((await secretOf(name))?.metadata.labels).not.toHaveProperty([LABELS.shareable]);
  });
});

describe('deletion', () => {
  const secrets = () => replica.stores.secrets;
  const application = async (name: string, more: object) => {
    const entry = { name: 'web', agentName: 'gw', images: [{ containerImage: 'a:1', archId: 1 }], ...more };
    const { status, body } = await admin.post('/application', { json: { name, microservices: [entry] } });
    expect(status, JSON.stringify(body)).toBe(201);
  };
  const variable = (secret: string) => ({ env: [{ key: 'CA', valueFromSecret: `${secret}/ca.crt` }] });
  const mounted = (mount: string) => ({
    volumeMappings: [
      { hostDestination: mount, containerDestination: '/etc/tls', accessMode: 'ro', type: 'volumeMount' },
    ],
  });
  /** The store of a replica may show its last certificate a moment longer. */
  const removeAuthority = (name: string) =>
    expect.poll(async () => (await admin.delete(`/certificates/ca/${name}`)).status, { timeout }).toBe(200);
  const inUse = (name: string) =>
    expect.poll(() => secrets().get(namespace, name)?.metadata.labels?.[LABELS.inUse], { timeout }).toBe('true');

  beforeAll(async () => {
    expect((await admin.post('/node', { json: { name: 'gw', archId: 1 } })).status).toBe(201);
  });

  test('an authority in use is not deleted; the messages of REST and kubectl have its users', async () => {
    await made('/certificates/ca', { name: 'used-ca' });
    await issued('user-of-ca', { ca: direct('used-ca') });
    expect(await admin.delete('/certificates/ca/used-ca')).toMatchObject({
      status: 400,
      body: { code: 'CA_IN_USE', message: 'certificate authority used-ca is used by certificate user-of-ca' },
    });
    await expect
      .poll(() => deletion('certificateAuthorities', 'used-ca'), { timeout })
      .toContain('certificate user-of-ca');
    expect((await admin.delete('/certificates/user-of-ca')).status).toBe(200);
    await removeAuthority('used-ca');
  });

  test('a Secret with the key of an authority is not deleted while the authority exists', async () => {
    await made('/certificates/ca', { name: 'owned-ca', ...direct('company-keys') });
    expect(await admin.delete('/secrets/company-keys')).toMatchObject({ status: 409, body: { code: 'SECRET_IN_USE' } });
    await inUse('company-keys');
    const path = `/api/v1/namespaces/${namespace}/secrets/company-keys`;
    expect(await verdict(kube, 'DELETE', path)).toContain('certificate authority owned-ca');
  });

  test.each([
    ['a variable', async () => variable('used-1'), 'used-1'],
    [
      'a volume mount',
      async () => {
        expect((await admin.post('/volumeMounts', { json: { name: 'used-2', secretName: 'used-2' } })).status).toBe(
          200,
        );
        return mounted('used-2');
      },
      'used-2',
    ],
  ])('a certificate whose Secret a microservice uses by %s is deleted in no way', async (_, use, name) => {
    await issued(name);
    await expect.poll(() => secrets().get(namespace, name), { timeout }).toBeDefined();
    await application(`app-${name}`, await use());
    await inUse(name);
    const message = `certificate ${name} is used by app-${name}/web`;
    expect(await admin.delete(`/certificates/${name}`)).toMatchObject({
      status: 409,
      body: { code: 'CERTIFICATE_IN_USE', message },
    });
    expect(await admin.delete(`/secrets/${name}`)).toMatchObject({ status: 409, body: { code: 'SECRET_IN_USE' } });
    await expect.poll(() => deletion('certificates', name), { timeout }).toContain(message);
    expect(await secretOf(name)).toBeDefined();
    expect((await admin.delete(`/application/app-${name}`)).status).toBe(204);
    await expect.poll(async () => (await admin.delete(`/certificates/${name}`)).status, { timeout }).toBe(200);
    await expect.poll(() => secretOf(name), { timeout }).toBeUndefined();
    // What was made of its Secret went with it.
    expect((await admin.get(`/volumeMounts/${name}`)).status).toBe(404);
  });

  test('a certificate whose Secret a microservice of the system uses is changed, renewed and deleted by no developer', async () => {
    const name = 'of-system';
    await issued(name);
    await expect.poll(() => secrets().get(namespace, name), { timeout }).toBeDefined();
    const entry = { name: 'web', agent: { name: 'gw' }, images: { amd64: 'a:1' }, container: variable(name) };
    await cluster.kube.create(KINDS.applications.resource, {
      ...{ apiVersion: API_VERSION, kind: 'Application', metadata: { name: 'system-plant', namespace } },
      spec: { isSystem: true, microservices: [entry] },
    } as never);
    const { developer } = clients;
    const refused = { status: 403, body: { message: expect.stringContaining('"system-plant" of the system uses it') } };
    await expect
      .poll(() => developer.patch(`/certificates/${name}`, { json: { subject: 'x' } }), { timeout })
      .toMatchObject(refused);
    expect(await developer.post(`/certificates/${name}/renew`)).toMatchObject(refused);
    expect(await developer.delete(`/certificates/${name}`)).toMatchObject(refused);
    expect(await developer.delete(`/secrets/${name}`)).toMatchObject(refused);
    const by = await clientOf(kube, cluster, 'developer');
    try {
      const path = `${pathOf('certificates')}/${name}`;
      await expect
        .poll(() => verdict(by, 'PATCH', path, { spec: { subject: 'x' } }, MERGE), { timeout })
        .toContain('applications of the system use it');
      // Two policies refuse it, and the API server names one of them.
      expect(await verdict(by, 'DELETE', path)).toMatch(/of the system|is used by system-plant\/web/);
    } finally {
      by.close();
    }
    expect((await find('certificates', name))?.spec.subject).toBe(name);
    expect((await admin.patch(`/certificates/${name}`, { json: { subject: 'x' } })).status).toBe(200);
    expect(await admin.delete(`/certificates/${name}`)).toMatchObject({
      status: 409,
      body: { code: 'CERTIFICATE_IN_USE', message: expect.stringContaining('system-plant/web') },
    });
    await cluster.kube.delete(KINDS.applications.resource as never, ref('system-plant'));
  });

  test('a certificate with the name of its authority can be deleted', async () => {
    await made('/certificates/ca', { name: 'same' });
    await issued('same', { ca: direct('same') });
    await expect.poll(() => secrets().get(namespace, 'same'), { timeout }).toBeDefined();
    expect(await admin.delete('/certificates/same')).toMatchObject({ status: 200 });
    await removeAuthority('same');
  });

  test('a later certificate or authority of the same name gets another key', async () => {
    const keyOf = async (name: string) => {
      const { data } = (await admin.get(`/certificates/${name}`)).body;
      return [data.private_key, data.ca];
    };
    await made('/certificates/ca', { name: 'again-ca' });
    await issued('again', { ca: direct('again-ca') });
    const before = await keyOf('again');
    expect((await admin.delete('/certificates/again')).status).toBe(200);
    await removeAuthority('again-ca');
    await made('/certificates/ca', { name: 'again-ca' });
    await issued('again', { ca: direct('again-ca') });
    const after = await keyOf('again');
    expect(after[0]).not.toBe(before[0]);
    expect(after[1]).not.toBe(before[1]);
  });

  test('DELETE of the Secret over REST deletes the certificate', async () => {
    await issued('by-its-secret');
    await expect.poll(() => secrets().get(namespace, 'by-its-secret'), { timeout }).toBeDefined();
    expect((await admin.delete('/secrets/by-its-secret')).status).toBe(200);
    expect((await admin.get('/certificates/by-its-secret')).status).toBe(404);
    expect(await find('certificates', 'by-its-secret')).toBeUndefined();
    expect(await secretOf('by-its-secret')).toBeUndefined();
    expect((await admin.delete('/secrets/by-its-secret')).status).toBe(404);
  });

  test('DELETE of the Secret over REST is refused to callers that may delete secrets alone', async () => {
    await issued('kept');
    await expect.poll(() => secrets().get(namespace, 'kept'), { timeout }).toBeDefined();
    const api = { apiVersion: 'rbac.authorization.k8s.io/v1' };
    const rules = [{ apiGroups: ['skerry.dev'], resources: ['secrets'], verbs: ['get', 'delete'] }];
    await kube.apply({ ...api, kind: 'Role', metadata: { name: 'secrets-alone', namespace }, rules });
    await kube.apply({
      ...{ ...api, kind: 'RoleBinding', metadata: { name: 'secrets-alone', namespace } },
      subjects: [{ kind: 'ServiceAccount', name: 'nobody', namespace }],
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'secrets-alone' },
    });
    const nobody = replica.client.as(await cluster.token('nobody'));
    expect(await nobody.delete('/secrets/kept')).toMatchObject({
      status: 403,
      body: { message: expect.stringContaining('certificate "kept"') },
    });
    expect(await secretOf('kept')).toBeDefined();
    expect(await find('certificates', 'kept')).toBeDefined();
  });

  test('a Secret that kubectl deletes is made anew', async () => {
    await issued('remade');
    const before = (await secretOf('remade'))?.metadata.uid;
    await cluster.kube.delete(RESOURCES.secrets, ref('remade'));
    await expect.poll(async () => (await secretOf('remade'))?.metadata.uid, { timeout }).toMatch(/./);
    expect((await secretOf('remade'))?.metadata.uid).not.toBe(before);
  });
});

test('the Secret of a certificate is not changed over REST', async () => {
  await issued('fixed');
  await expect.poll(() => replica.stores.secrets.get(namespace, 'fixed'), { timeout }).toBeDefined();
  const before = (await secretOf('fixed'))?.data;
  const data = { 'tls.crt': base64('x'), 'tls.key': base64('y') };
  expect(await admin.patch('/secrets/fixed', { json: { data } })).toMatchObject({
    status: 409,
    body: { code: 'SECRET_OF_CERTIFICATE', message: expect.stringContaining('certificate "fixed"') },
  });
  expect((await secretOf('fixed'))?.data).toEqual(before);
});
