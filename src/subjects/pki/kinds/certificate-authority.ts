import { z } from 'zod';
import { labelName } from '../../../api/meta.ts';
import {
  type CertificateAuthority,
  certificateAuthorityResource,
  certificateAuthoritySpecSchema,
} from '../../../api/v3/certificate-authority.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { type KindCrud, plainShapes } from '../../../kinds/rest.ts';
import { authorityRead } from '../rules/read.ts';
import { authorityVerdict } from '../rules/verdict.ts';
import { datesShape, textsOf } from './shared.ts';

const shapes = plainShapes(certificateAuthorityResource, certificateAuthoritySpecSchema);

export const certificateAuthorityCrud: KindCrud<CertificateAuthority> = {
  path: '/certificates/ca',
  list: 'cas',
  replies: {
    create: { status: 201, body: 'object' },
    change: { status: 200, body: 'object' },
    delete: { status: 200 },
  },
  shapes: {
    ...shapes,
    read: z.intersection(
      z.looseObject({ name: z.string(), type: z.string(), subject: z.string(), is_ca: z.literal(true) }),
      datesShape,
    ) as unknown as typeof shapes.read,
  },
  templated: false,
  texts: {
    list: { summary: 'All certificate authorities' },
    get: { description: 'Its private key is shown to callers who may get `certificates/key`.' },
    delete: { description: 'Refused while a certificate names it.' },
  },
  ...plainTranslation<CertificateAuthority>(certificateAuthoritySpecSchema, { closed: true, name: labelName() }),
  read: (authority) => authorityRead(authority, Date.now()),
};

export const certificateAuthorityKind = defineKind<CertificateAuthority>()({
  key: 'certificateAuthorities',
  definition: certificateAuthorityResource,
  noun: 'certificate authority',
  access: 'workloads',
  inUse: { status: 400, code: 'CA_IN_USE' },
  references: ({ spec: { secretName } }) => (secretName === undefined ? [] : [{ to: 'secrets', ref: secretName }]),
  verdict: (authority, find) => authorityVerdict(authority, textsOf(find)),
  rest: { tag: 'Certificates', key: 'name', notFound: 'CA_NOT_FOUND', crud: certificateAuthorityCrud },
  indexes: {},
});
