import { expect, test } from 'vitest';
import { registryViewSchema } from '../../../src/wire/agent.ts';
import { newRecord } from '../domain/record.ts';
import { makeEntry, makeView } from './plan/_util.ts';
import { wantedImages } from './wanted-images.ts';

const registries = new Map([[7, registryViewSchema.parse({ id: 7, url: 'https://r.example.com' })]]);

test('the images of microservices are known by their references in full, with the microservices that want them', () => {
  const entry = (name: string, change: object) => makeEntry({ uuid: name, application: 'shop', name, ...change });
  const former = {
    ...newRecord('api'),
    lastGood: makeView({ uuid: 'api', application: 'shop', name: 'api', imageId: 'web:0', registryId: 7 }),
  };
  const desired = [
    entry('web', { imageId: 'web:1', registryId: 7 }),
    entry('api', { imageId: 'r.example.com/web:1', registryId: 2 }),
    entry('hub', { imageId: 'nginx', registryId: 1 }),
    entry('later', { imageId: 'x:1', registryId: 99 }),
  ];
  const wants = {
    desired,
    present: ['api', 'unknown'],
    record: (uuid: string) => (uuid === 'api' ? former : undefined),
  };
  const named = [...wantedImages(wants, registries)].map(([reference, users]) => [
    reference,
    users.map(({ application, name }) => `${application}.${name}`),
  ]);
  expect(Object.fromEntries(named)).toEqual({
    'r.example.com/web:1': ['shop.api', 'shop.web'],
    'r.example.com/web:0': ['shop.api'],
    'docker.io/library/nginx:latest': ['shop.hub'],
  });
});

test('images of what runs are known also while it is not known what the node is to run', () => {
  const record = () => ({
    ...newRecord('a'),
    lastGood: makeView({ uuid: 'a', application: 'shop', name: 'a', imageId: 'a:1', registryId: 1 }),
  });
  const wanted = wantedImages({ desired: [], present: ['a'], record }, registries);
  expect([...wanted.keys()]).toEqual(['docker.io/library/a:1']);
});

test('images of views that may run again are wanted as well', () => {
  const former = makeView({ uuid: 'a', application: 'shop', name: 'a', imageId: 'a:0', registryId: 1 });
  const wants = { desired: [makeEntry({ ...former, imageId: 'a:1' })], present: [], record: () => undefined };
  expect([...wantedImages(wants, registries, [former]).keys()]).toEqual([
    'docker.io/library/a:1',
    'docker.io/library/a:0',
  ]);
});
