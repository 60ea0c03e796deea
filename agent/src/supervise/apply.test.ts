import { beforeEach, describe, expect, test } from 'vitest';
import { PLAIN_PLACES } from '../domain/_places.ts';
import { NOTHING_SENT } from '../domain/desired.ts';
import type { Entry } from '../domain/entry.ts';
import type { Part } from '../domain/part.ts';
import { OPEN_POLICY } from '../domain/policy.ts';
import { desiredEntries, readMicroservices } from '../domain/sent-microservices.ts';
import { type ApplyDependencies, applyDesired } from './apply.ts';
import { makeView } from './plan/_util.ts';

const view = makeView();

let calls: string[];
let desired: readonly Entry[] | undefined;
let waitOf: (uuid: string) => unknown;

beforeEach(() => {
  calls = [];
  desired = undefined;
});

/** A part that notes what is called. */
const noting = (name: string): Part => ({
  write: () => void calls.push(`${name} write`),
  resolve: (one) => {
    calls.push(`${name} resolve`);
    return { view: { ...one, commands: [...(one.commands ?? []), name] } };
  },
  prepare: (entries) => void calls.push(`${name} prepare ${entries?.length}`),
  look: () => void calls.push(`${name} look`),
  registriesChanged: (ids) => void calls.push(`${name} registries ${[...ids]}`),
});

function apply(parts: Part[], change: Partial<ApplyDependencies> = {}, registries?: ReadonlySet<number>): void {
  const sent = { ...NOTHING_SENT, microservices: readMicroservices([view], undefined) };
  applyDesired(
    {
      responses: { sent, desired: (rules) => desiredEntries(sent.microservices, rules) },
      policy: { policy: OPEN_POLICY, protectedPaths: [], places: PLAIN_PLACES },
      parts,
      supervisor: {
        setDesired: (entries, wait) => {
          calls.push('entries');
          desired = entries;
          waitOf = wait;
        },
        registriesChanged: (ids) => void calls.push(`images ${[...ids]}`),
      },
      settingsChanged: () => void calls.push('settings'),
      ...change,
    },
    registries,
  );
}

test('the desired state is applied in the order of its steps, and each step is taken with all parts before the next one', () => {
  apply([noting('a'), noting('b')], {}, new Set([7]));
  expect(calls).toEqual([
    'settings',
    ...['a write', 'b write'],
    ...['a resolve', 'b resolve'],
    ...['a prepare 1', 'b prepare 1'],
    'entries',
    'images 7',
    ...['a look', 'b look'],
    ...['a registries 7', 'b registries 7'],
  ]);
});

test('a part without a step is left out of it', () => {
  apply([{}]);
  expect(desired).toMatchObject([{ kind: 'run', uuid: view.uuid, view }]);
});

describe('an entry', () => {
  test('has what every part adds to its view', () => {
    apply([noting('a'), {}, noting('b')]);
    expect(desired).toMatchObject([{ kind: 'run', view: { commands: ['a', 'b'] } }]);
  });

  test('is on hold for the first part that it waits for, and no further part is asked', () => {
    apply([{ resolve: () => ({ reason: 'Waiting', message: 'for a file' }) }, noting('b')]);
    expect(desired).toMatchObject([{ kind: 'hold', reason: 'Waiting', message: 'for a file' }]);
    expect(calls).not.toContain('b resolve');
  });

  test('waits for the first part that names a reason', () => {
    const wait = { failed: false, message: 'pulling' };
    apply([
      {},
      { waitOf: (uuid) => (uuid === view.uuid ? wait : undefined) },
      { waitOf: () => ({ ...wait, failed: true }) },
    ]);
    expect(waitOf(view.uuid)).toBe(wait);
  });
});

test('an unknown desired state stays unknown to the supervisor', () => {
  apply([noting('a')], { responses: { sent: NOTHING_SENT, desired: () => undefined } });
  expect(calls).toContain('a prepare undefined');
  expect(desired).toBeUndefined();
});
