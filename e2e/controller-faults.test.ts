import { isDeepStrictEqual } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import type { When } from './_failpoints.ts';
import { type Told, tellStory } from './_killed-controller.ts';

/**
 * The controller is killed before and after each of its writes, over the lives of applications, nodes and registries
 * that are created with kubectl and over REST, provisioning included. `SKERRY_NIGHTLY=1` tests every write,
 * `SKERRY_POINTS` that many writes, evenly spread.
 */
const POINTS = Number(process.env.SKERRY_POINTS ?? (process.env.SKERRY_NIGHTLY ? Number.POSITIVE_INFINITY : 1));
const dir = temporaryFolder();
let whole: Told;

beforeAll(async () => {
  whole = await tellStory(undefined, dir);
}, 240_000);

const once = (told: Pick<Told, 'ids'>) => [...told.ids].filter(([, objects]) => objects.size > 1);

test('the run in which the controller is not killed has no errors and no id twice', () => {
  expect(whole.wrongs).toEqual([]);
  expect(once(whole)).toEqual([]);
  expect(whole.writes.length).toBeGreaterThan(20);
});

interface Moment {
  /** which write, counted from 1 */
  n: number;
  when: When;
}

/** All moments, or POINTS of them, evenly spread and alternating between before and after the write. */
function momentsOf(total: number): Moment[] {
  if (POINTS >= total)
    return Array.from({ length: total }, (_, i) =>
      ['before', 'after'].map((when) => ({ n: i + 1, when }) as Moment),
    ).flat();
  return Array.from({ length: POINTS }, (_, i) => ({
    n: Math.floor(((i + Math.random()) * total) / POINTS) + 1,
    when: i % 2 ? 'before' : 'after',
  }));
}

/** What differs when the controller is killed at this moment; undefined when nothing does. */
async function judge(moment: Moment): Promise<object | undefined> {
  const { wrongs, state, killedAt, ...told } = await tellStory(moment, dir);
  const same = isDeepStrictEqual(state, whole.state);
  const twice = once(told);
  if (wrongs.length === 0 && twice.length === 0 && same) return undefined;
  return { killedAt, wrongs, twice, ...(!same && { state, insteadOf: whole.state }) };
}

/** Runs in parallel: each mostly waits. */
const LANES = 4;

test('a controller that is killed before or after any write reaches the same end state, loses no acknowledged write and assigns no id twice', async () => {
  const moments = momentsOf(whole.writes.length);
  const waiting = [...moments];
  const amiss: unknown[] = [];
  let done = 0;
  const lane = async () => {
    for (let moment = waiting.shift(); moment; moment = waiting.shift()) {
      const wrong = await judge(moment).catch((error: Error) => ({ error: error.stack }));
      if (wrong) amiss.push({ ...moment, ...wrong });
      const what = `${moment.when} ${moment.n} ${whole.writes[moment.n - 1]}`;
      process.stderr.write(`${++done} of ${moments.length}: ${what}: ${wrong ? 'WRONG' : 'as it should be'}\n`);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  expect(amiss).toEqual([]);
}, 7_200_000);
