import type { Application } from '../../../../api/v3/index.ts';
import { applicationUuid, nodeUuid } from '../../../../rules/identity.ts';
import type { Lookups, NodeInputs } from '../../../../rules/inputs.ts';
import { entryUuid, v3Name } from '../../../../rules/names.ts';
import { holder } from '../../../../rules/precedence.ts';
import { entriesOn, isSame } from '../../../nodes/rules/placement/entries.ts';

/** Lookups for the entries of one node. */
export function lookupsOf(inputs: NodeInputs): Lookups {
  const { node, applications, find, linked, nodeByName, secret, configMap, bus } = inputs;
  const uuid = nodeUuid(node);
  return {
    find,
    linkedTo: () => linked,
    nodeByName: (name) => {
      const found = nodeByName(name) ?? (name === v3Name(node) ? node : undefined);
      // this node in the version that the inputs have
      return found && nodeUuid(found) === uuid ? node : found;
    },
    nodeByUuid: (wanted) => (wanted === uuid ? node : undefined),
    applicationsOn: () => applications,
    applicationByName:
      inputs.applicationByName ??
      ((name) => holder(applications.filter((application) => v3Name(application) === name))),
    ...(inputs.applicationByUuid && { applicationByUuid: inputs.applicationByUuid }),
    applicationsWithEntry:
      inputs.applicationsWithEntry ?? ((wanted) => applications.filter((app) => hasEntry(app, wanted))),
    secret,
    configMap,
    ...(bus && { bus }),
  };
}

/** Lookups with this application in place of its stored form, to check a write before it is made. */
export function lookupsWith(lookups: Lookups, application: Application): Lookups {
  const others = (applications: readonly Application[]) => applications.filter((other) => !isSame(other, application));
  const name = v3Name(application);
  return {
    ...lookups,
    applicationsOn: (node) => {
      const before = lookups.applicationsOn(node);
      const concerns = entriesOn(application, node).length > 0 || before.some((other) => isSame(other, application));
      return [...others(before), ...(concerns ? [application] : [])];
    },
    applicationByName: (wanted) => {
      const stored = lookups.applicationByName(wanted);
      return wanted === name && (!stored || isSame(stored, application)) ? application : stored;
    },
    applicationByUuid: (wanted) => {
      const stored = lookups.applicationByUuid?.(wanted);
      return wanted === applicationUuid(application) && (!stored || isSame(stored, application)) ? application : stored;
    },
    applicationsWithEntry: (uuid) => [
      ...others(lookups.applicationsWithEntry(uuid)),
      ...(hasEntry(application, uuid) ? [application] : []),
    ],
  };
}

const hasEntry = (application: Application, uuid: string) =>
  (application.spec.microservices ?? []).some((entry) => entryUuid(application, entry) === uuid);
