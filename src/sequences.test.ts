import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { startInMemoryController } from '../testing/in-memory-controller.ts';
import { checkPlatform } from '../testing/sequences/check-platform.ts';
import {
  checkConditions,
  checkDeletion,
  checkDesired,
  checkReads,
  type Revisions,
} from '../testing/sequences/checks.ts';
import { type Operation, sequence as sequences } from '../testing/sequences/draw.ts';
import { Fleet } from '../testing/sequences/fleet.ts';
import { perform } from '../testing/sequences/perform.ts';

/**
 * Random sequences of operations over all kinds, over REST and at the Kubernetes API in memory, with all reconcilers, against
 * a model of the rules. A failure prints the shortest sequence that was found. Only nightly runs have a new seed each time;
 * SKERRY_FUZZ_SEED=<seed> repeats one, and SKERRY_FUZZ_SECONDS is the time.
 */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;
const SEED = Number(process.env.SKERRY_FUZZ_SEED ?? (isNightly ? Date.now() % 2 ** 31 : 1));
const SECONDS = Number(process.env.SKERRY_FUZZ_SECONDS ?? (isNightly ? 600 : 10));
/** The search for a shorter sequence may take so long. */
const SHRINK_SECONDS = 120;
/** The rate limits count callers. */
const CALLERS = 100;

let runs = 0;
const controller = await startInMemoryController(0, { callers: CALLERS });
afterAll(() => controller[Symbol.asyncDispose]());

async function carryOut(operations: readonly Operation[]): Promise<void> {
  await controller.reset();
  const fleet = new Fleet(controller, `admin-${runs++ % CALLERS}`);
  await fleet.begin();
  const revisions: Revisions = new Map();
  for (const [index, one] of operations.entries()) {
    try {
      await perform(fleet, one);
      checkDesired(fleet, revisions);
      checkConditions(fleet);
      checkPlatform(fleet);
    } catch (error) {
      if (error instanceof Error) error.message = `operation ${index}: ${error.message}`;
      throw error;
    }
  }
  await checkReads(fleet);
  await checkDeletion(fleet);
}

test(
  `after any sequence of operations reads, statuses and desired states are what the rules say (seed ${SEED})`,
  async () => {
    let until = performance.now() + SECONDS * 1_000;
    let hasFailed = false;
    await fc.assert(
      fc.asyncProperty(sequences, async (operations) => {
        // A run that has begun is always completed.
        if (performance.now() > until) return;
        try {
          await carryOut(operations);
        } catch (error) {
          if (!hasFailed) until = performance.now() + SHRINK_SECONDS * 1_000;
          hasFailed = true;
          throw error;
        }
      }),
      { seed: SEED, numRuns: isNightly ? 20_000 : 60 },
    );
    expect(runs).toBeGreaterThan(0);
  },
  (SECONDS + SHRINK_SECONDS + 120) * 1_000,
);
