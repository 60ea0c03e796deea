import type { Service } from '../../../api/v3/service.ts';

/** Tags by which nodes select a service: those with a colon or an equals sign are annotations alone. */
export const tokensOf = ({ spec: { tags = [] } }: Pick<Service, 'spec'>): readonly string[] =>
  tags.filter((tag) => !/[:=]/.test(tag));
