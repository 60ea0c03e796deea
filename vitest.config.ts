import { defineConfig } from 'vitest/config';
import { filesAlone } from './hack/testing/alone.ts';
import { LongestFirst } from './hack/testing/order.ts';

const UNIT_INCLUDE = ['{src,agent/src,cli/src,hack,bench}/**/*.test.ts'];
const UNIT_EXCLUDE = ['**/*.{api,engine}.test.ts'];
const ALONE = filesAlone(UNIT_INCLUDE, UNIT_EXCLUDE);
const UNIT = {
  include: UNIT_INCLUDE,
  globalSetup: ['hack/testing/global-compile-cache.ts'],
  // Without it one core stays free, which on a machine with two is half of it.
  maxWorkers: '100%',
};
/** A process for each file loads the product again, which takes seconds on a busy machine, and there are hundreds of files. */
const SHARED = { isolate: false, setupFiles: ['hack/testing/before-file.ts'] };

/**
 * Projects by what a test needs to run: nothing (unit), nothing but a process of its own (alone), a real API server, a container
 * engine, the whole system. `make check` runs the first two; `make test` runs all. The last one has the tests of e2e that `make e2e`
 * runs on a given cluster.
 */
export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 300_000,
    // Longer than the second that vitest has: what is waited for may be a write of another process on a busy machine.
    expect: { poll: { timeout: 30_000 } },
    sequence: { sequencer: LongestFirst },
    // Node loads the sources itself, as in production: vitest's own loader is a transform of 500 modules for each process,
    // and a look into an object at each use of an import.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    projects: [
      {
        extends: true,
        test: {
          ...UNIT,
          name: 'unit',
          exclude: [...UNIT_EXCLUDE, ...ALONE],
          ...SHARED,
        },
      },
      { extends: true, test: { ...UNIT, name: 'alone', include: ALONE } },
      {
        extends: true,
        test: {
          name: 'api',
          include: ['{src,agent/src,cli/src,hack}/**/*.api.test.ts'],
          globalSetup: ['hack/testing/global-compile-cache.ts', 'hack/testing/global-api.ts'],
          pool: 'forks',
          ...SHARED,
          // Each file has a namespace, or an API server, of its own.
          maxWorkers: 2,
        },
      },
      {
        extends: true,
        test: {
          name: 'engine',
          include: ['{src,agent/src,hack}/**/*.engine.test.ts'],
          globalSetup: ['hack/testing/global-compile-cache.ts', 'hack/testing/global-engines.ts'],
          pool: 'forks',
          maxWorkers: 1,
        },
      },
      {
        extends: true,
        test: {
          name: 'e2e',
          include: ['e2e/**/*.test.ts'],
          globalSetup: ['hack/testing/global-compile-cache.ts', 'hack/testing/global-e2e.ts'],
          pool: 'forks',
          ...SHARED,
          // Stories wait more than they work; each has a namespace and processes of its own.
          maxWorkers: 3,
        },
      },
      {
        extends: true,
        test: { name: 'cluster', include: ['e2e/cluster.test.ts'], pool: 'forks' },
      },
    ],
  },
});
