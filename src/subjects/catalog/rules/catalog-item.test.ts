import { describe, expect, it, test } from 'vitest';
import { makeFind, makeInputs } from '../../../../testing/inputs.ts';
import { FIRST_ID } from '../../../api/names.ts';
import { type CatalogItem, catalogItemSpecSchema, type MicroserviceEntry } from '../../../api/v3/index.ts';
import { desiredState } from '../../../desired/rules/desired.ts';
import { normalEntry } from '../../../rules/normal-entry.ts';
import { makeApplication, makeEntry } from '../../workloads/_make.ts';
import { entryFromFlat, flatFromEntry, patchEntry } from '../../workloads/rules/entry/flat.ts';
import { makeCatalogItem, makeRegistry } from '../_make.ts';
import { imageSourceOf } from './catalog-images.ts';
import {
  BUILT_IN_ITEMS,
  builtInItems,
  catalogItemRead,
  catalogItemRefsOf,
  catalogItemVerdict,
  isSystemItem,
  systemItemError,
} from './catalog-item.ts';

const team = makeRegistry('team', { id: 9 });
const item = makeCatalogItem();
const catalogItem = (ref: number | string) => (ref === 12 || ref === 'reader' ? item : undefined);

describe('the items of the system', () => {
  it('are router, bus and debug, with numbers below those of other items, for every architecture', () => {
    expect(BUILT_IN_ITEMS.map(({ name, spec }) => [name, spec.id, spec.category])).toEqual([
      ['router', 1, 'SYSTEM'],
      ['bus', 2, 'SYSTEM'],
      ['debug', 3, 'SYSTEM'],
    ]);
    for (const { spec } of BUILT_IN_ITEMS) {
      expect(spec.id).toBeLessThan(FIRST_ID);
      expect(catalogItemSpecSchema.parse(spec)).toEqual(spec);
      expect(spec.images.map(({ archId }) => archId)).toEqual([1, 2, 3, 4]);
    }
  });

  it('have the images that an installation names, and else those of the release', () => {
    const [router, bus] = builtInItems({ router: { 2: 'mirror.example/router:1' } });
    expect(router?.spec.images.map(({ containerImage }) => containerImage)).toEqual([
      BUILT_IN_ITEMS[0]?.spec.images[0]?.containerImage,
      'mirror.example/router:1',
      ...Array(2).fill(BUILT_IN_ITEMS[0]?.spec.images[0]?.containerImage),
    ]);
    expect(bus).toEqual(BUILT_IN_ITEMS[1]);
  });

  it('can be used, and neither changed nor deleted', () => {
    const [first] = BUILT_IN_ITEMS;
    const router = { ...makeCatalogItem({}, 'router'), spec: first?.spec } as CatalogItem;
    expect([isSystemItem(router), isSystemItem(item)]).toEqual([true, false]);
    expect(catalogItemVerdict(router, makeFind({}))).toBeUndefined();
    expect(systemItemError(router, 'changed')).toMatchObject({ status: 400, code: 'SYSTEM_CATALOG_ITEM_UPDATE' });
    expect(systemItemError(router, 'deleted')).toMatchObject({ status: 400, code: 'SYSTEM_CATALOG_ITEM_DELETE' });
  });
});

test.each<[string, Parameters<typeof makeCatalogItem>[0], object | undefined]>([
  ['with the public hub', { registryId: 1 }, undefined],
  ['with a registry by name', { registryId: 'team' }, undefined],
  ['with a registry by digits', { registryId: '9' }, undefined],
  ['of another publisher', { publisher: 'Skerrymen' }, undefined],
  [
    "of the system's publisher, in any letter case",
    { publisher: ' sKERRY ' },
    { reason: 'PublisherReserved', status: 400, code: 'RESTRICTED_PUBLISHER', field: 'publisher' },
  ],
  [
    'with a registry that does not exist',
    { registryId: 77 },
    { reason: 'RegistryNotFound', status: 404, code: 'REGISTRY_NOT_FOUND', field: 'registryId' },
  ],
  [
    'with a registry of type hub',
    { registryId: 'models' },
    { reason: 'RegistryWrongType', status: 400, code: 'INVALID_REGISTRY_TYPE', field: 'registryId' },
  ],
])('an item %s is judged', (_, spec, want) => {
  const find = makeFind({ registries: [team, makeRegistry('models', { id: 10, type: 'hf' })] });
  const verdict = catalogItemVerdict(makeCatalogItem(spec), find);
  if (want) expect(verdict).toMatchObject(want);
  else expect(verdict).toBeUndefined();
});

describe('an entry that names a catalog item', () => {
  const entry = makeEntry({ images: { amd64: 'own:1', registry: 'local', catalogId: 12 } });
  const inputs = (spec: Parameters<typeof makeCatalogItem>[0] = {}, given: MicroserviceEntry = entry) =>
    makeInputs({
      applications: [makeApplication({ entries: [given] })],
      catalogItems: [makeCatalogItem(spec)],
      registries: [team],
    });
  const viewOf = (spec?: Parameters<typeof makeCatalogItem>[0]) => desiredState(inputs(spec)).microservices[0];

  it('has the images and the registry of the item, whatever it names itself', () => {
    expect(imageSourceOf(normalEntry(entry), makeFind({ catalogItems: [item] }))).toEqual({
      images: { amd64: 'reg.example/reader:2' },
      registry: 1,
      item,
    });
    expect(imageSourceOf(normalEntry(entry), makeFind({}))).toEqual({ images: {} });
  });

  it('is sent with them, and with the credentials of that registry', () => {
    const desired = desiredState(inputs({ registryId: 'team' }));
    expect(desired.microservices).toMatchObject([{ imageId: 'reg.example/reader:2', registryId: 9 }]);
    expect(desired.registries.map(({ id }) => id)).toEqual([9]);
  });

  it('gets another revision when the image or the registry of the item changes, and with nothing else of it', () => {
    const before = viewOf();
    expect(
      viewOf({ description: 'other', images: [...item.spec.images, { archId: 2, containerImage: 'b:1' }] }),
    ).toEqual(before);
    for (const change of [{ images: [{ archId: 1, containerImage: 'reg.example/reader:3' }] }, { registryId: 9 }]) {
      const after = viewOf(change);
      expect(after).toMatchObject({ revision: expect.stringMatching(/^r1-/) });
      expect(after).not.toMatchObject({ revision: (before as { revision: string }).revision });
    }
  });

  it('has the revision of an entry with the same image and registry of its own', () => {
    const own = makeEntry({ images: { amd64: 'reg.example/reader:2', registry: 'team' } });
    expect(viewOf({ registryId: 9 })).toEqual(desiredState(inputs({}, own)).microservices[0]);
  });

  it('refers to the item by number or name', () => {
    expect(catalogItemRefsOf(entry)).toEqual([12]);
    expect(catalogItemRefsOf(makeEntry({ images: { catalogId: 'reader' } }))).toEqual(['reader']);
    expect(catalogItemRefsOf(makeEntry({ images: { amd64: 'a', catalogId: 0 } }))).toEqual([]);
  });

  it('is read with the images, the registry and the number of the item', () => {
    const named = makeEntry({ images: { catalogId: 'reader' } });
    expect(flatFromEntry(named, { catalogItem, registryId: (ref) => (ref === 1 ? 1 : undefined) })).toMatchObject({
      catalogItemId: 12,
      images: [{ archId: 1, containerImage: 'reg.example/reader:2' }],
      registryId: 1,
    });
  });
});

describe('a body with images and a catalog item', () => {
  const body = { name: 'm', agentName: 'gw-1', catalogItemId: 12 };
  const own = [{ archId: 1, containerImage: 'reg.example/reader:2' }];

  it('is accepted with the images of the item', () => {
    const { entry } = entryFromFlat({ ...body, images: own }, { catalogItem });
    expect(patchEntry(entry, { images: own }, { catalogItem }).entry).toEqual(entry);
    expect(entryFromFlat({ ...body, images: [] }, { catalogItem }).entry.images).toEqual({ catalogId: 12 });
  });

  test.each([
    [
      'another image',
      [{ archId: 1, containerImage: 'reg.example/reader:3' }],
      /"reg.example\/reader:3" for amd64.*has "reg/,
    ],
    ['an image for an architecture that the item lacks', [{ archId: 2, containerImage: 'a:1' }], /for arm64.*has none/],
  ])('is refused with %s', (_, images, message) => {
    const error = {
      status: 400,
      code: 'CATALOG_NOT_MATCH_IMAGES',
      field: 'images',
      message: expect.stringMatching(message),
    };
    expect(() => entryFromFlat({ ...body, images }, { catalogItem })).toThrow(expect.objectContaining(error));
    const { entry } = entryFromFlat(body);
    expect(() => patchEntry(entry, { images }, { catalogItem })).toThrow(expect.objectContaining(error));
    expect(() => patchEntry(entry, { images, catalogItemId: null }, { catalogItem })).not.toThrow();
  });
});

it('a read has every member, and the number of a registry that the item names', () => {
  expect(catalogItemRead(makeCatalogItem({ registryId: 'team' }), (ref) => (ref === 'team' ? 9 : undefined))).toEqual({
    name: 'reader',
    description: '',
    category: '',
    publisher: '',
    images: [{ archId: 1, containerImage: 'reg.example/reader:2' }],
    diskRequired: 0,
    ramRequired: 0,
    picture: '',
    isPublic: false,
    registryId: 9,
    configExample: '',
    inputType: {},
    outputType: {},
  });
});
