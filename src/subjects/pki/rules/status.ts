import type { Certificate } from '../../../api/v3/certificate.ts';
import type { CertificateFacts } from './pair.ts';
import { textOfTime } from './validity.ts';

type Issued = Omit<NonNullable<Certificate['status']>, 'observedGeneration' | 'conditions' | 'uuid' | 'secretName'>;

/** What a status says of the certificate in force; `renewAt` is absent where nothing renews it. */
export const issuedStatus = (facts: CertificateFacts | undefined, renewAt: number | undefined): Issued =>
  facts
    ? {
        serialNumber: facts.serialNumber,
        subject: facts.subject,
        notBefore: textOfTime(facts.notBefore),
        notAfter: textOfTime(facts.notAfter),
        ...(renewAt !== undefined && { renewalTime: textOfTime(renewAt) }),
        issuer: facts.issuer,
        fingerprint: facts.fingerprint,
      }
    : {};
