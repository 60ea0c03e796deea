import type { Application, EdgeNode } from '../src/api/v3/index.ts';
import type { BusAccountRef, BusLookups, BusUserRef } from '../src/rules/bus-lookups.ts';
import { nodeUuid } from '../src/rules/identity.ts';
import type { Find, FoundObjects, KeyedText, Linked, Lookups, NodeInputs } from '../src/rules/inputs.ts';
import { entryUuid, v3Name } from '../src/rules/names.ts';
import type { Base64ByKey } from '../src/rules/system-files.ts';
import { hubSettings } from '../src/subjects/bus-servers/rules/hub.ts';
import { makeNode } from '../src/subjects/nodes/_make.ts';
import { entriesOn } from '../src/subjects/nodes/rules/placement/entries.ts';
import { nodesOfLeaving } from '../src/subjects/nodes/rules/placement/moves.ts';
import { makeApplication } from '../src/subjects/workloads/_make.ts';

/** Inputs of rules, over objects that a test makes. */

export const NOW = '2026-01-02T03:04:05.000Z';

interface Things extends Referenced {
  nodes?: readonly EdgeNode[];
  applications?: readonly Application[];
  secrets?: readonly KeyedText[];
  configMaps?: readonly KeyedText[];
  bus?: BusLookups;
}

const hubAddress = (hub: ReturnType<BusLookups['hub']>) => hub && { host: hub.host, port: hub.serverPort };

/** Refs of accounts and users as tests write them. */
type Plain<Ref> = Omit<Ref, 'content'>;
interface PlainBus extends Omit<BusLookups, 'userOf' | 'usersOfNode' | 'account' | 'accounts'> {
  userOf: (...args: Parameters<BusLookups['userOf']>) => Plain<BusUserRef> | undefined;
  usersOfNode: (node: string) => readonly Plain<BusUserRef>[];
  account: (name: string) => Plain<BusAccountRef> | undefined;
  accounts: () => readonly Plain<BusAccountRef>[];
}

/** A message bus with these members, which has a hub and nothing else; `secret` has the content of its Secrets. */
export function makeBusLookups(
  members: Partial<PlainBus> = {},
  secret: (name: string) => Base64ByKey | undefined = () => undefined,
): BusLookups {
  const withContent = <Ref extends { secret: string }>(ref: Ref) => ({ ...ref, content: () => secret(ref.secret) });
  const one = <Ref extends { secret: string }>(ref: Ref | undefined) => ref && withContent(ref);
  const { userOf, usersOfNode, account, accounts, ...others } = members;
  return {
    ...plainBus(others),
    userOf: (...args) => one(userOf?.(...args)),
    usersOfNode: (node) => (usersOfNode?.(node) ?? []).map(withContent),
    account: (name) => one(account?.(name)),
    accounts: () => (accounts?.() ?? []).map(withContent),
  };
}

const plainBus = (members: Partial<Pick<BusLookups, 'hub' | 'hubFor'>>): Pick<BusLookups, 'hub' | 'hubFor'> => ({
  hub: () => ({ ...hubSettings({ spec: { host: 'bus.plant.example', serverPort: 4333 } }), host: 'bus.plant.example' }),
  hubFor: () => (members.hub ? hubAddress(members.hub()) : { host: 'bus.plant.example', port: 4333 }),
  ...members,
});

/** Objects by kind, each list sorted by age. */
export type Referenced = { [K in keyof FoundObjects]?: readonly FoundObjects[K][] };

/** Look-ups among these objects. */
export const makeFind =
  (objects: Referenced): Find =>
  (kind, ref) => {
    const known: readonly FoundObjects[typeof kind][] = objects[kind] ?? [];
    return known.find(
      (object) => (typeof ref === 'number' ? (object as { spec?: { id?: number } }).spec?.id : v3Name(object)) === ref,
    );
  };

/** The objects that are linked to a node. */
const linkedIn =
  (objects: Referenced, node: EdgeNode): Linked =>
  (kind) => {
    const names = [v3Name(node), nodeUuid(node)];
    return (objects[kind] ?? []).filter(({ spec }) => spec.nodes?.some((one) => names.includes(one)));
  };

const byName =
  <T extends { name: string }>(items: readonly T[]) =>
  (name: string) =>
    items.find((item) => item.name === name);

/** Lookups over exactly these objects; lists must be sorted by age. */
export function makeLookups({
  nodes = [makeNode()],
  applications = [],
  secrets = [],
  configMaps = [],
  bus,
  ...referenced
}: Things = {}): Lookups {
  return {
    find: makeFind(referenced),
    linkedTo: (node) => linkedIn(referenced, node),
    nodeByName: (name) => nodes.find((node) => v3Name(node) === name),
    nodeByUuid: (uuid) => nodes.find((node) => nodeUuid(node) === uuid),
    applicationsOn: (node) =>
      applications.filter(
        (application) =>
          entriesOn(application, node).length > 0 ||
          nodesOfLeaving(application).includes(nodeUuid(node)) ||
          node.status?.microservices?.some((item) => item.application === v3Name(application)),
      ),
    applicationByName: (name) => applications.find((application) => v3Name(application) === name),
    applicationsWithEntry: (uuid) =>
      applications.filter((application) =>
        application.spec.microservices?.some((entry) => entryUuid(application, entry) === uuid),
      ),
    secret: byName(secrets),
    configMap: byName(configMaps),
    ...(bus && { bus }),
  };
}

/** The same for one node. */
export function makeInputs({ node = makeNode(), ...things }: Things & Partial<NodeInputs> = {}): NodeInputs {
  const { applications = [makeApplication()], secrets = [], configMaps = [], nodes = [] } = things;
  return {
    node,
    applications,
    find: makeFind(things),
    linked: linkedIn(things, node),
    nodeByName: (name) => [node, ...nodes].find((other) => v3Name(other) === name),
    secret: byName(secrets),
    configMap: byName(configMaps),
    registryPassword: () => undefined,
    ...('revisionKey' in things && { revisionKey: things.revisionKey }),
    ...(things.bus && { bus: things.bus }),
    ...(things.platform && { platform: things.platform }),
    ...(things.registryPassword && { registryPassword: things.registryPassword }),
    ...(things.applicationByName && { applicationByName: things.applicationByName }),
    ...(things.applicationsWithEntry && { applicationsWithEntry: things.applicationsWithEntry }),
  };
}
