import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../../engine-port/error.ts';
import { type Containerd, CRI_NAMESPACE, RECORD_NAMESPACE } from './client.ts';
import { CONTAINERD, containerEvent, exitEvent } from './wire/containerd.ts';
import { decode } from './wire/protobuf.ts';

/** What has happened to a container of CRI, or to a record. */
export interface SeenEvent {
  /** id in CRI, or of the record */
  id: string;
  isRecord: boolean;
  action: string;
}

/** The actions that events of containerd are; all others say nothing about a container's life. */
const ACTIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  [CRI_NAMESPACE]: {
    '/tasks/start': 'start',
    '/tasks/exit': 'die',
    '/tasks/oom': 'oom',
    '/tasks/paused': 'pause',
    '/tasks/resumed': 'unpause',
  },
  [RECORD_NAMESPACE]: { '/containers/create': 'create', '/containers/delete': 'destroy' },
};
const MARK = '/skerry/subscribed/';
const LOOK_EVERY = 25;

/** Events of a containerd, after a first one without an id, `connected`. Ends or throws when the connection is lost. */
export async function* seenEvents(containerd: Containerd, signal: AbortSignal): AsyncGenerator<SeenEvent> {
  // The stream says nothing until something happens: an event of ours, sent until it comes back, shows that it stands.
  const topic = `${MARK}${randomUUID()}`;
  const marked = new AbortController();
  const marking = mark(containerd, topic, AbortSignal.any([signal, marked.signal]));
  marking.catch(() => {});
  try {
    const filters = [CRI_NAMESPACE, RECORD_NAMESPACE].map((namespace) => `namespace==${namespace}`);
    for await (const each of containerd.exchange(CONTAINERD.subscribe, [{ filters }], { signal })) {
      if (each.topic === topic) {
        if (marked.signal.aborted) continue;
        marked.abort();
        yield { id: '', isRecord: false, action: 'connected' };
        continue;
      }
      const action = ACTIONS[each.namespace]?.[each.topic];
      if (!action || !each.event || !marked.signal.aborted) continue;
      if (each.topic === '/tasks/exit') {
        const { containerId, program } = decode(exitEvent, each.event.value);
        if (program === containerId) yield { id: containerId, isRecord: false, action };
      } else {
        const { containerId } = decode(containerEvent, each.event.value);
        yield { id: containerId, isRecord: each.namespace === RECORD_NAMESPACE, action };
      }
    }
    if (!signal.aborted) throw new EngineError('Unavailable', `the engine at ${containerd.url} ended its events`);
  } finally {
    marked.abort();
    await marking.catch(() => {});
  }
}

async function mark(containerd: Containerd, topic: string, signal: AbortSignal): Promise<void> {
  const event = { type: 'skerry.dev/mark', value: Buffer.from('{}') };
  while (!signal.aborted) {
    await containerd.call(CONTAINERD.publish, { topic, event }, { namespace: RECORD_NAMESPACE, signal });
    await sleep(LOOK_EVERY, undefined, { signal });
  }
}
