import type { Certificate } from '../../../api/v3/certificate.ts';
import type { Wanted } from './due.ts';
import { hostsOf } from './hosts.ts';
import { orderOf } from './renewal-request.ts';
import { lifeOf, timeOf } from './validity.ts';

/** The name of the authority of a certificate, or of a Secret with one; undefined for what signs itself. */
export const authorityNameOf = ({ spec: { ca } }: Certificate): string | undefined =>
  ca && ca.type !== 'self-signed' ? ca.secretName : undefined;

/** What a certificate asks. */
export const wantedOfCertificate = (certificate: Certificate): Wanted => ({
  subject: certificate.spec.subject,
  hosts: hostsOf(certificate.spec.hosts),
  algorithm: certificate.spec.keyAlgorithm ?? 'ECDSA',
  life: lifeOf(certificate.spec.expiration),
  createdAt: timeOf(certificate.metadata.creationTimestamp),
  orderedAt: orderOf(certificate),
});
