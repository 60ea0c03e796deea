import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { newLocalUuid } from '../domain/local-uuid.ts';
import { newRecord } from '../domain/record.ts';
import { isUnwanted } from '../domain/wanted.ts';
import { makeEntry, makeHold } from '../supervise/plan/_util.ts';
import { makeKeptRow, makeRow } from './_rows.ts';
import { combineSources, type Sources } from './combine.ts';

const allow = { refusal: () => undefined };
const combine = (change: Partial<Sources>) =>
  combineSources({
    ...{ managed: [], rows: new Map(), unreadable: new Set(), records: new Map(), rules: allow },
    runtimeOf: (name) => name,
    ...change,
  });
const rowsOf = (...rows: ReturnType<typeof makeRow>[]) => new Map(rows.map((row) => [row.uuid, row]));

test('entries of a controller and of the machine are wanted together', () => {
  const [managed, row] = [makeEntry(), makeRow()];
  const { entries, isListKnown } = combine({ managed: [managed], rows: rowsOf(row) });
  expect(entries).toEqual([managed, expect.objectContaining({ kind: 'run', uuid: row.uuid, isStopped: false })]);
  expect(isListKnown).toBe(true);
});

test('microservices of the machine are wanted while the list of a controller is not known', () => {
  const row = makeRow();
  const combined = combine({ managed: undefined, rows: rowsOf(row) });
  expect(combined.entries.map(({ uuid }) => uuid)).toEqual([row.uuid]);
  expect(isUnwanted(combined, { uuid: randomUUID() })).toBe(false);
});

test('an entry with the uuid of a deployed microservice is refused, and the row counts', () => {
  const row = makeRow();
  const hostile = makeEntry({ uuid: row.uuid, application: row.application, name: row.name, imageId: 'evil:1' });
  const { entries, refused, adopted } = combine({ managed: [hostile], rows: rowsOf(row) });
  expect(entries).toEqual([expect.objectContaining({ uuid: row.uuid, view: row.view })]);
  expect([refused.get(row.uuid)?.reason, adopted]).toEqual(['LocalUuid', []]);
});

test('an entry with the uuid of a microservice that was once deployed is refused although nothing is left of it', () => {
  const hostile = makeEntry({ uuid: newLocalUuid() });
  expect(combine({ managed: [hostile] }).entries).toEqual([]);
});

test('an entry of the application of the machine is on hold, in any case', () => {
  for (const application of ['skerry-agent', 'Skerry-Agent'])
    expect(combine({ managed: [makeEntry({ application, name: 'default' })] }).entries).toEqual([
      expect.objectContaining({ kind: 'hold', reason: 'ApplicationReserved', application }),
    ]);
});

test('a microservice of the machine gets the runtime that its class means, and is on hold while that cannot be read', () => {
  const row = makeRow({}, { runtime: 'fast' });
  const [plain, stopped] = [makeRow(), makeRow({ desiredState: 'stopped' }, { runtime: 'fast' })];
  const rows = rowsOf(row, plain, stopped);
  const known = combine({ rows, runtimeOf: () => 'runsc' }).entries;
  expect(known.map((entry) => entry.kind === 'run' && entry.view.runtime)).toEqual(['runsc', '', 'runsc']);
  const unknown = combine({ rows, runtimeOf: () => undefined }).entries;
  expect(unknown).toEqual([
    expect.objectContaining({ kind: 'hold', uuid: row.uuid, reason: 'RuntimeClassUnreadable', isStopped: false }),
    expect.objectContaining({ kind: 'run', uuid: plain.uuid }),
    expect.objectContaining({ kind: 'hold', uuid: stopped.uuid, isStopped: true }),
  ]);
});

test('what a person removed has no entry and is unwanted', () => {
  const row = makeRow({ desiredState: 'deleted' });
  const combined = combine({ managed: undefined, rows: rowsOf(row) });
  expect(combined.entries).toEqual([]);
  expect(isUnwanted(combined, row)).toBe(true);
});

describe('a kept microservice', () => {
  const uuid = randomUUID();
  const row = makeKeptRow(uuid);
  const own = makeEntry({ uuid, application: 'shop', name: 'kept', imageId: 'example/app:2' });

  test('is not ended by a list that does not name it', () => {
    const combined = combine({ rows: rowsOf(row) });
    expect(combined.entries).toEqual([expect.objectContaining({ uuid, isKept: true })]);
    expect(isUnwanted(combined, { uuid, isKept: true })).toBe(false);
  });

  test('is taken over by a controller that sends it with its application and name', () => {
    const { entries, adopted } = combine({ managed: [own], rows: rowsOf(row) });
    expect([entries, adopted]).toEqual([[own], [uuid]]);
  });

  for (const [what, entry] of Object.entries({
    'another application': makeEntry({ uuid, application: 'other', name: 'kept' }),
    'another name': makeEntry({ uuid, application: 'shop', name: 'other' }),
    'a hold': makeHold(uuid),
  }))
    test(`stays as it is when a controller sends its uuid with ${what}`, () => {
      const { entries, adopted, refused } = combine({ managed: [entry], rows: rowsOf(row) });
      expect(entries).toEqual([expect.objectContaining({ uuid, view: row.view, isKept: true })]);
      expect([adopted, refused.has(uuid)]).toEqual([[], true]);
    });

  test('keeps its uuid for its former controller after its removal, while its volumes are here', () => {
    const rows = rowsOf({ ...row, desiredState: 'deleted' });
    const other = makeEntry({ uuid, application: 'other', name: 'kept' });
    const { entries, refused } = combine({ managed: [other], rows });
    expect([entries, refused.get(uuid)?.message]).toEqual([
      [],
      'this uuid is of shop.kept, which was removed, and whose volumes are on the machine',
    ]);
    expect(combine({ managed: [own], rows })).toMatchObject({ entries: [own], adopted: [uuid] });
  });

  test('is on hold while its row is damaged, and can still be taken over', () => {
    const records = new Map([[uuid, { ...newRecord(uuid), application: 'shop', name: 'kept', isKept: true as const }]]);
    const damaged = { unreadable: new Set([uuid]), records };
    expect(combine(damaged).entries).toEqual([expect.objectContaining({ kind: 'hold', uuid, isKept: true })]);
    expect(combine({ ...damaged, managed: [own] })).toMatchObject({ entries: [own], adopted: [uuid] });
  });

  test('is refused to a controller that sends another name, also when its row is lost', () => {
    const records = new Map([[uuid, { ...newRecord(uuid), application: 'shop', name: 'kept', isKept: true as const }]]);
    const other = makeEntry({ uuid, application: 'shop', name: 'other' });
    expect(combine({ records, managed: [other] }).entries).toEqual([]);
    expect(combine({ records, managed: [own] }).entries).toEqual([own]);
  });

  test('binds what it bound before, whatever volume mounts there are now', () => {
    const rules = { ...allow, resolve: () => ({ reason: 'Waiting', message: 'for a volume mount' }) };
    expect(combine({ rows: rowsOf(row), rules }).entries).toEqual([expect.objectContaining({ kind: 'run', uuid })]);
  });
});
