import { type AgreementCase, accepts, refuses } from '../_agreement.ts';
import { artifactCases } from './_artifact.cases.ts';

export const cases: AgreementCase[] = [
  ...artifactCases,
  accepts('a known format', { repo: 'org/manuals', registryId: 3, format: 'pdf' }),
  accepts('another format', { repo: 'org/manuals', registryId: 3, format: 'Scrolls' }),
  refuses('a format that is no word', { repo: 'org/manuals', registryId: 3, format: 'x'.repeat(33) }),
];
