import { ARCHITECTURES } from '../../../src/api/names.ts';
import type {
  Application,
  CatalogItem,
  EdgeNode,
  MicroserviceEntry,
  ObservedMicroservice,
} from '../../../src/api/v3/index.ts';
import type { Service } from '../../../src/api/v3/service.ts';
import { holderIn } from '../../../src/datastore/holder.ts';
import { refsTo } from '../../../src/kinds/definition.ts';
import { nodeUuid } from '../../../src/rules/identity.ts';
import { entryUuid, v3Name } from '../../../src/rules/names.ts';
import { imageFor, normalEntry } from '../../../src/rules/normal-entry.ts';
import { imageSourceOf } from '../../../src/subjects/catalog/rules/catalog-images.ts';
import { KINDS } from '../../../src/subjects/kinds.ts';
import { archOf } from '../../../src/subjects/nodes/rules/settings.ts';
import { provisioningOf } from '../../../src/subjects/services/rules/provisioning.ts';
import { imageText } from '../../../src/terminal/image.ts';
import { duration } from '../../../src/terminal/output.ts';

/** The columns of `get`: from objects to texts. */

export interface Column<T> {
  title: string;
  wide?: true;
  /** changes by itself with the time */
  isTime?: true;
  of(row: T): string;
  /** the text without -o wide, where it is another */
  brief?(row: T): string;
}

/** How good a state is; the colour of its text. */
export type Tone = 'good' | 'busy' | 'bad' | 'plain';

const READY_TONES: Readonly<Record<string, Tone>> = { True: 'good', False: 'bad', Unknown: 'busy' };

type Conditioned = {
  status?: { conditions?: readonly { type: string; status: string; reason: string; message: string }[] };
};
export const readyOf = ({ status }: Conditioned) => status?.conditions?.find(({ type }) => type === 'Ready');

/** The tone of the condition Ready; what is being carried out is busy, not bad. */
export function toneOf(object: Conditioned): Tone {
  const isWorking = object.status?.conditions?.some(({ type, status }) => type === 'Reconciling' && status === 'True');
  const tone = READY_TONES[readyOf(object)?.status ?? ''] ?? 'busy';
  return tone === 'bad' && isWorking ? 'busy' : tone;
}

export interface NodeRow {
  node: EdgeNode;
  /** Unix ms */
  now: number;
}

/** `time`: RFC 3339, or Unix ms. */
const since = (time: string | number | undefined, now: number) =>
  time === undefined ? '' : (duration((now - new Date(time).getTime()) / 1000).split(' ')[0] ?? '');

export const NODE_COLUMNS: readonly Column<NodeRow>[] = [
  { title: 'NAME', of: ({ node }) => v3Name(node) },
  { title: 'READY', of: ({ node }) => readyOf(node)?.status ?? 'Unknown' },
  { title: 'STATUS', of: ({ node }) => node.status?.daemonStatus ?? '' },
  { title: 'MICROSERVICES', of: ({ node }) => node.status?.microserviceCount ?? '' },
  { title: 'VERSION', of: ({ node }) => node.status?.version ?? '' },
  { title: 'LAST-SEEN', isTime: true, of: ({ node, now }) => since(node.status?.silentSince, now) },
  { title: 'AGE', isTime: true, of: ({ node, now }) => since(node.metadata.creationTimestamp, now) },
  { title: 'PLATFORM', wide: true, of: ({ node }) => node.status?.platformStatus?.phase ?? '' },
  { title: 'ADDRESS', wide: true, of: ({ node }) => node.status?.ipAddress ?? '' },
  { title: 'ARCH', wide: true, of: ({ node }) => ARCHITECTURES[archOf(node)] ?? '' },
  { title: 'ENGINE', wide: true, of: ({ node }) => node.status?.containerEngine ?? '' },
  { title: 'UUID', wide: true, of: ({ node }) => nodeUuid(node) },
  { title: 'CONFIRMED', wide: true, isTime: true, of: ({ node, now }) => since(node.status?.lastSeenTime, now) },
  { title: 'MESSAGE', wide: true, of: ({ node }) => readyOf(node)?.message ?? '' },
];

export interface ApplicationRow {
  application: Application;
  now: number;
}

export const APPLICATION_COLUMNS: readonly Column<ApplicationRow>[] = [
  { title: 'NAME', of: ({ application }) => v3Name(application) },
  { title: 'READY', of: ({ application }) => application.status?.ready ?? '' },
  { title: 'STATUS', of: ({ application }) => readyOf(application)?.reason ?? '' },
  { title: 'NODES', of: ({ application }) => nodesOf(application) },
  { title: 'AGE', isTime: true, of: ({ application, now }) => since(application.metadata.creationTimestamp, now) },
  { title: 'UUID', wide: true, of: ({ application }) => application.status?.uuid ?? '' },
  { title: 'MESSAGE', wide: true, of: ({ application }) => readyOf(application)?.message ?? '' },
];

/** Names of the nodes of an application: up to three, and how many more. */
function nodesOf({ spec }: Application): string {
  const names = [...new Set((spec.microservices ?? []).map(({ agent }) => agent?.name ?? agent?.uuid ?? '<none>'))];
  return names.length > 3 ? `${names.slice(0, 3).join(',')} +${names.length - 3}` : names.join(',');
}

export interface ServiceRow {
  service: Service;
  now: number;
}

export const SERVICE_COLUMNS: readonly Column<ServiceRow>[] = [
  { title: 'NAME', of: ({ service }) => service.metadata.name },
  { title: 'TYPE', of: ({ service }) => service.spec.type },
  { title: 'RESOURCE', of: ({ service }) => `${service.spec.resource}:${service.spec.targetPort}` },
  { title: 'PORT', of: ({ service }) => String(service.status?.bridgePort ?? '') },
  { title: 'READY', of: ({ service }) => readyOf(service)?.status ?? 'Unknown' },
  { title: 'STATE', of: ({ service }) => provisioningOf(service).provisioningStatus },
  { title: 'LISTENERS', of: ({ service: { status } }) => countOf(status?.listeners) },
  { title: 'AGE', isTime: true, of: ({ service, now }) => since(service.metadata.creationTimestamp, now) },
  { title: 'ENDPOINT', wide: true, of: ({ service }) => service.status?.serviceEndpoint ?? '' },
  { title: 'TAGS', wide: true, of: ({ service }) => (service.spec.tags ?? []).join(',') },
  { title: 'MESSAGE', of: messageOf, brief: (row) => beginningOf(messageOf(row)) },
];

const countOf = (listeners: { up: number; of: number } | undefined): string =>
  listeners ? `${listeners.up}/${listeners.of}` : '';

/** The first of its conditions that is not as it should be, in the order in which a client depends on them. */
function messageOf({ service }: ServiceRow): string {
  const conditions = service.status?.conditions ?? [];
  const found = ['Ready', 'Connected', 'Listening', 'Reachable'].flatMap((type) =>
    conditions.filter((one) => one.type === type),
  );
  const { message = '' } = found.find(({ status }) => status !== 'True') ?? {};
  const { listeners: { up = 0, of = 0 } = {} } = service.status ?? {};
  return message || (up < of ? (found.find(({ type }) => type === 'Listening')?.message ?? '') : '');
}

export interface MicroserviceRow {
  application: Application;
  entry: MicroserviceEntry;
  uuid: string;
  /** absent when there is none for its node */
  image?: string;
  /** where it is: the former node, while it cannot move to the node of its entry */
  node?: EdgeNode;
  line?: NonNullable<NonNullable<Application['status']>['microservices']>[number];
  observed?: ObservedMicroservice;
  now: number;
}

/** A row for each entry of these applications, with what its node reports. */
export function microserviceRows(
  applications: readonly Application[],
  nodes: readonly EdgeNode[],
  catalogItems: readonly CatalogItem[],
  now: number,
): MicroserviceRow[] {
  const byName = new Map(nodes.map((node) => [v3Name(node), node]));
  const byUuid = new Map(nodes.map((node) => [nodeUuid(node), node]));
  const itemOf = (_: 'catalogItems', ref: number | string) =>
    holderIn(
      KINDS.catalogItems,
      catalogItems.filter((item) => refsTo(KINDS.catalogItems, item).includes(ref)),
      typeof ref === 'number' ? 'id' : 'name',
      ref,
    );
  return applications.flatMap((application) => {
    const lines = new Map(application.status?.microservices?.map((line) => [line.name, line]));
    return (application.spec.microservices ?? []).map((entry) => {
      const uuid = entryUuid(application, entry);
      const line = lines.get(entry.name);
      const asked = entry.agent?.uuid ? byUuid.get(entry.agent.uuid) : byName.get(entry.agent?.name ?? '');
      const node = byUuid.get(line?.nodeUuid ?? '') ?? asked;
      const observed = node?.status?.microservices?.find((item) => item.uuid === uuid);
      const image = imageFor(imageSourceOf(normalEntry(entry), itemOf), node ? archOf(node) : 0);
      return {
        application,
        entry,
        uuid,
        now,
        ...(image !== undefined && { image }),
        ...(node && { node }),
        ...(line && { line }),
        ...(observed && { observed }),
      };
    });
  });
}

/** The node that it is on, with the node of its entry beside it. */
export function nodeText({ entry: { agent }, node }: MicroserviceRow): string {
  const wanted = agent?.name ?? agent?.uuid;
  if (!node) return wanted ?? '<none>';
  const name = v3Name(node);
  const isThere = wanted === undefined || wanted === name || wanted === nodeUuid(node);
  return isThere ? name : `${name} (wanted ${wanted})`;
}

/** The image that runs, with the one that is wanted beside it; the latter alone while the node does not say what runs. */
export const imageOf = ({ image, observed }: MicroserviceRow): string => imageText(observed?.image, image);

export const MICROSERVICE_COLUMNS: readonly Column<MicroserviceRow>[] = [
  { title: 'APPLICATION', of: ({ application }) => v3Name(application) },
  { title: 'NAME', of: ({ entry }) => entry.name },
  { title: 'NODE', of: nodeText },
  { title: 'READY', of: ({ line }) => (line ? (line.ready ? 'True' : 'False') : 'Unknown') },
  { title: 'STATE', of: ({ line }) => line?.state ?? '' },
  { title: 'RESTARTS', of: ({ observed }) => String(observed?.restartCount ?? 0) },
  {
    title: 'UP',
    isTime: true,
    of: ({ observed, now }) => (observed?.state === 'RUNNING' ? since(observed.startTime, now) : ''),
  },
  { title: 'IMAGE', wide: true, of: imageOf },
  { title: 'UUID', wide: true, of: ({ uuid }) => uuid },
  { title: 'MESSAGE', of: ({ line }) => line?.message ?? '', brief: ({ line }) => beginningOf(line?.message ?? '') },
];

/** Characters of a message in a table that is not wide. */
const BRIEF_LENGTH = 100;

const beginningOf = (text: string) => (text.length > BRIEF_LENGTH ? `${text.slice(0, BRIEF_LENGTH - 3)}...` : text);

export const microserviceTone = ({ line }: MicroserviceRow): Tone => (line ? (line.ready ? 'good' : 'busy') : 'plain');
