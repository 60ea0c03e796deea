import { expect } from 'vitest';
import type { Reason } from '../../src/api/conditions.ts';
import type { Condition } from '../../src/api/meta.ts';
import { LABELS, SYSTEM_AUTHORITIES } from '../../src/api/names.ts';
import type { Json } from '../example.ts';
import { FORMS } from '../examples.ts';
import type { Fleet } from './fleet.ts';
import { pathOf, shownEntry, shownItem } from './forms.ts';
import {
  containerForm,
  desiredOf,
  find,
  type Item,
  isShadowed,
  type Kind,
  nodeNamed,
  nodeOf,
  of,
  RULES,
  refsOf,
  runs,
  usersOf,
  wrongLinks,
  wrongWith,
  wrongWithItem,
} from './model.ts';
import { perform } from './perform.ts';

/** What holds after every operation, and at the end of a sequence. */

const KINDS = Object.keys(RULES) as Kind[];
const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** Revisions so far: by microservice, the forms by revision and the revisions by form. */
export type Revisions = Map<string, string>;

/** Each node is to have what the model says; a revision changes with what the container is made from, and with nothing else. */
export function checkDesired(fleet: Fleet, revisions: Revisions): void {
  const { state, controller } = fleet;
  for (const node of of(state, 'nodes')) {
    const is = controller.desired(node.uuid ?? '');
    const should = desiredOf(state, node);
    const list = is?.microservices ?? [];
    const entries = list.map((one) =>
      'hold' in one
        ? { uuid: one.uuid, hold: one.reason }
        : { uuid: one.uuid, image: one.imageId, registry: one.registryId, rebuilds: one.rebuildCount },
    );
    const expected = should.running.map(({ application, entry, wrong }) => {
      const uuid = fleet.entryUuid(application, entry.name);
      if (wrong.length > 0) return { uuid, hold: expect.toBeOneOf(wrong.map(({ reason }) => reason)) };
      const image = { image: imageText(state, entry), registry: registryOf(state, entry) };
      return { uuid, ...image, rebuilds: entry.rebuilds };
    });
    expect(entries, `microservices of ${node.name}`).toEqual(
      expected.sort((a, b) => byText(String(a.uuid), String(b.uuid))),
    );
    for (const kind of ['models', 'knowledge', 'runtimeClasses', 'volumeMounts'] as const)
      expect(namesOf(is?.[kind] ?? []), `${kind} of ${node.name}`).toEqual(should[kind].map(({ name }) => name).sort());
    for (const { name, version, data, sourceMissing } of is?.volumeMounts ?? []) {
      const mount = find(state, { to: 'volumeMounts', ref: name });
      const source = mount && find(state, mount.draft.source);
      expect({ name, version, sourceMissing, keys: Object.keys(data).sort() }).toEqual({
        name,
        version: mount?.version,
        sourceMissing: source === undefined,
        keys: Object.keys(source?.draft.data ?? {}).sort(),
      });
    }
    for (const { application, entry, wrong } of should.running) {
      if (wrong.length > 0) continue;
      const uuid = fleet.entryUuid(application, entry.name);
      const view = list.find((one) => one.uuid === uuid);
      const revision = view && 'revision' in view ? view.revision : '';
      const form = containerForm(state, entry);
      for (const [key, value] of [
        [`${uuid} form ${form}`, revision],
        [`${uuid} revision ${revision}`, form],
      ] as const) {
        expect(value, `one revision for one container: ${key}`).toBe(revisions.get(key) ?? value);
        revisions.set(key, value);
      }
    }
  }
}

const namesOf = (items: readonly { name: string }[]) => items.map(({ name }) => name).sort();
const registryOf = (state: Fleet['state'], entry: Parameters<typeof containerForm>[1]) => {
  const item = entry.catalog && find(state, entry.catalog);
  return find(state, item ? item.draft.registry : (entry.registry ?? { to: 'registries', ref: 1 }))?.id;
};
const imageText = (state: Fleet['state'], entry: Parameters<typeof containerForm>[1]) =>
  (entry.catalog && find(state, entry.catalog)?.draft.image) ?? entry.image;

/** Kinds that do not act in the controller of the sequences, and what their objects say. */
const NOT_ACTING: Partial<Record<Kind, Reason>> = { services: 'RoutersDisabled' };

/** What is stored says what is wrong with it, and what is in use is marked. */
export function checkConditions(fleet: Fleet): void {
  const { state } = fleet;
  for (const item of state.items) {
    const object = fleet.stored(item);
    const conditions = (object?.status as { conditions?: Condition[] } | undefined)?.conditions ?? [];
    const ready = conditions.find(({ type }) => type === 'Ready');
    const { inUse } = RULES[item.kind];
    const shown = `${item.kind} ${item.name}`;
    if (inUse)
      expect(object?.metadata.labels?.[LABELS.inUse] === 'true', `${shown} is marked as in use`).toBe(
        usersOf(state, item).length > 0,
      );
    if (item.kind === 'secrets' || item.kind === 'configMaps' || item.kind === 'nodes') continue;
    const found =
      item.kind === 'applications'
        ? item.entries.filter((entry) => runs(item, entry)).flatMap((entry) => wrongWith(state, item, entry))
        : [...wrongWithItem(state, item), ...wrongLinks(state, item)];
    const reasons = [...found.map(({ reason }) => reason), ...[NOT_ACTING[item.kind] ?? []].flat()];
    if (reasons.length > 0)
      expect(ready, `${shown} says what is wrong`).toMatchObject({
        status: 'False',
        reason: expect.toBeOneOf(reasons),
      });
    else if (item.kind !== 'applications') expect(ready, `${shown} can be used`).toMatchObject({ status: 'True' });
  }
}

/** All reads over REST show what the model has. */
export async function checkReads(fleet: Fleet): Promise<void> {
  const { state } = fleet;
  const get = async (path: string) => {
    const { status, body } = await fleet.send({ method: 'GET', path });
    expect(status, `GET ${path} ${JSON.stringify(body)}`).toBe(200);
    return body;
  };
  for (const kind of KINDS) {
    const { path, listPath = path, list, key } = FORMS[kind];
    const body = await get(listPath);
    const items = of(state, kind);
    const listed = (list === undefined ? body : body[list]) as Json[];
    const keyOf = (one: Json) => String(key ? one[key] : one.name);
    const keyOfItem = (item: Item) => String(key ? item[key] : (shownItem(state, item).name ?? item.name));
    // Of two with one name the older has it.
    const named = key ? items : items.filter((item) => !isShadowed(state, item));
    // The Secrets of certificates are the controller's, and last until the collector of the cluster deletes them; so do its authorities.
    const ofController: readonly string[] =
      kind === 'secrets' ? FORMS.certificates.names : kind === 'certificateAuthorities' ? SYSTEM_AUTHORITIES : [];
    const ofUsers = listed.map(keyOf).filter((name) => !ofController.includes(name));
    expect(ofUsers.sort(), `list of ${kind}`).toEqual(named.map(keyOfItem).sort());
    for (const item of items) {
      if (item.isBuiltIn || (!key && isShadowed(state, item))) continue;
      const at = pathOf(kind, item, item.name);
      const read = await get(at);
      const shown = shownItem(state, item);
      expect(read, `GET ${at}`).toMatchObject(shown);
      if (item.kind === 'applications') checkEntries(fleet, item, read.microservices as Json[]);
      if (RULES[kind].unlink) {
        const users = of(state, 'applications').flatMap((application) =>
          application.entries
            .filter((entry) => refsOf(application, entry).some((ref) => ref.to === kind && find(state, ref) === item))
            .map(({ node }) => nodeOf(state, node)),
        );
        const linked = [...item.nodes.map((one) => nodeNamed(state, one)), ...users].flatMap(
          (node) => node?.uuid ?? [],
        );
        expect((await get(`${at}/link`)).fogUuids, `nodes of ${kind} ${item.name}`).toEqual(
          [...new Set(linked)].sort(),
        );
      }
    }
  }
  for (const application of of(state, 'applications')) {
    if (isShadowed(state, application)) continue;
    const { microservices } = await get(`/microservices?application=${application.name}`);
    checkEntries(fleet, application, microservices as Json[]);
    for (const entry of application.entries) {
      const uuid = fleet.entryUuid(application, entry.name);
      expect(await get(`/microservices/${uuid}`)).toMatchObject(shownEntry(state, entry, uuid));
    }
  }
}

function checkEntries(fleet: Fleet, application: Item, reads: readonly Json[]): void {
  const expected = application.entries.map((entry) =>
    shownEntry(fleet.state, entry, fleet.entryUuid(application, entry.name)),
  );
  expect(reads, `microservices of ${application.name}`).toHaveLength(expected.length);
  expect(reads).toMatchObject(expected);
}

/** Kinds whose objects others use, in the order of their deletion; the other kinds come first. */
const DELETION: readonly Kind[] = [
  'serviceAccounts',
  'applications',
  'catalogItems',
  'models',
  'knowledge',
  'volumeMounts',
  'certificateAuthorities',
  'secrets',
  'configMaps',
  'applicationTemplates',
  'microserviceTemplates',
  'runtimeClasses',
  'registries',
  'nodes',
];

/** Everything can be deleted, and nothing is left. */
export async function checkDeletion(fleet: Fleet): Promise<void> {
  const { state } = fleet;
  for (const application of of(state, 'applications'))
    await perform(fleet, { do: 'delete', kind: 'applications', name: application.slot, by: 'rest' });
  for (const kind of [...KINDS.filter((one) => !DELETION.includes(one)), ...DELETION])
    for (const { slot, name, isBuiltIn } of of(state, kind))
      if (!isBuiltIn)
        await perform(fleet, { do: 'delete', kind, name: kind === 'registries' ? slot : name, by: 'rest' });
  expect(state.items.filter(({ isBuiltIn }) => !isBuiltIn)).toEqual([]);
}
