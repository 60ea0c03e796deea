import { type AgreementCase, accepts, refuses } from '../_agreement.ts';
import { artifactCases } from './_artifact.cases.ts';

export const cases: AgreementCase[] = [
  ...artifactCases,
  accepts('a known format', { repo: 'team/tiny', registryId: 3, format: 'gguf' }),
  refuses('an unknown format', { repo: 'team/tiny', registryId: 3, format: 'GGUF' }),
];
