import { randomUUID } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestAgent } from '../_agent.ts';
import type { Agent } from '../app.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { memoryIdentity } from '../state/_identity.ts';
import type { Database } from '../state/database.ts';
import { type IdentityStore, newIdentity, newKey } from '../state/identity.ts';
import { openSqliteDatabase } from '../state/sqlite-database.ts';
import { makeRecord, makeView } from '../supervise/plan/_util.ts';
import { generator } from './_random.ts';

/**
 * The agent with a damaged database. It guarantees that it starts, that it then has a state which was saved in one
 * transaction or no state at all, that its identity is the same, and that running containers are not touched.
 */

const POINTS = Number(process.env.SKERRY_DAMAGE_POINTS ?? 100);
const CRASH_POINTS = Number(process.env.SKERRY_DAMAGE_POINTS ?? 50);
/** In memory where possible: thousands of databases are written and synced. */
const base = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'skerry-damage-'));
const origin = join(base, 'origin');
const work = join(base, 'work');
const file = (folder: string) => join(folder, 'agent.db');

const engine = new MemoryEngine({ anyImage: true });
const identity = memoryIdentity({
  ...newIdentity(),
  nodeKey: newKey(),
  node: { uuid: randomUUID(), namespace: 'skerry', controllerUrl: 'http://127.0.0.1:9' },
});
/** Every state that was saved, as text; the last one is the state when the machine went down. */
const states: string[] = [];
/** The number of states in the database file itself; the write-ahead log has the others. */
let checkpointed = 0;

function dump(database: Database): string {
  return JSON.stringify({
    documents: [...database.responses()].sort(),
    rows: [...database.records()].sort(([a], [b]) => (a < b ? -1 : 1)),
    images: [...database.images()].sort(),
    values: (['instance', 'bootId', 'actions', 'ending'] as const).map((name) => database.value(name)),
  });
}
const NOTHING = '{"documents":[],"rows":[],"images":[],"values":[null,null,null,null]}';

async function run<T>(database: Database, known: IdentityStore, act: (agent: Agent) => Promise<T>): Promise<T> {
  const agent = createTestAgent({
    folder: work,
    engine: () => engine,
    database,
    identity: known,
    // No controller sends the lost responses again.
    transport: () => new Promise(() => {}),
  });
  const stop = new AbortController();
  const done = agent.run(stop.signal);
  try {
    return await act(agent);
  } finally {
    stop.abort();
    await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 5))]);
  }
}

beforeAll(async () => {
  mkdirSync(origin);
  const views = Array.from({ length: 6 }, (_, i) =>
    makeView({
      uuid: randomUUID(),
      name: `m${i}`,
      env: Array.from({ length: 20 }, (_, j) => ({ key: `K${j}`, value: 'x'.repeat(40 + i + j) })),
    }),
  );
  const opened = () => openSqliteDatabase(file(origin), 0).database;
  let database = opened();
  const body = JSON.stringify({ microservices: views });
  database.saveResponses(new Map([['microservices', { digests: { microserviceList: 'a1' }, body }]]));
  await run(database, identity, async (agent) => {
    const up = () => agent.microservices()?.filter(({ status }) => status === 'RUNNING').length === views.length;
    expect(await agent.supervisor.until(up, 20_000)).toBe(true);
  });
  states.push(dump(database));
  // Data that an agent saves over time and that does not change the desired state.
  const random = generator(7);
  for (let i = 0; i < 40; i++) {
    const view = views[i % views.length] ?? makeView();
    const known = database.records().get(view.uuid) ?? makeRecord();
    if (i % 4 === 0) database.saveImage(`sha256:${i}`, `example/app:${i}`);
    else if (i % 7 === 0)
      database.saveResponses(new Map([['registries', { digests: {}, body: `{"registries":[],"n":${i}}` }]]));
    else database.saveRecords([{ ...known, restartCount: i, lastError: 'e'.repeat(Math.floor(random() * 900)) }], []);
    states.push(dump(database));
    if (i === 20) {
      // Closing moves the log into the database; later writes stay in the log, as when a process is killed.
      database[Symbol.dispose]();
      checkpointed = states.length - 1;
      database = opened();
    }
  }
  for (const part of ['', '-wal']) copyFileSync(file(origin) + part, join(base, `dead${part}`));
  database[Symbol.dispose]();
  copyFileSync(file(origin), join(base, 'after'));
  engine.history.length = 0;
}, 60_000);

afterAll(() => rmSync(base, { recursive: true, force: true }));

/** Starts an agent with this database file and log, and returns the index of the state that it found. */
async function boot(content: Buffer | undefined, log: Buffer | undefined): Promise<number> {
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work);
  if (content) writeFileSync(file(work), content);
  if (log) writeFileSync(`${file(work)}-wal`, log);
  const { database } = openSqliteDatabase(file(work), 0);
  try {
    const found = dump(database);
    if (found !== NOTHING) expect(states).toContain(found);
    const before = identity.load();
    await run(database, identity, async (agent) => {
      expect(await agent.supervisor.until(() => agent.microservices() !== undefined, 20_000)).toBe(true);
      expect(agent.supervisor.pending).toBe(0);
      expect(agent.microservices()?.map(({ status }) => status)).toEqual(Array(6).fill('RUNNING'));
    });
    expect(identity.load()).toEqual(before);
    expect(engine.history).toEqual([]);
    database.saveValue('actions', '{}');
    database[Symbol.dispose]();
    const again = openSqliteDatabase(file(work), 0);
    expect(again.setAside).toBeUndefined();
    expect(again.database.value('actions')).toBe('{}');
    again.database[Symbol.dispose]();
    return states.indexOf(found);
  } finally {
    database[Symbol.dispose]();
  }
}

type Random = () => number;
const below = (random: Random, n: number) => Math.floor(random() * n);

/** Kinds of damage to the bytes of a file. */
const DAMAGES: Record<string, (bytes: Buffer, random: Random) => Buffer | undefined> = {
  'cut short': (bytes, random) => bytes.subarray(0, below(random, bytes.length)),
  'single bits flipped': (bytes, random) => {
    for (let n = 1 + below(random, 8); n > 0; n--) {
      const at = below(random, bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << below(random, 8));
    }
    return bytes;
  },
  'bits of the first hundred bytes flipped': (bytes, random) => {
    const at = below(random, Math.min(100, bytes.length));
    bytes[at] = (bytes[at] ?? 0) ^ (1 + below(random, 255));
    return bytes;
  },
  'a sector of zeros': (bytes, random) => {
    const at = 512 * below(random, bytes.length / 512);
    return bytes.fill(0, at, at + 512);
  },
  'a sector of noise': (bytes, random) => {
    const at = 512 * below(random, bytes.length / 512);
    for (let i = at; i < at + 512; i++) bytes[i] = below(random, 256);
    return bytes;
  },
  'a page where another belongs': (bytes, random) => {
    const pages = Math.floor(bytes.length / 4096);
    const [from, to] = [4096 * below(random, pages), 4096 * below(random, pages)];
    bytes.copyWithin(to, from, from + 4096);
    return bytes;
  },
  'something appended': (bytes, random) => Buffer.concat([bytes, Buffer.alloc(below(random, 9000), 0x5a)]),
  'all noise': (bytes, random) => bytes.map(() => below(random, 256)) as Buffer,
  empty: () => Buffer.alloc(0),
  gone: () => undefined,
};

test(`an agent whose database is damaged (${POINTS} times) starts with a state that was saved or with none, and changes no container`, async () => {
  const tally = { last: 0, earlier: 0, nothing: 0 };
  const kinds = Object.entries(DAMAGES);
  for (let seed = 0; seed < POINTS; seed++) {
    const random = generator(seed);
    const [kind, damage] = kinds[seed % kinds.length] ?? ['', () => undefined];
    const database = readFileSync(join(base, 'dead'));
    const log = readFileSync(join(base, 'dead-wal'));
    const which = below(random, 3);
    try {
      const state = await boot(
        which === 1 ? database : damage(database, random),
        which === 0 ? log : damage(log, random),
      );
      tally[state < 0 ? 'nothing' : state === states.length - 1 ? 'last' : 'earlier']++;
    } catch (error) {
      throw new Error(`seed ${seed}: ${kind} in ${['the database', 'the log', 'both'][which]}`, { cause: error });
    }
  }
  console.log(`of ${POINTS} damaged databases: ${JSON.stringify(tally)}`);
  expect(Object.values(tally).every((count) => count > 0)).toBe(true);
}, 900_000);

describe('a machine that goes down', () => {
  test('while the log is written keeps what was committed before', async () => {
    const database = readFileSync(join(base, 'dead'));
    const log = readFileSync(join(base, 'dead-wal'));
    let last = checkpointed;
    for (let i = 0; i <= CRASH_POINTS; i++) {
      const length = Math.floor((log.length * i) / CRASH_POINTS);
      // The file has the length of the whole frame, but only a part of it was written.
      const torn = i % 2 === 0 ? log.subarray(0, length) : Buffer.concat([log.subarray(0, length), Buffer.alloc(3000)]);
      const state = await boot(database, torn);
      expect(state).toBeGreaterThanOrEqual(last);
      last = state;
    }
    expect(last).toBe(states.length - 1);
  }, 300_000);

  test('while the log is moved into the database loses nothing', async () => {
    const before = readFileSync(join(base, 'dead'));
    const after = readFileSync(join(base, 'after'));
    const log = readFileSync(join(base, 'dead-wal'));
    for (let seed = 0; seed < CRASH_POINTS; seed++) {
      const random = generator(seed);
      const mixed = Buffer.alloc(Math.max(before.length, after.length));
      before.copy(mixed);
      for (let at = 0; at < after.length; at += 512)
        if (random() < 0.5) after.copy(mixed, at, at, Math.min(at + 512, after.length));
      expect(await boot(mixed, log)).toBe(states.length - 1);
    }
  }, 300_000);
});
