import { beforeEach, expect, test } from 'vitest';
import { type Container, latestOf } from '../engine-port/container.ts';
import { makeSpec } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { VirtualClock } from '../machine/_virtual-clock.ts';
import { containerLog } from './container-log.ts';

let engine: MemoryEngine;
let clock: VirtualClock;
beforeEach(async () => {
  engine = new MemoryEngine({ anyImage: true });
  clock = new VirtualClock();
  await engine.ensureNetwork();
});

async function makeContainer(name: string): Promise<string> {
  const spec = makeSpec({ facts: await engine.connect(), name });
  await engine.pull({ reference: spec.image, platform: '' });
  const { id } = await engine.create(spec);
  await engine.start(id);
  return id;
}

/** The log of the container that runs, followed; `settle` lets some time pass and returns what has come. */
function follow(tail: number) {
  const stop = new AbortController();
  const seen: string[] = [];
  const container = () => [...engine.running().values()].flat()[0];
  const done = (async () => {
    for await (const { line } of containerLog({ engine, clock, container }, { tail, follow: true }, stop.signal))
      seen.push(line);
  })();
  return {
    async settle() {
      await clock.advance(5_000);
      return seen;
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
    },
  };
}

const SECOND = '2026-01-01T00:00:01Z';

test('lines with one time are each shown once, also those before the first that was asked for', async () => {
  const id = await makeContainer('one');
  const log = engine.logOf(id);
  for (const line of ['1', '2', '3']) log.print(line, SECOND);
  await using reader = follow(2);
  expect(await reader.settle()).toEqual(['2', '3']);
  log.print('4', SECOND);
  engine.exit(id, 0);
  await reader.settle();
  await engine.start(id);
  log.print('5', SECOND);
  log.print('6', '2026-01-01T00:00:02Z');
  expect(await reader.settle()).toEqual(['2', '3', '4', '5', '6']);
});

test('long lines of a log that is followed count against four million characters, of which the last ones are shown', async () => {
  const id = await makeContainer('one');
  const log = engine.logOf(id);
  const line = 'x'.repeat(60_000);
  for (let i = 0; i < 200; i++) log.print(line, SECOND);
  log.print('last', SECOND);
  await using reader = follow(5_000);
  const seen = await reader.settle();
  expect(seen).toHaveLength(Math.floor((4 * 1024 * 1024) / line.length) + 1);
  expect(seen.at(-1)).toBe('last');
  log.print('new', '2026-01-01T00:00:02Z');
  expect((await reader.settle()).at(-1)).toBe('new');
});

test('the log of a container that replaces the former one is shown from its beginning', async () => {
  const first = await makeContainer('one');
  engine.logOf(first).print('old', SECOND);
  await using reader = follow(10);
  await reader.settle();
  engine.exit(first, 0);
  await engine.remove(first);
  const second = await makeContainer('two');
  for (const line of ['new', 'newer']) engine.logOf(second).print(line, SECOND);
  expect(await reader.settle()).toEqual(['old', 'new', 'newer']);
});

test('what was written while the engine was away is shown when it is back', async () => {
  const id = await makeContainer('one');
  const log = engine.logOf(id);
  log.print('1', SECOND);
  const { logs } = engine;
  await using reader = follow(10);
  engine.logs = () => {
    throw new Error('the engine does not answer');
  };
  log.print('2', SECOND);
  await reader.settle();
  engine.logs = logs;
  expect(await reader.settle()).toEqual(['1', '2']);
});

test('under a crash loop, also over a replacement, a log that is followed has each line once', async () => {
  let id = await makeContainer('one');
  let seen: readonly Container[] = await engine.containers();
  const stop = new AbortController();
  const lines: string[] = [];
  const container = () => latestOf(seen, seen[0]?.uuid ?? '');
  const options = { tail: 1, follow: true };
  const done = (async () => {
    for await (const { line } of containerLog({ engine, clock, container }, options, stop.signal)) lines.push(line);
  })();
  const written: string[] = [];
  for (let run = 1; run <= 12; run++) {
    if (run > 1) await engine.start(id);
    if (run % 3 === 0) seen = await engine.containers();
    for (const part of ['a', 'b']) {
      written.push(`${run}${part}`);
      engine.logOf(id).print(`${run}${part}`, new Date(run * 1000).toISOString());
    }
    // The log is looked at once in a second, at another time of each run.
    await clock.advance(370);
    engine.exit(id, 1);
    if (run % 2 === 0) seen = await engine.containers();
    await clock.advance(510);
    if (run === 6) {
      const former = id;
      id = await makeContainer('two');
      seen = (await engine.containers()).filter((one) => one.id === id);
      await clock.advance(1_000);
      await engine.remove(former);
    }
  }
  seen = await engine.containers();
  await clock.advance(2_000);
  stop.abort();
  await done;
  expect(lines).toEqual(written);
});

test('a container that does not run any more has the lines that were asked for, and no more', async () => {
  const id = await makeContainer('one');
  for (const line of ['1', '2', '3']) engine.logOf(id).print(line, SECOND);
  const [container] = await engine.containers();
  engine.exit(id, 0);
  const lines = containerLog({ engine, clock, container: () => container }, { tail: 2 }, new AbortController().signal);
  const seen: string[] = [];
  for await (const { line } of lines) seen.push(line);
  expect(seen).toEqual(['2', '3']);
});
