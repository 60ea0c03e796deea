import { type ControlPlane, SYSTEM_SECRET_PREFIXES } from '../../../api/names.ts';
import type { Certificate } from '../../../api/v3/certificate.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import type { Verdict } from '../../../rules/verdict.ts';
import { isSystemSecretName } from '../../content/rules/core-objects/form.ts';
import { isOwn, isSystemAuthority, isSystemCertificate, keysIn, type Texts } from './authority.ts';
import { authorityNameOf } from './certificate.ts';
import { hostsProblem } from './hosts.ts';
import { lifeProblem } from './validity.ts';

/** What certificates and authorities may ask for, judged by the objects that they name. Times are judged where a clock is. */

const bad = (reason: Verdict['reason'], code: Verdict['code'], message: string, field: string): Verdict => ({
  status: 400,
  reason,
  code,
  message,
  field,
});

function lifeVerdict(expiration: number | undefined) {
  const problem = lifeProblem(expiration);
  return problem === undefined ? undefined : bad('ExpirationInvalid', 'VALIDATION_ERROR', problem, 'expiration');
}

/** Why an authority cannot exist on a control plane: outside of a cluster there are no Secrets of it. */
export const controlPlaneVerdict = (
  { spec: { type } }: CertificateAuthority,
  controlPlane: ControlPlane,
): Verdict | undefined =>
  type === 'k8s-secret' && controlPlane === 'remote'
    ? bad(
        'NotOnControlPlane',
        'VALIDATION_ERROR',
        'type: "k8s-secret"; must be self-signed or direct on control plane remote (CONTROL_PLANE of the controller)',
        'type',
      )
    : undefined;

/** `texts` reads a shareable Secret. */
export function authorityVerdict(
  authority: CertificateAuthority,
  texts: (secret: string) => Texts | undefined,
): Verdict | undefined {
  const { spec } = authority;
  const own = lifeVerdict(spec.expiration);
  if (own || isOwn(authority) || spec.secretName === undefined) return own;
  return secretVerdict(spec.secretName, texts(spec.secretName), 'secretName');
}

function secretVerdict(name: string, texts: Texts | undefined, field: string): Verdict | undefined {
  if (!texts)
    return {
      status: 404,
      reason: 'SecretNotFound',
      code: 'SECRET_NOT_FOUND',
      message: `${field}: there is no shareable secret "${name}"`,
      field,
    };
  const keys = keysIn(texts);
  return 'problem' in keys
    ? bad('AuthorityInvalid', 'INVALID_CA', `${field}: the secret "${name}" has no authority: ${keys.problem}`, field)
    : undefined;
}

/** Its Secret has the name of a certificate. */
const nameVerdict = (name: string) =>
  isSystemSecretName(name)
    ? bad(
        'NameReserved',
        'VALIDATION_ERROR',
        `name: "${name}" is a name for Secrets of the system: choose one that begins with none of ${SYSTEM_SECRET_PREFIXES.join(', ')}`,
        'name',
      )
    : undefined;

export interface AuthoritySource {
  authority(name: string): CertificateAuthority | undefined;
  texts(secret: string): Texts | undefined;
}

export function certificateVerdict(certificate: Certificate, source: AuthoritySource): Verdict | undefined {
  const { hosts, expiration } = certificate.spec;
  const hostProblem = hostsProblem(hosts);
  return (
    nameVerdict(certificate.metadata.name) ??
    (hostProblem === undefined ? undefined : bad('HostInvalid', 'VALIDATION_ERROR', hostProblem, 'hosts')) ??
    lifeVerdict(expiration) ??
    signerVerdict(authorityNameOf(certificate), source, isSystemCertificate(certificate.metadata.name))
  );
}

function signerVerdict(
  name: string | undefined,
  { authority, texts }: AuthoritySource,
  ofSystem: boolean,
): Verdict | undefined {
  const field = 'ca.secretName';
  if (name === undefined) return undefined;
  const isOfSystem = isSystemAuthority(name);
  if (isOfSystem && !ofSystem)
    return {
      status: 403,
      reason: 'AuthorityOfSystem',
      code: 'FORBIDDEN',
      message: `${field}: the authority "${name}" signs for the controller alone; create an authority of your own`,
      field,
    };
  const known = authority(name);
  if (known) return isOwn(known) ? undefined : authorityVerdict(known, texts);
  // A Secret of a user never stands in for an authority of the system.
  const found = isOfSystem ? undefined : texts(name);
  if (found) return secretVerdict(name, found, field);
  return {
    status: 404,
    reason: 'AuthorityNotFound',
    code: 'CA_NOT_FOUND',
    message: `${field}: there is no certificate authority and no shareable secret "${name}"`,
    field,
  };
}
