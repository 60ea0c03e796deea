import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { firstEngine } from '../../agent/src/engines/_outside.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { layFoundations } from './foundations.ts';
import { generate, type Story } from './generate.ts';
import { report } from './story.ts';
import { type Told, tellAll } from './tell-all.ts';

/**
 * Random users and random faults on real parts, compared with a model: see README.md. By day a story of each profile whose faults
 * the others do not have; with SKERRY_NIGHTLY of each profile, and every seed that ever failed.
 */
const SEEDS = process.env.SKERRY_NIGHTLY ? [...Array(20).keys()] : [0, 2, 4, 6, 7, 8, 9];

const results = new Map<number, PromiseWithResolvers<Told>>(SEEDS.map((seed) => [seed, Promise.withResolvers()]));
const started = new AsyncDisposableStack();
const dir = temporaryFolder();

beforeAll(async () => {
  const real = { engine: firstEngine(), registryUrl: inject('registryUrl') };
  const foundations = await layFoundations({ dir, kubeconfig: inject('kubeconfig'), real }, started);
  const settle = ({ seed }: Story) => results.get(seed) as PromiseWithResolvers<Told>;
  for (const { promise } of results.values()) promise.catch(() => {});
  const all = tellAll(SEEDS.map(generate), foundations, {
    onTold: (told) => settle(told.story).resolve(told),
    onFailed: (story, error) => settle(story).reject(error),
  });
  // A lane that cannot be started fails the whole file in the end; the others continue meanwhile.
  all.catch(() => {});
  started.defer(() => all);
}, 300_000);
afterAll(() => started.disposeAsync(), 300_000);

describe('no guarantee is violated', () => {
  test.each(SEEDS.map((seed) => [seed, generate(seed).profile] as const))(
    'in the story of seed %i (%s)',
    async (seed) => {
      const { story, history, violations } = await (results.get(seed) as PromiseWithResolvers<Told>).promise;
      if (violations.length > 0) expect.fail(report(story, history, violations));
    },
    1_500_000,
  );
});
