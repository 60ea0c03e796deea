import { z } from 'zod';
import { labelName } from '../../../api/meta.ts';
import { type Certificate, certificateResource, certificateSpecSchema } from '../../../api/v3/certificate.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import { defineKind } from '../../../kinds/definition.ts';
import type { FindReferenced } from '../../../kinds/object.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { type KindCrud, plainShapes } from '../../../kinds/rest.ts';
import { authorityNameOf } from '../rules/certificate.ts';
import { certificateRead } from '../rules/read.ts';
import { certificateVerdict } from '../rules/verdict.ts';
import { datesShape, textsOf } from './shared.ts';

const shapes = plainShapes(certificateResource, certificateSpecSchema);

export const certificateCrud: KindCrud<Certificate> = {
  path: '/certificates',
  list: 'certificates',
  replies: {
    create: { status: 201, body: 'object' },
    change: { status: 200, body: 'object' },
    delete: { status: 200 },
  },
  shapes: {
    ...shapes,
    read: z.intersection(
      z.looseObject({
        name: z.string(),
        subject: z.string(),
        hosts: z.string(),
        is_ca: z.literal(false),
        ca_name: z.string().nullable(),
      }),
      datesShape,
    ) as unknown as typeof shapes.read,
  },
  templated: false,
  texts: {
    get: { description: 'Its private key is shown to callers who may get `certificates/key`.' },
    delete: { description: 'Deletes its Secret as well, which no microservice may use.' },
  },
  ...plainTranslation<Certificate>(certificateSpecSchema, { closed: true, name: labelName() }),
  read: (certificate, find) => certificateRead(certificate, authorityOf(certificate, find), Date.now()),
  upload: { part: 'certificate', update: 'PATCH' },
};

/** The object that signs a certificate, if it is one. */
export function authorityOf(certificate: Certificate, find: FindReferenced): CertificateAuthority | undefined {
  const name = authorityNameOf(certificate);
  return name === undefined
    ? undefined
    : (find({ to: 'certificateAuthorities', ref: name }) as CertificateAuthority | undefined);
}

export const certificateKind = defineKind<Certificate>()({
  key: 'certificates',
  definition: certificateResource,
  noun: 'certificate',
  access: 'workloads',
  inUse: { status: 409, code: 'CERTIFICATE_IN_USE' },
  // Which of the two the name means is known when both can be looked up.
  references(certificate) {
    const ref = authorityNameOf(certificate);
    return ref === undefined ? [] : (['certificateAuthorities', 'secrets'] as const).map((to) => ({ to, ref }));
  },
  means: ({ to, ref }, find) =>
    to !== 'secrets' || (typeof ref === 'string' && find({ to: 'certificateAuthorities', ref }) === undefined),
  verdict: (certificate, find) =>
    certificateVerdict(certificate, { authority: () => authorityOf(certificate, find), texts: textsOf(find) }),
  rest: { tag: 'Certificates', key: 'name', notFound: 'CERTIFICATE_NOT_FOUND', crud: certificateCrud },
  indexes: {},
});
