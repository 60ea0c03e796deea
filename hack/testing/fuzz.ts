/**
 * How often a property is tried with random values. In `make test` that is a number of runs with one seed, the same on each
 * machine: neither another change nor a slow machine makes a property fail. Nightly runs have a new seed and go on for a time.
 * SKERRY_FUZZ_SEED=<seed> repeats a run with the seed that it printed; SKERRY_FUZZ_SECONDS is the time for each property.
 */
export function fuzzing({ runs, nightlySeconds }: { runs: number; nightlySeconds: number }) {
  const { SKERRY_NIGHTLY, SKERRY_FUZZ_SEED, SKERRY_FUZZ_SECONDS } = process.env;
  const seed = Number(SKERRY_FUZZ_SEED ?? (SKERRY_NIGHTLY ? Date.now() % 2 ** 31 : 1));
  const seconds = Number(SKERRY_FUZZ_SECONDS ?? (SKERRY_NIGHTLY ? nightlySeconds : 0));
  return {
    /** for titles and logs */
    about: `seed ${seed}, ${seconds > 0 ? `${seconds} s` : `${runs} runs`} each`,
    /** parameters of fast-check */
    budget:
      seconds > 0
        ? {
            seed,
            numRuns: Number.MAX_SAFE_INTEGER,
            interruptAfterTimeLimit: seconds * 1_000,
            markInterruptAsFailure: false,
          }
        : { seed, numRuns: runs },
    /** ms, for the limit of a test */
    timeout: seconds * 1_000 + 300_000,
  };
}
