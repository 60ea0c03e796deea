import { defineConfig } from 'vitest/config';

/**
 * Four projects, by what a test needs to run: nothing, a real API server, a container engine, the whole system.
 * `make check` runs the first; `make test` runs all.
 */
export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 300_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['{src,agent/src,cli/src,hack,bench}/**/*.test.ts'],
          exclude: ['**/*.{api,engine}.test.ts'],
        },
      },
      {
        extends: true,
        test: {
          name: 'api',
          include: ['{src,agent/src,cli/src,hack}/**/*.api.test.ts'],
          globalSetup: ['hack/testing/global-api.ts'],
          pool: 'forks',
          maxWorkers: 1,
        },
      },
      {
        extends: true,
        test: {
          name: 'engine',
          include: ['{src,agent/src,hack}/**/*.engine.test.ts'],
          globalSetup: ['hack/testing/global-engines.ts'],
          pool: 'forks',
          maxWorkers: 1,
        },
      },
      {
        extends: true,
        test: {
          name: 'e2e',
          include: ['e2e/**/*.test.ts'],
          globalSetup: ['hack/testing/global-e2e.ts'],
          pool: 'forks',
          // Stories wait more than they work; each has a namespace and processes of its own.
          maxWorkers: 2,
        },
      },
    ],
  },
});
