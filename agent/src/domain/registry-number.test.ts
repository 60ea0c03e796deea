import { expect, test } from 'vitest';
import type { SavedName } from '../../../src/wire/sections.ts';
import { plainView } from '../_web.ts';
import { readResponses } from './desired.ts';

/** What a controller sends never means a registry of the machine itself, nor the credentials of one. */

const read = (name: SavedName, value: unknown) =>
  readResponses(new Map([[name, { digests: {}, body: JSON.stringify({ [name]: value }) }]])).sent;

test('a microservice of a controller with a number of the registries of the machine is on hold', () => {
  const [spy, own] = [plainView({ uuid: 'spy', registryId: -4 }), plainView({ uuid: 'own', registryId: 4 })];
  const { microservices } = read('microservices', [spy, own]);
  expect(microservices?.items).toMatchObject([
    { kind: 'hold', uuid: 'spy', reason: 'NotUnderstood', message: expect.stringContaining('registryId') },
    { kind: 'view', view: { uuid: 'own' } },
  ]);
  expect([...(microservices?.views.keys() ?? [])]).toEqual(['own']);
});

test('a registry of a controller with a number of the machine does not exist', () => {
  const registry = { url: 'https://thief.example', username: '', password: '', type: 'oci' };
  const { registries } = read('registries', [
    { ...registry, id: -7 },
    { ...registry, id: 7 },
  ]);
  expect([...(registries?.keys() ?? [])]).toEqual([7]);
});

test.each(['models', 'knowledge'] as const)('%s of a controller come from no registry of the machine', (name) => {
  const item = { uuid: 'a', name: 'tiny', repo: 'team/tiny', revision: 'main', files: [], bindPath: '/models' };
  const sent = read(name, [
    { ...item, registryId: -4 },
    { ...item, uuid: 'b', registryId: 4 },
  ])[name];
  expect(sent?.map(({ uuid }) => uuid)).toEqual(['b']);
});
