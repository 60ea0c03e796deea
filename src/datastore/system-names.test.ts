import { describe, expect, test } from 'vitest';
import { EVERY_KIND, stored, systemChains } from '../../testing/system-references.ts';
import { LABELS } from '../api/names.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import type { Log } from '../lib/log.ts';
import { NAMES_LENGTH } from '../rules/system-names.ts';
import { createStores, storeOf } from './stores.ts';
import { trackSystemNames } from './system-names.ts';

const NAMESPACE = 'plant';
let version = 1;

function setUp() {
  const stores = createStores({ namespace: NAMESPACE });
  const warnings: string[] = [];
  const log = { warn: (_: unknown, text: string) => warnings.push(text) } as unknown as Log;
  return {
    stores,
    warnings,
    log,
    sync() {
      for (const store of Object.values(stores)) store.swap([], '1');
    },
    put: (kind: Kind, object: KindObject) =>
      storeOf(stores, kind).set(structuredClone(stored(object, NAMESPACE, ++version))),
    remove: (kind: Kind, object: KindObject) =>
      storeOf(stores, kind).remove(structuredClone(stored(object, NAMESPACE, ++version))),
  };
}

const APPLICATIONS = EVERY_KIND.applications as Kind;
const usedBySystem = (object: KindObject): KindObject => ({
  ...object,
  metadata: { ...object.metadata, labels: { ...object.metadata.labels, [LABELS.usedBySystem]: 'true' } },
});
/** An application of the system whose microservice has a runtime class. */
const application = (name: string, runtime: string, spec: object = { isSystem: true }) =>
  ({
    apiVersion: 'skerry.dev/v3',
    kind: 'Application',
    metadata: { name },
    spec: { ...spec, microservices: [{ name: 'part', container: { runtime } }] },
  }) as unknown as KindObject;

describe.each(await systemChains())('of $title', ({ application: user, links }) => {
  const last = links.at(-1) as (typeof links)[number];
  const { plural } = last.kind.definition;
  const line = `\n${typeof last.ref === 'number' ? 'id' : 'name'}:${last.ref}\n`;

  test('a name without an object is written down while an application of the system leads to it', () => {
    const { stores, sync, put, remove } = setUp();
    using names = trackSystemNames(stores);
    sync();
    for (const { kind, object } of links.slice(0, -1)) put(kind, usedBySystem(object));
    put(APPLICATIONS, { ...user, metadata: { name: 'plant' }, spec: { ...user.spec, isSystem: false } as never });
    const isDirect = links.length === 1;
    if (isDirect) expect(names.data()[plural]).toBeUndefined();
    // The name of an account has that of its application, which is judged by its prefix when it is one of a node.
    const called = last.kind.key === 'serviceAccounts' ? { metadata: { name: 'plant' } } : {};
    const expected = last.kind.key === 'serviceAccounts' ? line.replace('system-plant', 'plant') : line;
    const named = { ...user, ...called };
    put(APPLICATIONS, named);
    expect(names.data()[plural]).toContain(expected);
    using later = trackSystemNames(stores);
    expect(later.data()).toEqual(names.data());
    if (!isDirect) return;
    remove(APPLICATIONS, named);
    expect(names.data()[plural]).toBeUndefined();
  });
});

test('a name is written down until the last application that names it is gone, and an edit of other things changes nothing', () => {
  const { stores, sync, put, remove } = setUp();
  using names = trackSystemNames(stores);
  sync();
  put(APPLICATIONS, application('system-a', 'crun'));
  put(APPLICATIONS, application('system-b', 'crun'));
  put(APPLICATIONS, application('shop', 'other', {}));
  const data = names.data();
  expect(data).toEqual({ runtimeclasses: '\nname:crun\n' });
  remove(APPLICATIONS, application('system-a', 'crun'));
  put(APPLICATIONS, application('system-b', 'crun', { isSystem: true, description: 'edited' }));
  expect(names.data()).toBe(data);
  put(APPLICATIONS, application('system-b', 'runc'));
  expect(names.data()).toEqual({ runtimeclasses: '\nname:runc\n' });
});

test('of more names than the bound every name of the kind counts, which the log says once', () => {
  const { stores, warnings, log, sync, put, remove } = setUp();
  using names = trackSystemNames(stores, { log });
  sync();
  const runtime = (n: number) => `${n}-${'r'.repeat(200)}`;
  const count = Math.ceil(NAMES_LENGTH / 200);
  for (let n = 0; n < count; n++) put(APPLICATIONS, application(`system-${n}`, runtime(n)));
  expect(names.data()).toEqual({ runtimeclasses: '*' });
  put(APPLICATIONS, application('system-more', runtime(count)));
  expect(names.data()).toEqual({ runtimeclasses: '*' });
  expect(warnings).toHaveLength(1);
  for (let n = 1; n < count; n++) remove(APPLICATIONS, application(`system-${n}`, runtime(n)));
  expect(names.data().runtimeclasses?.trim().split('\n')).toHaveLength(2);
});
