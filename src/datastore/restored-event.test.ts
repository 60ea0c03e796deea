import { expect, test } from 'vitest';
import type { EventInput, KubeObject } from '../kube/mod.ts';
import { reportRestores } from './restored-event.ts';

test('a restore that a replica finds is an event on the Lease, whether or not the replica leads', () => {
  const events: [string | undefined, EventInput][] = [];
  const listeners = new Set<(lost: string, now: string) => void>();
  const lease: KubeObject = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'l' } };
  const recorder = {
    record: ({ kind }: KubeObject, event: EventInput) => void events.push([kind, event]),
    [Symbol.asyncDispose]: async () => {},
  };
  const epochs = {
    onRestored(listener: (lost: string, now: string) => void) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
  };
  reportRestores(epochs, recorder, lease);
  for (const listener of listeners) listener('4.aaaaaaaa.7', '5.bbbbbbbb.0');
  expect(events).toEqual([['Lease', expect.objectContaining({ type: 'Warning', reason: 'DatastoreRestored' })]]);
  expect(events[0]?.[1].note).toMatch(/up to position 4\.aaaaaaaa\.7, and goes on at 5\.bbbbbbbb\.0/);
});
