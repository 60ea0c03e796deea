import { X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { ANNOTATIONS, API_VERSION, CONTROLLER_AUTHORITY, CONTROLLER_CERTIFICATE, LABELS } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import type { Certificate } from '../../../api/v3/certificate.ts';
import { decodeData } from '../../../datastore/keyed-text.ts';
import { KINDS } from '../../kinds.ts';
import { isSignedBy, readCertificates } from '../rules/pair.ts';

/** Certificates and authorities over the whole controller in memory, whose clock a test moves. */
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const MONTH = 30.44 * DAY;
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1);
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

const secretOf = (name: string) =>
  fleet.stores.secrets.list().find(({ metadata }) => metadata.name === name) as Secret | undefined;
const textsOf = (name: string) => decodeData(secretOf(name)?.data);
const certificateIn = (name: string) => readCertificates(textsOf(name)['tls.crt'] ?? '')[0];
const trustedIn = (name: string) => readCertificates(textsOf(name)['ca.crt'] ?? '');
const objectOf = (name: string) => fleet.stores.certificates.list().find(({ metadata }) => metadata.name === name);
const readyOf = (name: string) =>
  (objectOf(name) as Certificate | undefined)?.status?.conditions?.find(({ type }) => type === 'Ready');

const AUTHORITY = { name: 'plant', type: 'self-signed', subject: 'Plant 3', expiration: 36 };
const PUMP = {
  name: 'pump',
  subject: 'pump',
  hosts: 'pump.example,10.0.0.5',
  expiration: 12,
  ca: { type: 'direct', secretName: 'plant' },
};

async function post(path: string, body: object, expected = 201) {
  const status = await fleet.rest('POST', path, body);
  expect([path, status]).toEqual([path, expected]);
  await fleet.settle();
}
const request = (method: string, path: string, body?: unknown) => fleet.request(method, path, { token: 'admin', body });

async function createBoth() {
  await post('/certificates/ca', AUTHORITY);
  await post('/certificates', PUMP);
}

/** Moves the clock, and lets the controller look at everything as it does every hour. */
async function pass(ms: number) {
  fleet.time.now += ms;
  await fleet.nextTerm();
}

describe('a certificate', () => {
  test('has a shareable Secret with its key, signed by its authority', async () => {
    await createBoth();
    const secret = secretOf('pump') as Secret;
    expect(secret.type).toBe('kubernetes.io/tls');
    expect(secret.metadata.labels).toMatchObject({ [LABELS.shareable]: 'true', [LABELS.certificate]: 'pump' });
    const [certificate, [authority]] = [certificateIn('pump'), trustedIn('pump')];
    expect(certificate).toMatchObject({ subject: 'pump', issuer: 'Plant 3', hosts: ['10.0.0.5', 'pump.example'] });
    expect(certificate && authority && isSignedBy(certificate, authority)).toBe(true);
    expect(readyOf('pump')).toMatchObject({ status: 'True', reason: 'Usable' });
    expect(objectOf('pump')?.status).toMatchObject({ secretName: 'pump', serialNumber: certificate?.serialNumber });
  });

  test('tells over REST when it ends before it is made, and ends then', async () => {
    await post('/certificates/ca', AUTHORITY);
    const { body } = await request('POST', '/certificates', PUMP);
    await fleet.settle();
    const end = new Date(certificateIn('pump')?.notAfter ?? 0).toISOString().replace('.000Z', 'Z');
    expect(body).toMatchObject({ valid_to: end, ca_name: 'plant', is_expired: false });
  });

  test('is renewed with a third of its life left: another key, the same names and life', async () => {
    await createBoth();
    const before = certificateIn('pump');
    await pass(7 * MONTH);
    expect(certificateIn('pump')).toEqual(before);
    await pass(1 * MONTH);
    const after = certificateIn('pump');
    expect(after?.keyId).not.toBe(before?.keyId);
    expect(after).toMatchObject({ subject: before?.subject, hosts: before?.hosts, algorithm: before?.algorithm });
    expect((after?.notAfter ?? 0) - (before?.notAfter ?? 0)).toBeGreaterThan(7.5 * MONTH);
  });

  test('is renewed at once for an order, and once', async () => {
    await createBoth();
    const before = certificateIn('pump');
    fleet.time.now += DAY;
    const { status, body } = await request('POST', '/certificates/pump/renew');
    await fleet.settle();
    const after = certificateIn('pump');
    expect(status).toBe(200);
    expect(body).toMatchObject({ name: 'pump', renewed: true });
    expect(Date.parse(String(body.valid_to))).toBe(after?.notAfter);
    expect(after?.fingerprint).not.toBe(before?.fingerprint);
    await pass(HOUR);
    expect(certificateIn('pump')).toEqual(after);
  });

  test('is renewed for an order whose time comes while its status is written', async () => {
    await createBoth();
    const before = certificateIn('pump');
    const orderedAt = Math.ceil(fleet.time.now / 1000) * 1000 + 1000;
    const client = fleet.cluster.client as unknown as Record<'patch' | 'replace', (...args: unknown[]) => unknown>;
    for (const verb of ['patch', 'replace'] as const) {
      const write = client[verb];
      onTestFinished(() => void Object.assign(client, { [verb]: write }));
      client[verb] = (...args) => {
        if ((args[0] as { plural: string }).plural === 'certificates') fleet.time.now = orderedAt + 1;
        return write.apply(client, args);
      };
    }
    fleet.cluster.edit(objectOf('pump') as Certificate, ({ metadata }) => {
      metadata.annotations = { ...metadata.annotations, [ANNOTATIONS.renew]: new Date(orderedAt).toISOString() };
    });
    await expect.poll(() => certificateIn('pump')?.fingerprint).not.toBe(before?.fingerprint);
  });

  test('is made anew when its Secret is deleted or spoiled', async () => {
    await createBoth();
    const before = certificateIn('pump');
    fleet.cluster.edit(secretOf('pump') as Secret, (secret) => {
      secret.data = { ...secret.data, 'tls.key': Buffer.from('no key').toString('base64') };
    });
    await fleet.settle();
    const after = certificateIn('pump');
    expect(after?.keyId).not.toBe(before?.keyId);
    expect(readyOf('pump')).toMatchObject({ status: 'True' });
  });

  test('leaves a Secret of its name alone that belongs to something else', async () => {
    await post('/secrets', { name: 'pump', type: 'Opaque', data: { a: 'b' } });
    await post('/certificates/ca', AUTHORITY);
    await post('/certificates', PUMP);
    expect(textsOf('pump')).toEqual({ a: 'b' });
    expect(readyOf('pump')).toMatchObject({ status: 'False', reason: 'SecretTaken' });
    // It takes the name as soon as that is free.
    expect((await request('DELETE', '/secrets/pump')).status).toBe(200);
    await fleet.settle();
    expect(readyOf('pump')).toMatchObject({ status: 'True' });
    expect(certificateIn('pump')?.subject).toBe('pump');
  });

  test('says how long it lasts when its authority does not exist any more', async () => {
    await createBoth();
    const authority = fleet.stores.certificateAuthorities.list().find(({ metadata }) => metadata.name === 'plant');
    if (authority) fleet.stores.certificateAuthorities.remove(authority);
    await pass(HOUR);
    expect(readyOf('pump')).toMatchObject({ status: 'False', reason: 'AuthorityNotFound' });
    expect(certificateIn('pump')).toBeDefined();
  });

  test('is not ready while its authority has no key, and says how long the present certificate lasts', async () => {
    await createBoth();
    const before = certificateIn('pump');
    // Something else has the name of the Secret in which the key of the authority belongs.
    fleet.cluster.edit(secretOf('skerry-ca-plant') as Secret, (secret) => {
      secret.metadata.labels = {};
    });
    await fleet.settle();
    expect(readyOf('pump')).toMatchObject({
      status: 'False',
      reason: 'AuthorityNotReady',
      message: expect.stringMatching(
        /^the authority "plant" has no key yet; the present certificate is valid until \d{4}-/,
      ),
    });
    expect(certificateIn('pump')).toEqual(before);
    fleet.cluster.edit(secretOf('skerry-ca-plant') as Secret, (secret) => {
      secret.metadata.labels = { [LABELS.authority]: 'plant' };
    });
    await fleet.settle();
    expect(readyOf('pump')).toMatchObject({ status: 'True' });
  });

  test('is not ready once it has expired, until its renewal is in the store', async () => {
    await createBoth();
    const before = certificateIn('pump');
    const client = fleet.cluster.client as { replace: (...args: unknown[]) => Promise<unknown> };
    const { replace } = client;
    // The API server takes the write, and its event is late.
    client.replace = (...args) => {
      const [resource, object] = args as [{ plural: string }, unknown];
      return resource.plural === 'secrets' ? Promise.resolve(object) : replace(...args);
    };
    onTestFinished(() => {
      client.replace = replace;
    });
    await pass(13 * MONTH);
    expect(readyOf('pump')).toMatchObject({
      status: 'False',
      reason: 'CertificateExpired',
      message: expect.stringMatching(/^its certificate expired at \d{4}-/),
    });
    client.replace = replace;
    await pass(HOUR);
    expect(readyOf('pump')).toMatchObject({ status: 'True' });
    expect(certificateIn('pump')?.fingerprint).not.toBe(before?.fingerprint);
  });

  test('for the controller alone has a Secret that no microservice can use', async () => {
    await post('/certificates/ca', { ...AUTHORITY, name: CONTROLLER_AUTHORITY });
    const ca = { type: 'direct', secretName: CONTROLLER_AUTHORITY };
    await post('/certificates', { ...PUMP, name: CONTROLLER_CERTIFICATE, ca });
    expect(readyOf(CONTROLLER_CERTIFICATE)).toMatchObject({ status: 'True' });
    expect(secretOf(CONTROLLER_CERTIFICATE)?.metadata.labels).not.toHaveProperty([LABELS.shareable]);
    expect((await request('GET', `/secrets/${CONTROLLER_CERTIFICATE}`)).status).toBe(404);
    await post('/volumeMounts', { name: 'steal', secretName: CONTROLLER_CERTIFICATE }, 404);
    // Nor when somebody with access to core Secrets shares it.
    fleet.cluster.edit(secretOf(CONTROLLER_CERTIFICATE) as Secret, ({ metadata }) => {
      metadata.labels = { ...metadata.labels, [LABELS.shareable]: 'true' };
    });
    await fleet.settle();
    expect(secretOf(CONTROLLER_CERTIFICATE)?.metadata.labels).not.toHaveProperty([LABELS.shareable]);
  });

  test('is not signed by an authority of the system', async () => {
    await post('/certificates/ca', { ...AUTHORITY, name: 'router-site-ca' });
    const ca = { type: 'direct', secretName: 'router-site-ca' } as const;
    await post('/certificates', { ...PUMP, ca }, 403);
    // Over kubectl nothing keeps it from being stored.
    const { name, ...spec } = { ...PUMP, ca };
    const metadata = { name, namespace: (fleet.node(0).metadata as { namespace: string }).namespace };
    await fleet.cluster.client.create(KINDS.certificates.resource, {
      ...{ apiVersion: API_VERSION, kind: 'Certificate', metadata },
      spec,
    });
    await fleet.settle();
    expect(readyOf('pump')).toMatchObject({ status: 'False', reason: 'AuthorityOfSystem' });
    expect(secretOf('pump')).toBeUndefined();
  });
});

describe('an authority', () => {
  test('has its key in a Secret that nobody can use', async () => {
    await post('/certificates/ca', AUTHORITY);
    const secret = secretOf('skerry-ca-plant') as Secret;
    expect(secret.metadata.labels?.[LABELS.shareable]).toBeUndefined();
    expect(new X509Certificate(textsOf('skerry-ca-plant')['tls.crt'] ?? '').ca).toBe(true);
    // Neither over REST nor by a reference.
    expect((await request('GET', '/secrets/skerry-ca-plant')).status).toBe(404);
    await post('/volumeMounts', { name: 'steal', secretName: 'skerry-ca-plant' }, 404);
  });

  test('is not deleted while a certificate names it', async () => {
    await createBoth();
    const { status, body } = await request('DELETE', '/certificates/ca/plant');
    expect([status, body.code]).toEqual([400, 'CA_IN_USE']);
    expect(body.message).toContain('certificate pump');
  });

  test('is trusted with its next key before that signs, and with its former one until it ends', async () => {
    await createBoth();
    await post('/certificates', { ...PUMP, name: 'valve', subject: 'valve', expiration: 6 });
    const [pump, former] = [certificateIn('pump'), trustedIn('pump')[0]];
    // Two thirds of 36 months: the pump was renewed on the way.
    await pass(8 * MONTH);
    await pass(8 * MONTH);
    await pass(8 * MONTH + HOUR);
    const next = certificateIn('skerry-ca-plant');
    expect(next?.fingerprint).not.toBe(former?.fingerprint);
    const renewed = certificateIn('pump');
    expect(renewed?.fingerprint).not.toBe(pump?.fingerprint);
    // The next certificate is everywhere, and nothing is signed by it.
    for (const name of ['pump', 'valve'])
      expect(trustedIn(name).map(({ fingerprint }) => fingerprint)).toEqual(
        expect.arrayContaining([next?.fingerprint, former?.fingerprint]),
      );
    expect(renewed && former && isSignedBy(renewed, former)).toBe(true);

    await pass(DAY + 3 * HOUR);
    for (const name of ['pump', 'valve']) {
      const certificate = certificateIn(name);
      expect(certificate && next && isSignedBy(certificate, next)).toBe(true);
      expect(trustedIn(name)).toHaveLength(2);
    }
    // The former key is no longer there once it does not sign.
    expect(textsOf('skerry-ca-plant')).not.toHaveProperty('former.key');

    await pass((former?.notAfter ?? 0) - fleet.time.now + HOUR);
    for (const name of ['pump', 'valve']) expect(trustedIn(name)).toHaveLength(1);
  });

  test('with a key of another owner follows the Secret of that owner', async () => {
    await post('/certificates/ca', AUTHORITY);
    const keys = textsOf('skerry-ca-plant');
    const pem = { 'tls.crt': keys['tls.crt'], 'tls.key': keys['tls.key'] };
    const base64 = (one: object) =>
      Object.fromEntries(Object.entries(one).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
    await post('/secrets', { name: 'company-keys', type: 'tls', data: base64(pem) });
    await post('/certificates/ca', { name: 'company', type: 'direct', secretName: 'company-keys' });
    await post('/certificates', { ...PUMP, ca: { type: 'k8s-secret', secretName: 'company' } });
    const [first] = trustedIn('pump');
    expect(first?.fingerprint).toBe(certificateIn('skerry-ca-plant')?.fingerprint);

    fleet.time.now += DAY;
    await request('PATCH', '/certificates/ca/plant', { subject: 'Plant 4' });
    await fleet.settle();
    const next = textsOf('skerry-ca-plant');
    const body = { data: base64({ 'tls.crt': next['tls.crt'], 'tls.key': next['tls.key'] }) };
    expect((await request('PATCH', '/secrets/company-keys', body)).status).toBe(200);
    await fleet.settle();
    expect(trustedIn('pump').map(({ subject }) => subject)).toEqual(['Plant 4', 'Plant 3']);
    await pass(3 * HOUR);
    expect(certificateIn('pump')?.issuer).toBe('Plant 4');
  });
});

test('the Secret of a restored backup, whose owner has another uid, is taken over', async () => {
  await createBoth();
  const before = certificateIn('pump');
  fleet.cluster.edit(secretOf('pump') as Secret, (secret) => {
    secret.metadata.ownerReferences = [];
  });
  await fleet.settle();
  expect(secretOf('pump')?.metadata.ownerReferences?.[0]?.uid).toBe(objectOf('pump')?.metadata.uid);
  expect(certificateIn('pump')).toEqual(before);
});

test('after the restore of a backup from before a renewal both kinds are whole, and the former authority stays trusted', async () => {
  await createBoth();
  const backup = ['pump', 'skerry-ca-plant'].map((name) => structuredClone(secretOf(name)?.data));
  const [former] = trustedIn('pump');
  await pass(25 * MONTH);
  expect(trustedIn('pump')).toHaveLength(2);
  for (const [i, name] of ['pump', 'skerry-ca-plant'].entries())
    fleet.cluster.edit(secretOf(name) as Secret, (secret) => {
      secret.data = backup[i] ?? {};
    });
  await pass(HOUR);
  const [pump, trusted] = [certificateIn('pump'), trustedIn('pump')];
  expect(trusted.map(({ fingerprint }) => fingerprint)).toContain(former?.fingerprint);
  expect(pump && trusted.some((authority) => isSignedBy(pump, authority))).toBe(true);
  expect(pump?.notAfter).toBeGreaterThan(fleet.time.now);
  expect(readyOf('pump')).toMatchObject({ status: 'True' });
});

describe('a wrong clock of the controller', () => {
  // The API server has the clock of the machine.
  beforeEach(() => {
    fleet.time.now = Date.now();
  });

  test('behind by decades changes no certificate, and makes none that has expired', async () => {
    await createBoth();
    const [before, present] = [certificateIn('pump'), fleet.time.now];
    fleet.time.now = Date.parse('1970-01-02T00:00:00Z');
    await fleet.nextTerm();
    await post('/certificates', { ...PUMP, name: 'valve', subject: 'valve' });
    fleet.time.now = present;
    await fleet.nextTerm();
    expect(certificateIn('pump')).toEqual(before);
    expect(certificateIn('valve')?.notAfter).toBeGreaterThan(present + 11 * MONTH);
  });

  test('once it was ahead: certificates that begin later than now are made anew, authorities as well', async () => {
    const present = fleet.time.now;
    fleet.time.now += 400 * DAY;
    await createBoth();
    expect(certificateIn('pump')?.notBefore).toBeGreaterThan(present);
    fleet.time.now = present;
    await fleet.nextTerm();
    for (const name of ['pump', 'skerry-ca-plant']) expect(certificateIn(name)?.notBefore).toBeLessThan(present);
    expect(readyOf('pump')).toMatchObject({ status: 'True' });
  });

  test.each([-HOUR, HOUR])('off by %i ms leaves certificates that are valid now', async (ms) => {
    const present = fleet.time.now;
    fleet.time.now += ms;
    await createBoth();
    fleet.time.now = present;
    expect(certificateIn('pump')?.notBefore).toBeLessThanOrEqual(present);
    expect(certificateIn('pump')?.notAfter).toBeGreaterThan(present);
  });
});

describe('an authority with another key', () => {
  const replaceKey = (name: string, key: string): Secret =>
    fleet.cluster.edit(secretOf(name) as Secret, (secret) => {
      secret.data = { ...secret.data, 'tls.key': Buffer.from(key).toString('base64') };
    });

  test('keeps the certificate of a lost key trusted', async () => {
    await createBoth();
    const former = trustedIn('pump')[0]?.fingerprint;
    replaceKey('skerry-ca-plant', 'no key');
    await fleet.settle();
    await pass(3 * HOUR);
    const [pump, trusted] = [certificateIn('pump'), trustedIn('pump')];
    expect(trusted.map(({ fingerprint }) => fingerprint)).toContain(former);
    expect(trusted).toHaveLength(2);
    expect(pump && trusted[0] && isSignedBy(pump, trusted[0])).toBe(true);
  });

  test('keeps the certificate of its former owner trusted', async () => {
    await post('/certificates/ca', AUTHORITY);
    const keys = Object.fromEntries(
      ['tls.crt', 'tls.key'].map((key) => [key, Buffer.from(textsOf('skerry-ca-plant')[key] ?? '').toString('base64')]),
    );
    await post('/secrets', { name: 'company-keys', type: 'tls', data: keys });
    await post('/certificates/ca', { name: 'company', type: 'direct', secretName: 'company-keys' });
    await post('/certificates', { ...PUMP, ca: { type: 'direct', secretName: 'company' } });
    const former = trustedIn('pump')[0]?.fingerprint;
    const { status } = await request('PATCH', '/certificates/ca/company', { type: 'self-signed', secretName: null });
    expect(status).toBe(200);
    await pass(3 * HOUR);
    await pass(DAY);
    expect(trustedIn('pump').map(({ fingerprint }) => fingerprint)).toContain(former);
    expect(trustedIn('pump')).toHaveLength(2);
  });
});

test('an expired authority signs nothing: REST says so with 400, at a creation, a change and a renewal', async () => {
  await createBoth();
  const keys = Object.fromEntries(
    ['tls.crt', 'tls.key'].map((key) => [key, Buffer.from(textsOf('skerry-ca-plant')[key] ?? '').toString('base64')]),
  );
  await post('/secrets', { name: 'company-keys', type: 'tls', data: keys });
  await post('/certificates/ca', { name: 'company', type: 'direct', secretName: 'company-keys' });
  const bodies = ['company', 'company-keys'].map((secretName) => ({ ...PUMP, ca: { type: 'direct', secretName } }));
  for (const [i, body] of bodies.entries()) await post('/certificates', { ...body, name: `by-${i}` });
  await pass(37 * MONTH);
  for (const [i, body] of bodies.entries()) {
    const expired = { status: 400, body: { code: 'CA_EXPIRED' } };
    expect(await request('POST', '/certificates', { ...body, name: `late-${i}` })).toMatchObject(expired);
    expect(await request('PATCH', `/certificates/by-${i}`, { subject: 'x' })).toMatchObject(expired);
    expect(await request('POST', `/certificates/by-${i}/renew`)).toMatchObject(expired);
    expect(readyOf(`by-${i}`)).toMatchObject({ status: 'False', reason: 'AuthorityExpired' });
  }
  expect(fleet.events).toContainEqual(expect.objectContaining({ of: 'Certificate by-0', reason: 'AuthorityExpired' }));
});

test('on control plane remote k8s-secret is refused over REST, and what kubectl creates with it signs nothing and says why', async () => {
  await using remote = await startInMemoryController(1, { env: { CONTROL_PLANE: 'remote' } });
  const send = async (method: string, path: string, body: object) => {
    const answer = await remote.request(method, path, { token: 'admin', body });
    await remote.settle();
    return answer;
  };
  const keys = async () => {
    await post('/certificates/ca', AUTHORITY);
    const [cert, key] = ['tls.crt', 'tls.key'].map((one) =>
      Buffer.from(textsOf('skerry-ca-plant')[one] ?? '').toString('base64'),
    );
    return { 'tls.crt': cert, 'tls.key': key };
  };
  expect((await send('POST', '/secrets', { name: 'company-keys', type: 'tls', data: await keys() })).status).toBe(201);
  const company = { name: 'company', type: 'k8s-secret', secretName: 'company-keys' };
  const refused = {
    status: 400,
    body: { code: 'VALIDATION_ERROR', message: expect.stringMatching(/^type: "k8s-secret"; /) },
  };
  expect(await send('POST', '/certificates/ca', company)).toMatchObject(refused);
  expect(await send('POST', '/certificates/ca', { ...company, secretName: 'nothing' })).toMatchObject(refused);
  expect((await send('POST', '/certificates/ca', { ...company, type: 'direct' })).status).toBe(201);
  expect(await send('PATCH', '/certificates/ca/company', { type: 'k8s-secret' })).toMatchObject(refused);

  const { resource } = remote.stores.certificateAuthorities;
  const metadata = { name: 'theirs', namespace: 'plant' };
  const spec = { type: 'k8s-secret', secretName: 'company-keys' };
  await remote.cluster.client.create(resource, {
    apiVersion: API_VERSION,
    kind: resource.kind,
    metadata,
    spec,
  } as never);
  await remote.settle();
  expect((await send('POST', '/certificates', { ...PUMP, ca: { type: 'direct', secretName: 'theirs' } })).status).toBe(
    201,
  );
  const readyIn = (store: { get(namespace: string, name: string): unknown }, name: string) =>
    (store.get('plant', name) as Certificate | undefined)?.status?.conditions?.find(({ type }) => type === 'Ready');
  expect(readyIn(remote.stores.certificateAuthorities, 'theirs')).toMatchObject({
    status: 'False',
    reason: 'NotOnControlPlane',
    message: expect.stringMatching(/^type: "k8s-secret"; must be self-signed or direct/),
  });
  expect(readyIn(remote.stores.certificates, 'pump')).toMatchObject({ status: 'False', reason: 'AuthorityNotReady' });
});

test('the controller writes nothing more once everything is made', async () => {
  await createBoth();
  fleet.cluster.writes.clear();
  await pass(HOUR);
  await pass(HOUR);
  const writes = [...fleet.cluster.writes.keys()].filter((what) => /certificate|secrets/.test(what));
  expect(writes).toEqual([]);
});
