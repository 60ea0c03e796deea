import { type Application, applicationResource } from '../api/v3/application.ts';
import { entryUuid } from '../domain/names.ts';
import { registryRefsOf, registryUsersIn } from '../domain/registry/index.ts';
import { defineKind } from './definition.ts';

export const applicationKind = defineKind<Application>()({
  key: 'applications',
  definition: applicationResource,
  noun: 'application',
  access: 'workloads',
  withholdsTexts: true,
  rest: { tag: 'Applications', key: 'name', notFound: 'INVALID_APPLICATION_NAME' },
  references: (application) => Array.from(registryRefsOf(application), (ref) => ({ to: 'registries', ref })),
  referrers: (application, to, refs) => (to === 'registries' ? registryUsersIn(application, refs) : []),
  indexes: {
    /** `name:<node>` and `uuid:<node>` */
    node: nodeRefsOf,
    /** uuids of its microservices */
    microservice: entryUuidsOf,
    /** `secret:<name>` and `configMap:<name>` */
    source: sourcesOf,
  },
});

/** `name:<node>` and `uuid:<node>`: the nodes that an application's entries name. */
export function nodeRefsOf(application: Application): Iterable<string> {
  const refs = new Set<string>();
  for (const { agent } of application.spec.microservices ?? []) {
    if (agent?.uuid) refs.add(`uuid:${agent.uuid}`);
    else if (agent?.name) refs.add(`name:${agent.name}`);
  }
  return refs;
}

/** uuids of an application's microservices. */
export function entryUuidsOf(application: Application): readonly string[] {
  return (application.spec.microservices ?? []).map((entry) => entryUuid(application, entry));
}

/** `secret:<name>` and `configMap:<name>`: the sources of values of the entries of an application. */
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
