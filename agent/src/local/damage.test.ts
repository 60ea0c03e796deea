import { randomUUID } from 'node:crypto';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { containerDigest } from '../domain/digest.ts';
import type { RunEntry } from '../domain/entry.ts';
import type { Records } from '../domain/record.ts';
import type { Container } from '../engine-port/container.ts';
import { openRows } from '../state/rows.ts';
import { makeContainer, makeEntry, makePlanInput, makeRecord } from '../supervise/plan/_util.ts';
import { plan } from '../supervise/plan/plan.ts';
import { updateRecords } from '../supervise/plan/update-records.ts';
import { makeKeptRow, makeRow } from './_rows.ts';
import { combineSources } from './combine.ts';
import { type LocalRow, localRowSchema } from './row.ts';

/**
 * A machine with microservices of its own and of a controller, whose rows or database are damaged or lost before the list of the
 * controller arrives: nothing that runs is stopped or removed.
 */

/** Every byte by night. */
const STRIDE = process.env.SKERRY_NIGHTLY ? 1 : 23;
const base = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'skerry-rows-'));
const [origin, work] = [join(base, 'origin'), join(base, 'work')];
afterAll(() => rmSync(base, { recursive: true, force: true }));

const managed = makeEntry({ uuid: randomUUID(), application: 'plant', name: 'reader' });
const rows: LocalRow[] = [
  makeRow({ name: 'web' }),
  makeRow({ name: 'halted', desiredState: 'stopped' }),
  makeKeptRow(randomUUID()),
];
const saved = openRows(origin, localRowSchema);
for (const row of rows) saved.save(row.uuid, row);
const files = readdirSync(origin);

const entryOf = ({ uuid, view }: LocalRow): RunEntry => {
  if (!view) throw new Error('every row of this test has a view');
  return { kind: 'run', uuid, view, digest: containerDigest(view) };
};
const containers: Container[] = [managed, ...rows.map(entryOf)].map((entry, index) =>
  makeContainer(entry, { id: `c${index}`, ...(index === 2 && { state: 'exited' }) }),
);
const known: Records = new Map(
  [managed, ...rows.map(entryOf)].map((entry, index) => {
    const stopped = index === 2 && { stoppedLocally: { revision: entry.view.revision, rebuildCount: 0 } };
    const change = { lastGood: entry.view, ...stopped, ...(index === 3 && { isKept: true as const }) };
    return [entry.uuid, makeRecord(entry, change)];
  }),
);

/** The steps of a start with the rows of the work folder, once the list of the controller is known. */
function steps(records: Records): string[] {
  const { all, unreadable } = openRows(work, localRowSchema);
  let now = 0;
  let current = records;
  const found: string[] = [];
  // The list may come before the first look, and after it.
  for (const list of [undefined, [managed], [managed]]) {
    const desired = combineSources({
      ...{ managed: list, rows: all, unreadable: new Set(unreadable.keys()), records: current },
      rules: { refusal: () => undefined },
      runtimeOf: (name) => name,
    });
    const snapshot = { containers, networkId: 'n1' };
    const look = { now, wall: now, random: () => 0, first: now === 0, rebooted: false };
    current = updateRecords(current, { desired, snapshot, ...look });
    const { steps: planned } = plan(makePlanInput({ desired, snapshot, records: current, now }));
    found.push(...planned.map((step) => `${step.kind} ${'uuid' in step ? step.uuid : ''}`));
    now += 120_000;
  }
  return found;
}

const removals = (found: readonly string[]) => found.filter((step) => /^(stop|remove) /.test(step));

function restore(): void {
  rmSync(work, { recursive: true, force: true });
  cpSync(origin, work, { recursive: true });
}

const DAMAGES: Record<string, (bytes: Buffer, at: number) => Buffer> = {
  'a bit flipped': (bytes, at) => {
    bytes[at] = (bytes[at] ?? 0) ^ (1 << (at % 8));
    return bytes;
  },
  'cut short': (bytes, at) => bytes.subarray(0, at),
  'zeros from there': (bytes, at) => bytes.fill(0, at),
  'noise for 16 bytes': (bytes, at) => bytes.fill(0xa5, at, Math.min(at + 16, bytes.length)),
};
const DATABASES: Record<string, Records> = { 'with its database': known, 'without its database': new Map() };

for (const [database, records] of Object.entries(DATABASES)) {
  test(`a machine ${database} and with all rows has nothing to do`, () => {
    restore();
    expect(removals(steps(records))).toEqual([]);
  });

  for (const [kind, damage] of Object.entries(DAMAGES))
    test(`a machine ${database} stops and removes nothing when a row has ${kind}, at every ${STRIDE}th byte`, () => {
      for (const file of files) {
        const bytes = readFileSync(join(origin, file));
        restore();
        for (let at = 0; at < bytes.length; at += STRIDE) {
          writeFileSync(join(work, file), damage(Buffer.from(bytes), at));
          expect(removals(steps(records)), `${file} at ${at}`).toEqual([]);
        }
      }
    });
}

test('a machine that lost rows stops and removes nothing as long as it has its database', () => {
  for (let lost = 1; lost < 2 ** files.length; lost++) {
    restore();
    for (const [index, file] of files.entries()) if (lost & (1 << index)) rmSync(join(work, file));
    expect(removals(steps(known)), `${lost}`).toEqual([]);
  }
});

test('a machine that lost its database and the rows of what was deployed on it stops and removes nothing of that', () => {
  restore();
  for (const { uuid, origin: from } of rows) if (from === 'deployed') rmSync(join(work, `${uuid}.json`));
  expect(removals(steps(new Map()))).toEqual([]);
});

test('what a controller placed is removed once its list does not name it', () => {
  restore();
  const others = containers.map((each) => (each.uuid === managed.uuid ? { ...each, uuid: randomUUID() } : each));
  containers.splice(0, containers.length, ...others);
  expect(removals(steps(new Map()))).not.toEqual([]);
});
