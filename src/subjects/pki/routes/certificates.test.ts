import { beforeEach, describe, expect, test } from 'vitest';
import { storedSecret } from '../../../../testing/stored.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import type { TestClient } from '../../../rest/_client.ts';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';

/** The routes over objects in memory, where nothing signs: dates are those that the certificates will have. */
let at = 0;
const deps = createMemoryDependencies({ clock: () => at });
const server = await serveInMemory({ deps });
const [admin, developer] = [server.as('admin'), server.as('developer')];

const HOUR = 3_600_000;
const MONTH = 30.44 * 24 * HOUR;
const PLANT = { name: 'plant', type: 'self-signed', subject: 'Plant 3', expiration: 36 };
const PUMP = {
  name: 'pump',
  subject: 'pump',
  hosts: 'pump.example, 10.0.0.5',
  ca: { type: 'direct', secretName: 'plant' },
};

beforeEach(async () => {
  at = Math.floor(Date.now() / 1_000) * 1_000;
  for (const name of ['pump', 'valve']) await admin.delete(`/certificates/${name}`);
  await admin.delete('/certificates/ca/plant');
});
const create = async () => {
  expect((await admin.post('/certificates/ca', { json: PLANT })).status).toBe(201);
  return admin.post('/certificates', { json: PUMP });
};

describe('an authority', () => {
  test('is created, listed, read, changed and deleted', async () => {
    const created = await admin.post('/certificates/ca', { json: PLANT });
    expect(created).toMatchObject({
      status: 201,
      body: { name: 'plant', type: 'self-signed', subject: 'Plant 3', is_ca: true },
    });
    const { cas } = (await admin.get('/certificates/ca')).body;
    expect(cas).toMatchObject([
      { name: 'plant', is_expired: false, days_remaining: Math.ceil((36 * MONTH) / (24 * HOUR)) },
    ]);
    expect((await admin.get('/certificates/ca/plant')).body).toMatchObject({ subject: 'Plant 3', serial_number: null });
    const changed = await admin.patch('/certificates/ca/plant', { json: { subject: 'Plant 4' } });
    expect(changed).toMatchObject({ status: 200, body: { subject: 'Plant 4' } });
    expect(await admin.delete('/certificates/ca/plant')).toMatchObject({ status: 200, body: {} });
    expect((await admin.get('/certificates/ca/plant')).body.code).toBe('CA_NOT_FOUND');
  });

  test.each<[string, object, number, string]>([
    ['with an unknown member', { ...PLANT, keyUsage: 'all' }, 400, 'VALIDATION_ERROR'],
    ['with a Secret of its own key', { ...PLANT, secretName: 'keys' }, 400, 'VALIDATION_ERROR'],
    [
      'with a Secret that does not exist',
      { name: 'plant', type: 'direct', secretName: 'keys' },
      404,
      'SECRET_NOT_FOUND',
    ],
    [
      'with a Secret that is not shareable',
      { name: 'plant', type: 'k8s-secret', secretName: 'private' },
      404,
      'SECRET_NOT_FOUND',
    ],
    ['with a life of a second', { ...PLANT, expiration: 1_000 }, 400, 'VALIDATION_ERROR'],
  ])('is refused %s', async (_, json, status, code) => {
    deps.stores.secrets.set(storedSecret('private', { 'tls.crt': 'x', 'tls.key': 'x' }));
    expect(await admin.post('/certificates/ca', { json })).toMatchObject({ status, body: { code } });
  });

  test('an authority of the system is written by who may change the applications of the system', async () => {
    const json = { ...PLANT, name: 'router-site-ca' };
    const refused = await developer.post('/certificates/ca', { json });
    expect(refused).toMatchObject({ status: 403, body: { message: expect.stringContaining('belongs to the system') } });
    expect((await admin.post('/certificates/ca', { json })).status).toBe(201);
    expect((await developer.delete('/certificates/ca/router-site-ca')).status).toBe(403);
    expect((await admin.delete('/certificates/ca/router-site-ca')).status).toBe(200);
  });
});

describe('a certificate', () => {
  test('is created, listed, read and deleted', async () => {
    const created = await create();
    expect(created).toMatchObject({
      status: 201,
      body: { name: 'pump', hosts: 'pump.example,10.0.0.5', ca_name: 'plant', is_ca: false, is_expired: false },
    });
    const { certificates } = (await admin.get('/certificates')).body;
    expect(certificates).toMatchObject([{ name: 'pump', valid_from: created.body.valid_from }]);
    expect(certificates[0]).not.toHaveProperty('data');
    expect((await admin.get('/certificates/pump')).body).toMatchObject({ certificate_chain: [], subject: 'pump' });
    expect(await admin.delete('/certificates/pump')).toMatchObject({ status: 200, body: {} });
    expect((await admin.get('/certificates/pump')).body.code).toBe('CERTIFICATE_NOT_FOUND');
  });

  test('ends with its authority', async () => {
    const { body } = await create();
    const { valid_to: end } = (await admin.get('/certificates/ca/plant')).body;
    expect(body.valid_to).toBe(end);
  });

  test('is created from a file, and so is an authority', async () => {
    const file = (kind: string, name: string, spec: string) =>
      admin.post('/certificates/yaml', {
        form: { part: 'certificate', text: `kind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}` },
      });
    expect(await file('CertificateAuthority', 'plant', '{type: self-signed, expiration: 36}')).toMatchObject({
      status: 201,
    });
    const made = await file(
      'Certificate',
      'pump',
      '{subject: pump, hosts: "a,b", ca: {type: direct, secretName: plant}}',
    );
    expect(made).toMatchObject({ status: 201, body: { name: 'pump', hosts: 'a,b' } });
    expect(await file('Registry', 'pump', '{}')).toMatchObject({ status: 400 });
    const changed = await admin.patch('/certificates/yaml/pump', {
      form: { part: 'certificate', text: 'kind: Certificate\nmetadata: {name: pump}\nspec: {hosts: c}' },
    });
    expect(changed).toMatchObject({ status: 200, body: { hosts: 'c', subject: 'pump' } });
  });

  test('is listed as expiring within so many days', async () => {
    await create();
    await admin.post('/certificates', {
      json: { name: 'valve', subject: 'valve', hosts: 'valve', expiration: 10 * 24 * HOUR },
    });
    const expiring = async (query = '') =>
      ((await admin.get(`/certificates/expiring${query}`)).body.certificates as { name: string }[]).map(
        ({ name }) => name,
      );
    expect(await expiring()).toEqual(['valve']);
    expect(await expiring('?days=9')).toEqual([]);
    expect(await expiring('?days=36500')).toEqual(['valve', 'pump']);
    expect((await admin.get('/certificates/expiring?days=soon')).status).toBe(400);
  });

  test('is renewed from the moment of the order', async () => {
    await create();
    at += HOUR;
    const { status, body } = await admin.post('/certificates/pump/renew');
    expect(status).toBe(200);
    expect(body).toMatchObject({ name: 'pump', subject: 'pump', hosts: 'pump.example,10.0.0.5', renewed: true });
    expect(Date.parse(body.valid_from)).toBe(at - HOUR);
    expect((await admin.post('/certificates/nobody/renew')).body.code).toBe('CERTIFICATE_NOT_FOUND');
  });

  test('is neither made nor renewed by an expired authority', async () => {
    await create();
    const authority = deps.stores.certificateAuthorities.list()[0] as CertificateAuthority;
    const [notBefore, notAfter] = [at - HOUR, at + HOUR].map((time) => new Date(time).toISOString());
    deps.stores.certificateAuthorities.set({
      ...authority,
      metadata: { ...authority.metadata, resourceVersion: String(deps.version.next++) },
      status: { observedGeneration: 1, notBefore, notAfter },
    });
    at += 2 * HOUR;
    for (const answer of [
      await admin.post('/certificates/pump/renew'),
      await admin.post('/certificates', { json: { ...PUMP, name: 'valve' } }),
      await admin.patch('/certificates/pump', { json: { subject: 'other' } }),
    ])
      expect(answer).toMatchObject({
        status: 400,
        body: { code: 'CA_EXPIRED', message: expect.stringContaining('"plant"') },
      });
  });

  test.each<[string, object, number, string]>([
    ['with a name that is taken', PUMP, 409, 'DUPLICATE_NAME'],
    [
      'of an authority that does not exist',
      { ...PUMP, name: 'valve', ca: { type: 'direct', secretName: 'x' } },
      404,
      'CA_NOT_FOUND',
    ],
    ['with an unknown member', { ...PUMP, name: 'valve', days: 3 }, 400, 'VALIDATION_ERROR'],
    [
      'with an unknown member of its authority',
      { ...PUMP, name: 'valve', ca: { ...PUMP.ca, key: 'k' } },
      400,
      'VALIDATION_ERROR',
    ],
    ['with a URL as host', { ...PUMP, name: 'valve', hosts: 'https://a' }, 400, 'VALIDATION_ERROR'],
    [
      'with a subject of control characters',
      { ...PUMP, name: 'valve', subject: 'a\u001b[2J' },
      400,
      'VALIDATION_ERROR',
    ],
    [
      'with 10,000 hosts',
      { ...PUMP, name: 'valve', hosts: Array.from({ length: 10_000 }, (_, i) => `h${i}`).join() },
      400,
      'VALIDATION_ERROR',
    ],
  ])('is refused %s', async (_, json, status, code) => {
    await create();
    expect(await admin.post('/certificates', { json })).toMatchObject({ status, body: { code } });
  });

  test('shows its private key to who may read keys', async () => {
    await create();
    deps.stores.secrets.set(
      storedSecret(
        'pump',
        { 'tls.crt': 'certificate', 'tls.key': 'key', 'ca.crt': 'authority' },
        { namespace: 'test' },
      ),
    );
    const read = async (who: TestClient) => (await who.get('/certificates/pump')).body.data;
    expect(await read(admin)).toEqual({ certificate: 'certificate', ca: 'authority', private_key: 'key' });
    expect(await read(developer)).toEqual({ certificate: 'certificate', ca: 'authority' });
  });
});
