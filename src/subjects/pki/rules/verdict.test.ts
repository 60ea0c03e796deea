import { beforeAll, describe, expect, test } from 'vitest';
import { API_VERSION, CONTROLLER_AUTHORITY, CONTROLLER_CERTIFICATE } from '../../../api/names.ts';
import type { Certificate } from '../../../api/v3/certificate.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import { createSigner } from '../../../signer/signer.ts';
import { KEYS, type Texts } from './authority.ts';
import { authorityVerdict, certificateVerdict } from './verdict.ts';

const authority = (name: string, spec: CertificateAuthority['spec'] = {}): CertificateAuthority => ({
  ...{ apiVersion: API_VERSION, kind: 'CertificateAuthority', metadata: { name } },
  spec,
});
const certificate = (spec: Partial<Certificate['spec']> = {}): Certificate => ({
  ...{ apiVersion: API_VERSION, kind: 'Certificate', metadata: { name: 'pump' } },
  spec: { subject: 'pump', hosts: 'pump.example', ...spec },
});

let keys: Texts;
beforeAll(async () => {
  const validity = { notBefore: 0, notAfter: 4_000_000_000_000 };
  const request = { subject: 'own', names: [], algorithm: 'ECDSA', isAuthority: true, ...validity } as const;
  const { cert, key } = await createSigner().issue(request);
  keys = { [KEYS.certificate]: cert, [KEYS.key]: key };
});

/** The shareable Secrets of the tests. */
const texts = (name: string): Texts | undefined => ({ keys, spoiled: { ...keys, [KEYS.key]: '' } })[name];
const signedBy = (secretName: string) => certificate({ ca: { type: 'direct', secretName } });

describe('the certificate of the controller', () => {
  const own = { ...signedBy(CONTROLLER_AUTHORITY), metadata: { name: CONTROLLER_CERTIFICATE } };

  test('may name the authority of the system that signs it', () => {
    const known = authority(CONTROLLER_AUTHORITY);
    expect(certificateVerdict(own, { authority: () => known, texts })).toBeUndefined();
  });

  test('is not signed by a Secret of a user that has the name of this authority', () => {
    expect(certificateVerdict(own, { authority: () => undefined, texts: () => keys })).toMatchObject({
      reason: 'AuthorityNotFound',
    });
  });
});

describe('a certificate', () => {
  const judge = (object: Certificate, ...known: CertificateAuthority[]) =>
    certificateVerdict(object, { authority: (name) => known.find(({ metadata }) => metadata.name === name), texts });

  test.each<[string, Certificate, CertificateAuthority[]]>([
    ['signs itself', certificate(), []],
    ['signs itself when told so', certificate({ ca: { type: 'self-signed' } }), []],
    ['names an authority', signedBy('plant'), [authority('plant')]],
    [
      'names an authority with a key of another owner',
      signedBy('company'),
      [authority('company', { type: 'direct', secretName: 'keys' })],
    ],
    ['names a Secret with the key of an authority', signedBy('keys'), []],
    ['lives an hour', certificate({ expiration: 3_600_000 }), []],
  ])('is accepted that %s', (_, object, known) => {
    expect(judge(object, ...known)).toBeUndefined();
  });

  test.each<[string, () => Certificate, CertificateAuthority[], object]>([
    [
      'has an address with a port as host',
      () => certificate({ hosts: '10.0.0.5:80' }),
      [],
      { reason: 'HostInvalid', status: 400, code: 'VALIDATION_ERROR', field: 'hosts' },
    ],
    [
      'has the name of a Secret of the system',
      () => ({ ...certificate(), metadata: { name: 'skerry-platform-1' } }),
      [],
      { reason: 'NameReserved', status: 400, code: 'VALIDATION_ERROR', field: 'name' },
    ],
    [
      'lives a second',
      () => certificate({ expiration: 1_000 }),
      [],
      { reason: 'ExpirationInvalid', status: 400, code: 'VALIDATION_ERROR', field: 'expiration' },
    ],
    [
      'names nothing that exists',
      () => signedBy('nobody'),
      [],
      { reason: 'AuthorityNotFound', status: 404, code: 'CA_NOT_FOUND', field: 'ca.secretName' },
    ],
    [
      'names a Secret with a key of something else',
      () => signedBy('spoiled'),
      [],
      { reason: 'AuthorityInvalid', status: 400, code: 'INVALID_CA', field: 'ca.secretName' },
    ],
    [
      'names an authority whose Secret is spoiled',
      () => signedBy('company'),
      [authority('company', { type: 'direct', secretName: 'spoiled' })],
      { reason: 'AuthorityInvalid', status: 400, code: 'INVALID_CA' },
    ],
    [
      'names an authority of the system',
      () => signedBy('router-site-ca'),
      [authority('router-site-ca')],
      { reason: 'AuthorityOfSystem', status: 403, code: 'FORBIDDEN', field: 'ca.secretName' },
    ],
  ])('is refused that %s', (_, make, known, verdict) => {
    expect(judge(make(), ...known)).toMatchObject(verdict);
  });
});

describe('an authority', () => {
  test.each([
    ['makes its own key', {}],
    ['has the key of another owner', { type: 'direct', secretName: 'keys' }],
    ['has it by the other word', { type: 'k8s-secret', secretName: 'keys' }],
  ] as const)('is accepted that %s', (_, spec) => {
    expect(authorityVerdict(authority('plant', spec), texts)).toBeUndefined();
  });

  test.each([
    ['lives a minute', { expiration: 60_000 }, { reason: 'ExpirationInvalid', status: 400 }],
    [
      'names no shareable Secret',
      { type: 'direct', secretName: 'skerry-ca-plant' },
      { reason: 'SecretNotFound', status: 404 },
    ],
    ['names a spoiled Secret', { type: 'direct', secretName: 'spoiled' }, { reason: 'AuthorityInvalid', status: 400 }],
  ] as const)('is refused that %s', (_, spec, verdict) => {
    expect(authorityVerdict(authority('plant', spec), texts)).toMatchObject(verdict);
  });
});
