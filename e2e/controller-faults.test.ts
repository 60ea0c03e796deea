import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { When } from './_failpoints.ts';
import { type Told, tellStory } from './_killed-controller.ts';

/**
 * The controller is killed before and after each of its writes, over the lives of applications, nodes and registries
 * made with kubectl and over REST, provisioning included. `SKERRY_NIGHTLY=1` takes every write, `SKERRY_POINTS` so many, spread.
 */
const POINTS = Number(process.env.SKERRY_POINTS ?? (process.env.SKERRY_NIGHTLY ? Number.POSITIVE_INFINITY : 1));
let dir: string;
let whole: Told;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'skerry-failpoints-'));
  whole = await tellStory(undefined, dir);
}, 240_000);
afterAll(() => rm(dir, { recursive: true, force: true }));

const once = (told: Told) => [...told.ids].filter(([, objects]) => objects.size > 1);

test('the story, undisturbed', () => {
  expect(whole.wrongs).toEqual([]);
  expect(once(whole)).toEqual([]);
  expect(whole.writes.length).toBeGreaterThan(20);
});

test('killed before or after any write: the end is the same, nothing answered is lost, no number is given twice', async () => {
  const total = whole.writes.length;
  const points = Math.min(POINTS, total);
  for (let i = 0; i < points; i++) {
    const n = points === total ? i + 1 : Math.floor(((i + Math.random()) * total) / points) + 1;
    const modes: When[] = points === total ? ['before', 'after'] : [i % 2 ? 'before' : 'after'];
    for (const when of modes) {
      const told = await tellStory({ n, when }, dir);
      const where = `killed ${when} write ${told.killedAt}`;
      process.stderr.write(`${where}\n`);
      expect(told.wrongs, where).toEqual([]);
      expect(once(told), where).toEqual([]);
      expect(told.state, where).toEqual(whole.state);
    }
  }
}, 7_200_000);
