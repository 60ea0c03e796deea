import { describe, expect, test } from 'vitest';
import { ANNOTATIONS } from '../../../api/names.ts';
import { type Application, applicationSpecSchema } from '../../../api/v3/index.ts';
import { makeNode } from '../../nodes/_make.ts';
import { systemApplicationName } from '../../nodes/rules/system-application.ts';
import { makeApplication, makeEntry } from '../_make.ts';
import {
  debugShellGoesAt,
  isTimedDebugShell,
  newDebugShell,
  withDebugShell,
  withEndedDebugShell,
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
    expect(withDebugShell(made, { node, now: NOW + 1_000 })).toBe(made);
    const later = withDebugShell(made, { node, now: NOW + HOUR });
    expect(later.spec.microservices?.[0]).toBe(made.spec.microservices?.[0]);
    expect(timeOf(later)).toBe('2026-01-01T02:00:00.000Z');
  });

  test('with an image replaces that of the shell, and the same image again replaces nothing', () => {
    const own = withDebugShell(made, { node, now: NOW, image: 'tools:1' });
    expect(own.spec.microservices).toMatchObject([{ images: { amd64: 'tools:1', arm: 'tools:1' } }]);
    expect(own.spec.microservices?.[0]?.images?.catalogId).toBeUndefined();
    expect(withDebugShell(own, { node, now: NOW, image: 'tools:1' })).toBe(own);
  });

  test('without an image runs that of the catalog item, whatever an earlier request named', () => {
    const own = withDebugShell(made, { node, now: NOW, image: 'tools:1' });
    const again = withDebugShell(own, { node, now: NOW + 1_000 });
    expect(again.spec.microservices).toEqual(made.spec.microservices);
    const [entry] = own.spec.microservices ?? [];
    const stopped = { ...own, spec: { ...own.spec, microservices: [{ ...entry, isActivated: false }] } } as Application;
    expect(withDebugShell(stopped, { node, now: NOW }).spec.microservices).toEqual(made.spec.microservices);
  });

  test('leaves a shell whose time was removed without one', () => {
    const kept = { ...made, metadata: { name: made.metadata.name } };
    expect(withDebugShell(kept, { node, now: NOW })).toBe(kept);
    expect(debugShellGoesAt(kept, { sessionEndedAt: NOW })).toBeUndefined();
  });
});

describe('a shell that would not run as asked is replaced, with its uuid and the image of the request:', () => {
  const own = withDebugShell(made, { node, now: NOW, image: 'tools:1' });
  const [entry] = own.spec.microservices ?? [];
  const uuid = '33333333-3333-4333-8333-333333333333';
  test.each<[string, object]>([
    ['one of a node that is gone', { agent: { uuid: '44444444-4444-4444-8444-444444444444' } }],
    ['one that is stopped', { isActivated: false }],
    ['one with another container', { container: { commands: ['sh'] } }],
  ])('%s', (_, changed) => {
    const spec = { ...own.spec, microservices: [{ ...entry, ...changed, uuid }] } as Application['spec'];
    const again = withDebugShell({ ...own, spec }, { node, now: NOW, image: 'tools:1' });
    expect(again.spec.microservices).toEqual([{ ...entry, uuid }]);
  });

  test('one whose application is stopped starts with it', () => {
    const stopped = { ...made, spec: { ...made.spec, isActivated: false } };
    expect(withDebugShell(stopped, { node, now: NOW }).spec).toEqual(made.spec);
  });

  test('another spelling of the same container is no other one', () => {
    const spelled = { ...entry, container: { ...entry?.container, env: [] } };
    const spec = { ...own.spec, microservices: [spelled] } as Application['spec'];
    const application = { ...own, spec };
    expect(withDebugShell(application, { node, now: NOW, image: 'tools:1' })).toBe(application);
  });
});

describe('the end of a shell', () => {
  test('leaves the annotations by which the leader removes the rest at once', () => {
    const ended = withEndedDebugShell(made, NOW);
    expect([namesIn(ended), ended.metadata.annotations]).toEqual([[], made.metadata.annotations]);
    expect(debugShellGoesAt(ended, {})).toBe(0);
    expect(withEndedDebugShell(ended, NOW + 1)).toBe(ended);
    expect(withEndedDebugShell(others, NOW)).toBe(others);
  });

  test('gives a shell that had no time one', () => {
    const kept = { ...made, metadata: { ...made.metadata, annotations: { [ANNOTATIONS.madeFor]: 'debug' } } };
    expect(timeOf(withEndedDebugShell(kept, NOW))).toBe('2026-01-01T00:00:00.000Z');
  });
});

test('an application of users with the annotations of a debug shell is none', () => {
  expect(isTimedDebugShell(made)).toBe(true);
  expect(isTimedDebugShell({ ...made, spec: { ...made.spec, isSystem: false } })).toBe(false);
});

test('a leader leaves a shell whose time has passed for a minute, since its session may just have ended', () => {
  const since = NOW + 2 * HOUR;
  expect(debugShellGoesAt(made, { since })).toBe(since + 60_000);
  expect(debugShellGoesAt(made, { since, sessionEndedAt: since + 5_000 })).toBe(since + 65_000);
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
  expect(debugShellGoesAt(made, { sessionEndedAt: endedAt })).toBe(goesAt);
});

test('a shell that is asked for seconds after its session ended has its whole hour', () => {
  const again = withDebugShell(made, { node, now: NOW + 20_000 });
  expect(debugShellGoesAt(again, { sessionEndedAt: NOW + 10_000 })).toBe(NOW + 20_000 + HOUR);
});

test('a time that cannot be read, and one of a shell that is not there, has passed', () => {
  const annotated = (text: string, entries = made.spec.microservices) => ({
    ...made,
    metadata: { ...made.metadata, annotations: { [ANNOTATIONS.debugUntil]: text } },
    spec: { ...made.spec, microservices: entries },
  });
  expect(debugShellGoesAt(annotated('soon'), { since: NOW })).toBe(0);
  expect(debugShellGoesAt(annotated(timeOf(made) ?? '', []), { since: NOW })).toBe(0);
});
