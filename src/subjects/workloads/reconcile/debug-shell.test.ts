import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { ANNOTATIONS, BUILT_IN_CATALOG_ITEMS } from '../../../api/names.ts';
import type { Application } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { debugShellOf } from '../rules/debug-shell.ts';

/** What becomes of debug shells, with REST and all reconcilers over an API server in memory. */
const MINUTE = 60_000;
const NAME = 'system-gateway-0';
let fleet: InMemoryController;
let sessions: ReturnType<typeof createSessions>;

function createSessions() {
  const open: { microserviceUuid: string }[] = [];
  const listeners = new Set<(node: string) => void>();
  return {
    open,
    isComplete: true,
    lists: (node: string) => ({ exec: node === uuid() ? open : [] }),
    subscribe(listener: (node: string) => void) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    tell() {
      for (const listener of listeners) listener(uuid());
    },
  };
}

beforeEach(async () => {
  sessions = createSessions();
  fleet = await startInMemoryController(2, { sessions });
  await fleet.settle();
});
afterEach(() => fleet?.[Symbol.asyncDispose]());

const uuid = () => nodeUuid(fleet.node(0));
const shell = (): Application | undefined => fleet.stores.applications.get(NAMESPACE, NAME);
const ask = async () => {
  expect(await fleet.rest('POST', `/node/${uuid()}/exec`)).toBe(204);
  await fleet.settle();
};
async function after(ms: number) {
  fleet.time.now += ms;
  sessions.tell();
  await fleet.settle();
}
async function begin() {
  sessions.open.push({ microserviceUuid: debugShellOf(shell() as Application)?.uuid ?? '' });
  await after(0);
}
async function end() {
  sessions.open.length = 0;
  await after(0);
}

test('a debug shell reaches its node, and without a session it goes after an hour, with its application', async () => {
  await ask();
  const views = fleet.desired(uuid())?.microservices;
  expect(views).toContainEqual(
    expect.objectContaining({ name: 'debug', isSystem: true, imageId: BUILT_IN_CATALOG_ITEMS.debug.image }),
  );
  await after(59 * MINUTE);
  expect(shell()).toBeDefined();
  await after(2 * MINUTE);
  expect(shell()).toBeUndefined();
});

test('a debug shell stays while a session is open, also past its time, and goes a minute after the last one', async () => {
  await ask();
  await begin();
  await after(120 * MINUTE);
  expect(shell()).toBeDefined();
  await end();
  await after(MINUTE / 2);
  expect(shell()).toBeDefined();
  await begin();
  await end();
  await after(MINUTE / 2);
  expect(shell()).toBeDefined();
  await after(MINUTE / 2);
  expect(shell()).toBeUndefined();
});

test('a leader that does not know all sessions yet removes no debug shell', async () => {
  await ask();
  sessions.isComplete = false;
  await after(120 * MINUTE);
  expect(shell()).toBeDefined();
  sessions.isComplete = true;
  await after(0);
  expect(shell()).toBeUndefined();
});

test('a new leader leaves a shell past its time for a minute, in which its user comes again', async () => {
  await ask();
  await begin();
  await after(90 * MINUTE);
  sessions.open.length = 0;
  await fleet.nextTerm();
  expect(shell()).toBeDefined();
  await begin();
  await after(MINUTE * 2);
  expect(shell()).toBeDefined();
  await end();
  await after(MINUTE);
  expect(shell()).toBeUndefined();
});

test('a new leader removes a shell past its time after a minute without a session', async () => {
  await ask();
  await begin();
  await after(90 * MINUTE);
  sessions.open.length = 0;
  await fleet.nextTerm();
  await after(MINUTE);
  expect(shell()).toBeUndefined();
});

test('an application of users with the annotations of a debug shell stays as it is', async () => {
  await ask();
  const copy = structuredClone(shell()) as Application;
  const metadata = { name: 'mine', namespace: NAMESPACE, annotations: copy.metadata.annotations };
  const [entry] = copy.spec.microservices ?? [];
  const { uuid: _, ...fields } = entry ?? { name: 'debug' };
  await fleet.cluster.client.create(fleet.stores.applications.resource, {
    apiVersion: copy.apiVersion,
    kind: copy.kind,
    metadata,
    spec: { isActivated: true, microservices: [fields] },
  } as unknown as Application);
  await after(120 * MINUTE);
  expect(shell()).toBeUndefined();
  expect(fleet.stores.applications.get(NAMESPACE, 'mine')?.spec.microservices).toHaveLength(1);
});

test('an application that has other microservices by then stays, without the shell', async () => {
  await ask();
  const router = { name: 'router', agent: { uuid: uuid() }, images: { amd64: 'r:1' } };
  const body = { spec: { microservices: [...(shell()?.spec.microservices ?? []), router] } };
  const { resource } = fleet.stores.applications;
  await fleet.cluster.client.patch(resource, { name: NAME, namespace: NAMESPACE }, { type: 'merge', body });
  await after(120 * MINUTE);
  expect(shell()?.spec.microservices).toMatchObject([{ name: 'router' }]);
  expect(Object.keys(shell()?.metadata.annotations ?? {})).toEqual([ANNOTATIONS.storedBy]);
});

test('DELETE removes the shell at once, and once more has no effect', async () => {
  await ask();
  expect(await fleet.rest('DELETE', `/node/${uuid()}/exec`)).toBe(204);
  await fleet.settle();
  expect(shell()).toBeUndefined();
  expect(await fleet.rest('DELETE', `/node/${uuid()}/exec`)).toBe(204);
});
