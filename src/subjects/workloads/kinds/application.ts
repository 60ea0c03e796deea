import { type Application, applicationResource } from '../../../api/v3/application.ts';
import type { MicroserviceEntry } from '../../../api/v3/index.ts';
import { defineKind, referenceKey } from '../../../kinds/definition.ts';
import type { Reference } from '../../../kinds/object.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import { catalogItemRefsOf } from '../../catalog/rules/catalog-item.ts';
import { registryRefsOf } from '../../catalog/rules/registry.ts';
import { volumeMountsOf } from '../../content/rules/volume-mount/mapping.ts';
import { formerNodeUuidsOf, nodeRefsOf } from '../../nodes/rules/placement/node-refs.ts';
import { busRuleKeysOf } from '../rules/application/missing-rules.ts';

export const applicationKind = defineKind<Application>()({
  key: 'applications',
  definition: applicationResource,
  noun: 'application',
  access: 'workloads',
  withholdsTexts: true,
  rest: { tag: 'Applications', key: 'name', notFound: 'INVALID_APPLICATION_NAME' },
  references: (application) => referencesOf(application),
  isOfSystem: ({ spec }) => spec.isSystem === true,
  referrers: (application, to, refs) =>
    (application.spec.microservices ?? [])
      .filter((entry) => REFERENCES[to]?.(entry, application).some((ref) => refs.includes(ref)))
      .map((entry) => {
        const called = `${v3Name(application)}/${entry.name}`;
        return NAMED_WITH_UUID.has(to) ? `${called} (${entryUuid(application, entry)})` : called;
      }),
  indexes: {
    /** `true`: it has access to the message bus */
    bus: ({ spec }) => (spec.busConfig?.busAccess ? ['true'] : []),
    /** `<kind>/<name>` of rules of the message bus that it names */
    busRule: busRuleKeysOf,
    /** names of the nodes with which it ends */
    endsWithNode: ({ metadata: { ownerReferences = [] }, spec }) =>
      spec.isSystem ? ownerReferences.map(({ name }) => name) : [],
    /** names of the roles that its entries name */
    role: ({ spec }) => [
      ...new Set((spec.microservices ?? []).flatMap(({ serviceAccount }) => serviceAccount?.roleRef.name ?? [])),
    ],
    /** `name:<node>` and `uuid:<node>` */
    node: nodeRefsOf,
    /** uuids of its microservices */
    microservice: entryUuidsOf,
    /** uuids of nodes that microservices left and that may still have their containers */
    left: formerNodeUuidsOf,
  },
});

/** Kinds that are bound by the uuid of a microservice over REST. */
const NAMED_WITH_UUID: ReadonlySet<string> = new Set(['models', 'knowledge']);

/** The kinds that an application and its entries refer to, by key. */
export const referencedByApplications = (): readonly string[] => ['applicationTemplates', ...Object.keys(REFERENCES)];

/** What an entry of an application refers to, by the key of the kind: numbers and v3 names. */
const REFERENCES: Readonly<
  Record<string, (entry: MicroserviceEntry, application: Application) => readonly (number | string)[]>
> = {
  registries: registryRefsOf,
  models: ({ models }) => itemNames(models),
  knowledge: ({ knowledge }) => itemNames(knowledge),
  catalogItems: catalogItemRefsOf,
  microserviceTemplates: ({ template }) => (template ? [template.name] : []),
  runtimeClasses: ({ container }) => (container?.runtime ? [container.runtime] : []),
  // The account of an entry, of which there may be an object, is called like the entry.
  serviceAccounts: ({ name }, application) => [`${v3Name(application)}/${name}`],
  volumeMounts: volumeMountsOf,
  secrets: ({ container }) => (container?.env ?? []).flatMap(({ valueFromSecret }) => nameIn(valueFromSecret)),
  configMaps: ({ container }) => (container?.env ?? []).flatMap(({ valueFromConfigMap }) => nameIn(valueFromConfigMap)),
};

const itemNames = (catalog: MicroserviceEntry['models']) => (catalog?.items ?? []).map(({ name }) => name);
/** The name in `name/key`. */
const nameIn = (reference: string | undefined) =>
  reference === undefined ? [] : [reference.slice(0, reference.indexOf('/'))];

function referencesOf(application: Application): readonly Reference[] {
  const { microservices = [], template } = application.spec;
  const found = new Map<string, Reference>();
  if (template) found.set('template', { to: 'applicationTemplates', ref: template.name });
  for (const [to, refsOf] of Object.entries(REFERENCES))
    for (const entry of microservices)
      for (const ref of refsOf(entry, application)) found.set(referenceKey({ to, ref }), { to, ref });
  return [...found.values()];
}

/** uuids of an application's microservices. */
export function entryUuidsOf(application: Application): readonly string[] {
  return (application.spec.microservices ?? []).map((entry) => entryUuid(application, entry));
}
