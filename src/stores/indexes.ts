import { AGENT_INDEXES } from '../agents/store-indexes.ts';
import type { Application } from '../api/v3/index.ts';
import { applicationUuid } from '../domain/index.ts';

/** `secret:<name>` and `configMap:<name>`: what the entries of an application take values from. */
function sourcesOf(application: Application): Iterable<string> {
  const refs = new Set<string>();
  for (const { container } of application.spec.microservices ?? []) {
    for (const { valueFromSecret, valueFromConfigMap } of container?.env ?? []) {
      if (valueFromSecret) refs.add(`secret:${valueFromSecret.split('/')[0]}`);
      if (valueFromConfigMap) refs.add(`configMap:${valueFromConfigMap.split('/')[0]}`);
    }
  }
  return refs;
}

export const INDEXES = {
  ...AGENT_INDEXES,
  applications: {
    ...AGENT_INDEXES.applications,
    uuid: (application: Application) => [applicationUuid(application)],
    source: sourcesOf,
  },
} as const;
