import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import {
  BUS_CA,
  BUS_CA_FILE,
  BUS_SERVER_PORT,
  type BusAccess,
  busAccessOf,
  hasBusAccess,
} from '../../../rules/bus-access.ts';
import type { BusLookups } from '../../../rules/bus-lookups.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { NodeInputs } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import type { NormalEntry } from '../../../rules/normal-entry.ts';
import type { SystemFileSet } from '../../../rules/system-files.ts';
import { busCredsSet } from '../../../wire/system-files.ts';
import { busModeOf } from './modes.ts';

/** The server of the bus on a node, while the bus is on. */
const localBusOf = (node: EdgeNode) =>
  busModeOf(node, true) === 'none'
    ? undefined
    : { serverPort: node.spec.busServerPort ?? BUS_SERVER_PORT, hasTls: node.spec.busClientTls === true };

interface EntryOnNode {
  application: Application;
  entry: NormalEntry;
  node: EdgeNode;
}

/**
 * What the container of an entry gets of the bus on a node: `no server` where it has access and reaches none; undefined without
 * access.
 */
export function busAccessOn(
  { application, entry, node }: EntryOnNode,
  bus: BusLookups | undefined,
): BusAccess | 'no server' | undefined {
  if (!bus || !hasBusAccess(application, entry)) return undefined;
  const hub = bus.hubFor(nodeUuid(node));
  const access = busAccessOf({
    application: v3Name(application),
    microservice: entry.name,
    hostNetwork: entry.container.hostNetworkMode === true,
    localBus: localBusOf(node),
    hub: hub && { host: hub.host, serverPort: hub.port, hasTls: hub.hasTls === true },
  });
  return access ?? 'no server';
}

/** The credentials of an entry as files of the system on its node; undefined until they are made, and without access. */
export function busCredsOf(
  { uuid, ...on }: EntryOnNode & { uuid: string },
  { bus, platform }: Pick<NodeInputs, 'bus' | 'platform'>,
): [SystemFileSet] | undefined {
  const access = busAccessOn(on, bus);
  if (!access || access === 'no server') return undefined;
  const user = bus?.userOf(uuid, v3Name(on.application));
  const creds = user && platform?.secret(user.secret)?.creds;
  const ca = access.caPath === undefined ? undefined : platform?.secret(BUS_CA.secret)?.[BUS_CA.key];
  if (creds === undefined || (access.caPath !== undefined && ca === undefined)) return undefined;
  return [{ name: busCredsSet(uuid), files: { [access.file]: creds, ...(ca !== undefined && { [BUS_CA_FILE]: ca }) } }];
}
