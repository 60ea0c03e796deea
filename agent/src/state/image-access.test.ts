import { expect, test } from 'vitest';
import { memoryDatabase } from './database.ts';
import { mayUseImage, noteImagePull } from './image-access.ts';

const ID = 'sha256:1';
const reference = 'private.example/app:1';
const pull = (registryId: number, username?: string) => ({
  registryId,
  pull: { reference, ...(username && { credentials: { username, password: 'secret', host: 'private.example' } }) },
});

test('an image that a person loaded is for all, also after it was pulled with credentials', () => {
  const database = memoryDatabase();
  expect(mayUseImage(database, ID, pull(2))).toBe(true);
  noteImagePull(database, ID, pull(5, 'limpet'), false);
  expect(mayUseImage(database, ID, pull(2))).toBe(true);
  expect(database.images().size).toBe(0);
});

test('an image that was removed and that a person loaded afterwards is for all', () => {
  const database = memoryDatabase();
  noteImagePull(database, ID, pull(5, 'limpet'), true);
  expect(mayUseImage(database, ID, pull(2))).toBe(false);
  database.forgetImage(ID);
  expect(mayUseImage(database, ID, pull(2))).toBe(true);
});

test('an image stays for those who pulled it when others pull the same image by another reference', () => {
  const database = memoryDatabase();
  const mirrored = {
    registryId: 6,
    pull: {
      reference: 'mirror.example/app:1',
      credentials: { username: 'cod', password: 'x', host: 'mirror.example' },
    },
  };
  noteImagePull(database, ID, pull(5, 'limpet'), true);
  noteImagePull(database, ID, mirrored, true);
  expect([pull(5, 'limpet'), mirrored, pull(2)].map((step) => mayUseImage(database, ID, step))).toEqual([
    ...[true, true, false],
  ]);
});

test('an image that was pulled without credentials stays for all when it is pulled with some by another reference', () => {
  const database = memoryDatabase();
  noteImagePull(database, ID, pull(2), true);
  noteImagePull(database, ID, pull(5, 'limpet'), true);
  expect(mayUseImage(database, ID, pull(2))).toBe(true);
});

test('the credentials of a relay count like those of the engine', () => {
  const database = memoryDatabase();
  const relayed = {
    registryId: 5,
    pull: {
      reference,
      relay: { host: 'private.example', ca: '', insecure: true, credentials: { username: 'limpet', password: 'x' } },
    },
  };
  noteImagePull(database, ID, relayed, true);
  expect([pull(5, 'limpet'), pull(5)].map((step) => mayUseImage(database, ID, step))).toEqual([true, false]);
});

test('a new password of the same user of a registry is no other access', () => {
  const database = memoryDatabase();
  noteImagePull(database, ID, pull(5, 'limpet'), true);
  const renewed = pull(5, 'limpet');
  if (renewed.pull.credentials) renewed.pull.credentials.password = 'new';
  expect(mayUseImage(database, ID, renewed)).toBe(true);
});

test('what is saved of the access to images names no host, no user and no password', () => {
  const database = memoryDatabase();
  for (let registry = 1; registry < 100; registry++)
    noteImagePull(database, ID, pull(registry, 'limpet'), registry === 1);
  expect(database.value('imageAccess')).not.toMatch(/limpet|private|secret/);
  // The registries that pulled it last are known.
  expect(mayUseImage(database, ID, pull(99, 'limpet'))).toBe(true);
  expect(mayUseImage(database, ID, pull(1, 'limpet'))).toBe(false);
  expect((JSON.parse(database.value('imageAccess') ?? '{}') as Record<string, string[]>)[ID]).toHaveLength(32);
});
