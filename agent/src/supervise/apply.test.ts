import { beforeEach, describe, expect, test } from 'vitest';
import { PLAIN_PLACES } from '../domain/_places.ts';
import { NOTHING_SENT } from '../domain/desired.ts';
import type { Part } from '../domain/part.ts';
import { OPEN_POLICY } from '../domain/policy.ts';
import { desiredEntries, readMicroservices } from '../domain/sent-microservices.ts';
import { type Desired, NOTHING_KNOWN } from '../domain/wanted.ts';
import { type ApplyDependencies, applyDesired } from './apply.ts';
import { makeDesired, makeView } from './plan/_util.ts';

const view = makeView();

let calls: string[];
let desired: Desired;
let waitOf: (uuid: string) => unknown;

beforeEach(() => {
  calls = [];
  desired = NOTHING_KNOWN;
});

/** A part that notes what is called. */
const noting = (name: string): Part => ({
  write: () => void calls.push(`${name} write`),
  resolve: (one) => {
    calls.push(`${name} resolve`);
    return { view: { ...one, commands: [...(one.commands ?? []), name] } };
  },
  prepare: (entries) => void calls.push(`${name} prepare ${entries.length}`),
  look: () => void calls.push(`${name} look`),
  registriesChanged: (ids) => void calls.push(`${name} registries ${[...ids]}`),
});

function apply(parts: Part[], change: Partial<ApplyDependencies> = {}, registries?: ReadonlySet<number>): void {
  const sent = { ...NOTHING_SENT, microservices: readMicroservices([view], undefined) };
  applyDesired(
    {
      wanted: { sent, desired: (rules) => makeDesired(desiredEntries(sent.microservices, rules)) },
      policy: { policy: OPEN_POLICY, protectedPaths: [], places: PLAIN_PLACES },
      parts,
      supervisor: {
        setDesired: (wanted, wait) => {
          calls.push('entries');
          desired = wanted;
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
  expect(desired.entries).toMatchObject([{ kind: 'run', uuid: view.uuid, view }]);
});

describe('an entry', () => {
  test('has what every part adds to its view', () => {
    apply([noting('a'), {}, noting('b')]);
    expect(desired.entries).toMatchObject([{ kind: 'run', view: { commands: ['a', 'b'] } }]);
  });

  test('is on hold for the first part that it waits for, and no further part is asked', () => {
    apply([{ resolve: () => ({ reason: 'Waiting', message: 'for a file' }) }, noting('b')]);
    expect(desired.entries).toMatchObject([{ kind: 'hold', reason: 'Waiting', message: 'for a file' }]);
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
  apply([noting('a')], { wanted: { sent: NOTHING_SENT, desired: () => NOTHING_KNOWN } });
  expect(calls).toContain('a prepare 0');
  expect(desired.isListKnown).toBe(false);
});
