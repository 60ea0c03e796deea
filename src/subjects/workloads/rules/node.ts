import { digestUnlessEmpty, sectionDigest } from '../../../rules/section-digest.ts';
import type { MicroserviceHold, MicroserviceView } from '../../../wire/agent.ts';
import type { Digests } from '../../../wire/sections.ts';

/**
 * Digests of the four sections of a list of microservices. Empty lists have a digest too, so that a new agent fetches them once
 * and learns that there is nothing to run.
 */
export function microserviceDigests(microservices: readonly (MicroserviceView | MicroserviceHold)[]): Digests {
  const views = microservices.filter(isView);
  const catalogs = (member: 'models' | 'knowledge') =>
    views.filter((view) => view[member]).map((view) => [view.uuid, view[member]?.items]);
  return {
    microserviceList: sectionDigest(microservices.map((item) => ('hold' in item ? holdForm(item) : listForm(item)))),
    microserviceConfig: sectionDigest(views.map(({ uuid, config }) => [uuid, config])),
    ...digestUnlessEmpty('microserviceModels', catalogs('models')),
    ...digestUnlessEmpty('microserviceKnowledge', catalogs('knowledge')),
  };
}

/** Names of what is on hold are for people: no list is sent again for them. */
const holdForm = ({ application: _application, name: _name, ...hold }: MicroserviceHold) => hold;

const isView = (item: MicroserviceView | MicroserviceHold): item is MicroserviceView => !('hold' in item);

/** A view without members that have a section of their own and without those that depend on the report of the node. */
function listForm({ config, rebuild, models, knowledge, ...view }: MicroserviceView): unknown {
  const withoutItems = (catalog: MicroserviceView['models']) =>
    catalog && { ...catalog, items: catalog.items.length > 0 };
  return { ...view, models: withoutItems(models), knowledge: withoutItems(knowledge) };
}
