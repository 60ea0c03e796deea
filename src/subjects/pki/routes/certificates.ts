import { z } from 'zod';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { Certificate } from '../../../api/v3/certificate.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import type { Kind } from '../../../kinds/definition.ts';
import { uploadBody } from '../../../kinds/upload.ts';
import { requireMayChange } from '../../../rest/access/system.ts';
import type { Caller } from '../../../rest/contract/access.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { forbidden } from '../../../rest/contract/errors.ts';
import { type AnyRoute, type Call, grouped, route } from '../../../rest/contract/route.ts';
import { type CrudHooks, crudRoutes } from '../../../rest/crud/crud.ts';
import { nameParam } from '../../../rest/crud/shapes.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { edit, withChanges } from '../../../rest/objects/edit.ts';
import { accessByKey, presentObject } from '../../../rest/objects/lookup.ts';
import { isObject } from '../../../rules/document.ts';
import { invalid, verdictError } from '../../../rules/errors.ts';
import { secretKind } from '../../content/kinds/core-objects.ts';
import { deleteMountsOf, usersOfMounts } from '../../content/routes/core-objects.ts';
import type { SecretForm } from '../../content/rules/core-objects/form.ts';
import { authorityOf, certificateCrud, certificateKind } from '../kinds/certificate.ts';
import { certificateAuthorityCrud, certificateAuthorityKind } from '../kinds/certificate-authority.ts';
import { textsOf } from '../kinds/shared.ts';
import {
  authoritySecretName,
  isOwn,
  isSecretOf,
  isSystemAuthority,
  isSystemCertificate,
  keysIn,
  type Texts,
} from '../rules/authority.ts';
import { authorityNameOf } from '../rules/certificate.ts';
import { hostsOf } from '../rules/hosts.ts';
import {
  authorityRead,
  authorityValidity,
  certificateRead,
  certificateValidity,
  chainRead,
  dataRead,
  datesOf,
  renewedValidity,
} from '../rules/read.ts';
import { orderAfter } from '../rules/renewal-request.ts';
import { textOfTime } from '../rules/validity.ts';
import { controlPlaneVerdict } from '../rules/verdict.ts';

/** The routes of certificates and of their authorities (docs/spec/rest-v3.md#certificates). */

const TAG = 'Certificates';

async function mayReadKey(caller: Caller, name: string): Promise<boolean> {
  const permission = { resource: 'certificates/key', verb: 'get' } as const;
  return (await caller.may(permission)) || caller.may({ ...permission, name });
}

/** Keys of the system decide who belongs to it: only who may change what belongs to the system writes them. */
async function requireMayWrite(caller: Caller, noun: string, name: string): Promise<void> {
  if (await caller.may({ resource: 'systemapplications', verb: 'update' })) return;
  throw forbidden(`${noun} "${name}" belongs to the system: only who may update systemapplications writes it`);
}

async function requireMayWriteAuthority(caller: Caller, { metadata: { name } }: CertificateAuthority): Promise<void> {
  if (isSystemAuthority(name)) await requireMayWrite(caller, certificateAuthorityKind.noun, name);
}

async function requireMayWriteCertificate(caller: Caller, { metadata: { name } }: Certificate): Promise<void> {
  if (isSystemCertificate(name)) await requireMayWrite(caller, certificateKind.noun, name);
}

const authorities: CrudHooks<CertificateAuthority, { name?: string; spec: CertificateAuthority['spec'] }> = {
  async read(deps, authority, caller, signal) {
    const { name } = authority.metadata;
    const texts =
      isOwn(authority) || authority.spec.secretName === undefined
        ? await deps.ownedSecrets.read(authority, authoritySecretName(name), signal)
        : textsOf(deps.references.find)(authority.spec.secretName);
    return {
      ...authorityRead(authority, deps.clock()),
      ...dataRead(texts, await mayReadKey(caller, name)),
      ...chainRead(texts),
    };
  },
  async permit(caller, authority, before, { self }) {
    await requireMayWriteAuthority(caller, authority);
    const refused = controlPlaneVerdict(authority, self.controlPlane);
    if (refused && !(before && controlPlaneVerdict(before, self.controlPlane))) throw verdictError(refused);
  },
  permitDeletion: (_deps, authority, caller) => requireMayWriteAuthority(caller, authority),
};

const certificates: CrudHooks<Certificate, { name?: string; spec: Certificate['spec'] }> = {
  async create(deps, certificate, _write, signal) {
    requireUnexpired(deps, certificate);
    return deps.certificates.create(certificate, signal);
  },
  async change(deps, certificate, { spec }, _signal, caller) {
    await requireMayChangeSecret(deps, certificate, caller);
    const changed = withChanges(certificate, { spec });
    requireUnexpired(deps, changed);
    return changed;
  },
  async read(deps, certificate, caller, signal) {
    const { name } = certificate.metadata;
    const texts = await deps.ownedSecrets.read(certificate, name, signal);
    return {
      ...certificateRead(certificate, authorityOf(certificate, deps.references.find), deps.clock()),
      ...dataRead(texts, await mayReadKey(caller, name)),
      ...chainRead(texts),
    };
  },
  // Who uses the Secret of a certificate uses the certificate.
  users(deps, certificate) {
    const secret = secretOf(deps, certificate);
    return secret
      ? [...deps.references.users(secretKind as unknown as Kind, secret), ...usersOfMounts(deps, secretKind, secret)]
      : [];
  },
  permit: (caller, certificate) => requireMayWriteCertificate(caller, certificate),
  async permitDeletion(deps, certificate, caller) {
    await requireMayWriteCertificate(caller, certificate);
    await requireMayChangeSecret(deps, certificate, caller);
  },
  // The reconciler deletes the Secret.
  async deleting(deps, certificate, caller, signal) {
    const secret = secretOf(deps, certificate);
    if (!secret) return;
    await deleteMountsOf(deps, secretKind, secret, caller, signal);
  },
};

/** The Secret that belongs to a certificate. */
function secretOf({ references }: RestDependencies, { metadata: { name } }: Certificate): SecretForm | undefined {
  const secret = references.find({ to: 'secrets', ref: name }) as SecretForm | undefined;
  return secret?.core && isSecretOf(secret.core, 'certificate', name) ? secret : undefined;
}

/** What the system uses of a certificate is its Secret. */
async function requireMayChangeSecret(deps: RestDependencies, certificate: Certificate, caller: Caller): Promise<void> {
  const secret = secretOf(deps, certificate);
  if (secret) await requireMayChange({ deps, caller }, secretKind, secret);
}

/** The end of what signs a certificate, Unix ms; undefined when it signs itself or its end is not known yet. */
function authorityEnd({ references, clock }: RestDependencies, certificate: Certificate): number | undefined {
  const authority = authorityOf(certificate, references.find);
  if (authority) return authorityValidity(authority, clock())?.notAfter;
  const name = authorityNameOf(certificate);
  const texts: Texts | undefined = name === undefined ? undefined : textsOf(references.find)(name);
  const keys = texts && keysIn(texts);
  return keys && !('problem' in keys) ? keys.current.facts.notAfter : undefined;
}

function requireUnexpired(deps: RestDependencies, certificate: Certificate): void {
  const end = authorityEnd(deps, certificate);
  if (end !== undefined && end <= deps.clock())
    throw invalid(
      `ca.secretName: the authority "${authorityNameOf(certificate)}" expired at ${textOfTime(end)}: renew it first`,
      'ca.secretName',
      'CA_EXPIRED',
    );
}

export const certificateAuthorityRoutes = crudRoutes(certificateAuthorityKind, certificateAuthorityCrud, authorities);

const plain = crudRoutes(certificateKind, certificateCrud, certificates);
const createFromFile = operation(plain, 'createCertificateFromYaml');
const createAuthority = operation(certificateAuthorityRoutes, 'createCertificateAuthority');

function operation(routes: readonly AnyRoute[], name: string): AnyRoute {
  const found = routes.find((one) => one.operation === name);
  if (!found) throw new TypeError(`there is no operation ${name}`);
  return found;
}

/** One route takes files of both kinds. */
const fromFile: AnyRoute = {
  ...createFromFile,
  reply: { status: 201, schema: z.union([certificateAuthorityCrud.shapes.read, certificateCrud.shapes.read]) },
  summary: 'Create a certificate or a certificate authority from a file',
  description: 'A document of kind Certificate or CertificateAuthority.',
  async handler(call: Call) {
    const { document, caller } = call;
    if (!isObject(document) || document.kind !== certificateAuthorityKind.definition.kind)
      return createFromFile.handler(call as never);
    const { plural } = certificateAuthorityKind.definition;
    if (!(await caller.may({ resource: plural, verb: 'create' })))
      throw forbidden(`you may not create ${plural} in the API group of this controller`);
    const body = uploadBody(certificateAuthorityKind, { part: 'certificate', update: 'PATCH' }, document);
    return createAuthority.handler({ ...call, body } as never);
  },
};

const within = (days: number) => days * 24 * 3_600_000;

export const certificateRoutes = grouped(TAG, [
  route({
    method: 'GET',
    path: '/certificates/expiring',
    operation: 'listExpiringCertificates',
    summary: 'Certificates that expire within some days',
    access: { resource: 'certificates', verb: 'list' },
    query: z.strictObject({ days: z.coerce.number().int().min(0).max(36_525).default(30).describe('days from now') }),
    reply: { status: 200, schema: z.looseObject({ certificates: z.array(certificateCrud.shapes.read) }) },
    errors: [400],
    needs: () => [certificateKind.key, certificateAuthorityKind.key],
    handler({ deps, query: { days } }) {
      const now = deps.clock();
      const shown = deps.certificates
        .list()
        .filter(isPresent)
        .map((certificate) => ({ certificate, authority: authorityOf(certificate, deps.references.find) }))
        .map(({ certificate, authority }) => ({
          read: certificateRead(certificate, authority, now),
          end: certificateValidity(certificate, authority, now)?.notAfter ?? Number.POSITIVE_INFINITY,
        }))
        .filter(({ end }) => end > now && end <= now + within(days))
        .sort((a, b) => a.end - b.end);
      return { certificates: shown.map(({ read }) => read) };
    },
  }),
  route({
    method: 'POST',
    path: '/certificates/{name}/renew',
    operation: 'renewCertificate',
    summary: 'Renew a certificate, with a new key',
    access: { resource: 'certificates', verb: 'patch', ...accessByKey(certificateKind) },
    params: nameParam,
    reply: {
      status: 200,
      schema: z.looseObject({
        name: z.string(),
        subject: z.string(),
        hosts: z.string(),
        valid_from: z.string().nullable(),
        valid_to: z.string().nullable(),
        renewed: z.literal(true),
      }),
    },
    errors: [400, 404, 409],
    needs: () => [certificateKind.key, certificateAuthorityKind.key],
    async handler({ deps, params: { name }, caller, signal }) {
      let orderedAt = 0;
      const certificate = await edit(
        deps.certificates,
        () => presentObject(deps, certificateKind, name, signal),
        async (present) => {
          await requireMayWriteCertificate(caller, present);
          await requireMayChangeSecret(deps, present, caller);
          requireUnexpired(deps, present);
          orderedAt = orderAfter(present, deps.clock());
          const annotations = { ...present.metadata.annotations, [ANNOTATIONS.renew]: textOfTime(orderedAt) };
          return { ...present, metadata: { ...present.metadata, annotations } };
        },
        signal,
      );
      return {
        name,
        subject: certificate.spec.subject,
        hosts: hostsOf(certificate.spec.hosts).join(','),
        ...datesOf(renewedValidity(certificate, orderedAt, authorityEnd(deps, certificate))),
        renewed: true,
      } as never;
    },
  }),
  ...plain.map((one) => (one.operation === createFromFile.operation ? fromFile : one)),
]);
