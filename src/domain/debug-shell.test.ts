import { describe, expect, test } from 'vitest';
import { ANNOTATIONS } from '../api/names.ts';
import { type Application, applicationSpecSchema } from '../api/v3/index.ts';
import { makeApplication, makeEntry, makeNode } from './_util.ts';
import {
  debugShellGoesAt,
  newDebugShell,
  systemApplicationName,
  withDebugShell,
  withoutDebugShell,
} from './debug-shell.ts';

const HOUR = 60 * 60_000;
const NOW = Date.parse('2026-01-01T00:00:00Z');
const node = makeNode();
const made = newDebugShell({ node, now: NOW });
const others = makeApplication({ spec: { isSystem: true }, entries: [makeEntry({ name: 'router' })] });
const namesIn = (application?: Application) => application?.spec.microservices?.map(({ name }) => name);
const timeOf = (application: Application) => application.metadata.annotations?.[ANNOTATIONS.debugUntil];

test('a debug shell is an application that the API server accepts, with the image of the catalog item', () => {
  expect(applicationSpecSchema.parse(made.spec)).toMatchObject({ isSystem: true });
  expect(made.spec.microservices).toMatchObject([{ name: 'debug', images: { catalogId: 3 } }]);
  expect(timeOf(made)).toBe('2026-01-01T01:00:00.000Z');
});

test('a node whose name is no object name has an application of the system with a legal name', () => {
  expect(systemApplicationName(makeNode({ spec: { name: 'Plant A' } }))).toMatch(/^system-plant-a-[0-9a-f]{8}$/);
});

describe('a repeated request', () => {
  test('writes nothing at once, and an hour later keeps the microservice and sets another time', () => {
    expect(withDebugShell(made, { node, now: NOW + 20_000 })).toBe(made);
    const later = withDebugShell(made, { node, now: NOW + HOUR });
    expect(later.spec.microservices?.[0]).toBe(made.spec.microservices?.[0]);
    expect(timeOf(later)).toBe('2026-01-01T02:00:00.000Z');
  });

  test('with an image replaces that of the shell, and the same image again replaces nothing', () => {
    const own = withDebugShell(made, { node, now: NOW, image: 'tools:1' });
    expect(own.spec.microservices).toMatchObject([{ images: { amd64: 'tools:1', arm: 'tools:1' } }]);
    expect(own.spec.microservices?.[0]?.images?.catalogId).toBeUndefined();
    expect(withDebugShell(own, { node, now: NOW, image: 'tools:1' })).toBe(own);
    expect(withDebugShell(own, { node, now: NOW })).toBe(own);
  });

  test('leaves a shell whose time was removed without one', () => {
    const kept = { ...made, metadata: { name: made.metadata.name } };
    expect(withDebugShell(kept, { node, now: NOW })).toBe(kept);
    expect(debugShellGoesAt(kept, NOW)).toBeUndefined();
  });
});

test('an application of users with the name of that of the system is a conflict', () => {
  expect(() => withDebugShell(makeApplication({ name: 'system-gw-1' }), { node, now: NOW })).toThrow(
    'the application "system-gw-1" has the name of the system\'s on this node',
  );
});

describe('what is left without the shell', () => {
  test('is nothing when the application was made for it', () => {
    expect(withoutDebugShell(made)).toBeUndefined();
  });

  test('is an application that had other microservices, as it was', () => {
    const both = withDebugShell(others, { node, now: NOW });
    expect(namesIn(both)).toEqual(['router', 'debug']);
    expect(withoutDebugShell(both)?.spec).toEqual(others.spec);
    expect(withoutDebugShell(others)).toBe(others);
  });

  test('is an application that got other microservices since, which then goes no more', () => {
    const spec = { ...made.spec, microservices: [...(made.spec.microservices ?? []), makeEntry({ name: 'router' })] };
    const left = withoutDebugShell({ ...made, spec });
    expect([namesIn(left), left?.metadata.annotations]).toEqual([['router'], {}]);
  });

  test('is an empty application that is protected from deletion', () => {
    const annotations = { ...made.metadata.annotations, [ANNOTATIONS.protected]: 'true' };
    expect(namesIn(withoutDebugShell({ ...made, metadata: { ...made.metadata, annotations } }))).toEqual([]);
  });
});

test.each<[string, number | undefined, number | undefined]>([
  ['without a session goes after an hour', undefined, NOW + HOUR],
  ['goes a minute after its last session', NOW + 5_000, NOW + 65_000],
  ['that was asked for after its last session has its whole hour', NOW - 1, NOW + HOUR],
])('a shell %s', (_, endedAt, goesAt) => {
  expect(debugShellGoesAt(made, endedAt)).toBe(goesAt);
});

test('a time that cannot be read, and one of a shell that is not there, has passed', () => {
  const annotated = (text: string, entries = made.spec.microservices) => ({
    ...made,
    metadata: { ...made.metadata, annotations: { [ANNOTATIONS.debugUntil]: text } },
    spec: { ...made.spec, microservices: entries },
  });
  expect(debugShellGoesAt(annotated('soon'), undefined)).toBe(0);
  expect(debugShellGoesAt(annotated(timeOf(made) ?? '', []), undefined)).toBe(0);
});
