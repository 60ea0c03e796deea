import type { ResourceOf } from '../../../src/api/resources.ts';
import { duration, table } from '../../../src/terminal/output.ts';
import type { CommandContext } from '../context/command.ts';

interface EventObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; creationTimestamp?: string };
  type?: string;
  reason?: string;
  note?: string;
  regarding?: { uid?: string };
  series?: { count: number; lastObservedTime?: string };
  eventTime?: string | null;
  deprecatedLastTimestamp?: string | null;
}

const EVENTS: ResourceOf<EventObject> = {
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
};

/** How many events are shown, the latest last. */
const SHOWN = 15;

/** Whether the note of an event of an application names a microservice: as a part of `Ready`, or as what a session is about. */
const names = (note: string | undefined, microservice: string) =>
  ` ${note}`.includes(` ${microservice}: `) || ` ${note} `.includes(` microservice ${microservice} `);

/**
 * The latest events about an object, as a section; empty when there are none. With `microservice` those of an application that
 * name the microservice.
 */
export async function eventsOf(
  { cluster: { client, namespace }, signal, now }: CommandContext,
  { metadata: { uid = '' } }: { metadata: { uid?: string } },
  microservice?: string,
): Promise<string> {
  const { items: all } = await client.list(EVENTS, { namespace, fieldSelector: `regarding.uid=${uid}`, signal });
  const items = all.filter(({ note }) => microservice === undefined || names(note, microservice));
  const timeOf = ({ series, deprecatedLastTimestamp, eventTime, metadata }: EventObject) =>
    series?.lastObservedTime ?? deprecatedLastTimestamp ?? eventTime ?? metadata.creationTimestamp ?? '';
  const sorted = items.toSorted((a, b) => (timeOf(a) < timeOf(b) ? -1 : 1)).slice(-SHOWN);
  if (sorted.length === 0) return '';
  const rows = sorted.map((event) => [
    `${duration((now() - Date.parse(timeOf(event))) / 1000)} ago`,
    event.type ?? '',
    event.reason ?? '',
    event.note ?? '',
  ]);
  return `Events:\n${table(['LAST', 'TYPE', 'REASON', 'MESSAGE'], rows).replace(/^(?=.)/gm, '  ')}`;
}
