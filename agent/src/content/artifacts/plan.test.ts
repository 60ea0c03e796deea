import fc from 'fast-check';
import { expect, test } from 'vitest';
import { artifactFingerprint } from '../../../../src/wire/artifacts.ts';
import { makeArtifact, NO_OWN_ARTIFACTS } from './_machine.ts';
import { type ArtifactPlanInput, planArtifacts } from './plan.ts';
import { projectedName } from './projection.ts';
import { type ArtifactRecord, artifactKey } from './record.ts';

const views = ['a', 'b', 'c'].map((name) => makeArtifact({ uuid: `uuid-${name}`, name }));
const records = views.map(
  (view): ArtifactRecord => ({
    ...{ kind: 'models', uuid: view.uuid, name: view.name, asked: artifactFingerprint(view), resolvedRevision: '1' },
    ...{ floating: false, digest: `sha256:${'0'.repeat(64)}`, totalBytes: 1, files: [], pulledAt: 0 },
  }),
);
const names = fc.subarray(views.map(({ name }) => name));

/** Any machine with the projections of two microservices. */
const inputs = fc
  .record({
    listed: fc.option(fc.subarray(views), { nil: undefined }),
    kept: fc.subarray(records),
    wanted: fc.option(fc.dictionary(fc.constantFrom('m1', 'm2'), names), { nil: undefined }),
    linked: fc.dictionary(fc.constantFrom('m1', 'm2'), names),
    held: fc.subarray(['m1', 'm2']),
    mounted: fc.subarray(['m1', 'm2']),
    retains: fc.boolean(),
    prune: fc.boolean(),
  })
  .map(({ listed, kept, wanted, linked, held, mounted, retains, prune }): ArtifactPlanInput => {
    const place = (uuid: string) => ({ kind: 'models' as const, uuid, mode: 'ro' as const });
    const entries = Object.entries(wanted ?? {}).filter(([uuid]) => !held.includes(uuid));
    const projections = Object.entries(linked).map(([uuid, items]) => {
      const links = new Map(items.map((name) => [name, `${name}-${'0'.repeat(16)}`]));
      return { ...place(uuid), links, versions: [...links.values()] };
    });
    return {
      desired: { models: listed },
      own: NO_OWN_ARTIFACTS,
      removed: new Set(),
      catalogs: wanted && entries.map(([uuid, items]) => ({ ...place(uuid), bindPath: '/m', items })),
      held: new Set(held),
      isMounted: ({ uuid }) => mounted.includes(uuid),
      records: new Map(kept.map((record) => [artifactKey(record), record])),
      ...{ retains, projections, failures: new Map(), underWay: new Map(), now: 0 },
      ...{ lookUpsDue: new Set(), outdated: new Set(), patient: new Set() },
      prune: new Set(prune ? (['models'] as const) : []),
    };
  });

test('nothing is removed that a container mounts, that is on hold, or while the desired state is not known', () => {
  fc.assert(
    fc.property(inputs, (input) => {
      for (const step of planArtifacts(input)) {
        if (step.do !== 'remove' && step.do !== 'unlink') continue;
        expect(input.catalogs).toBeDefined();
        expect(input.held.has(step.place.uuid)).toBe(false);
        if (step.do === 'remove') expect(input.isMounted(step.place) || input.retains).toBe(false);
      }
    }),
  );
});

test('an artifact is forgotten only on a prune, with a known list that does not name it, and without a projection of it', () => {
  fc.assert(
    fc.property(inputs, (input) => {
      for (const step of planArtifacts(input)) {
        if (step.do !== 'forget') continue;
        const { name, uuid } = step.record;
        expect(input.prune.has('models') && !input.retains).toBe(true);
        expect(input.desired.models?.some((view) => view.uuid === uuid)).toBe(false);
        for (const { links } of input.projections) expect(links.get(name)).not.toBe(projectedName(name, step.record));
      }
    }),
  );
});

test('pulls of present contents that microservices asked for take one turn, and no other pull waits for them', () => {
  const [a, b, c] = views.map(({ uuid }) => artifactKey({ kind: 'models', uuid }));
  const asked = new Set([a, b].filter((key) => key !== undefined));
  const input = (change: Partial<ArtifactPlanInput>): ArtifactPlanInput => ({
    ...{ desired: { models: views }, own: NO_OWN_ARTIFACTS, removed: new Set(), catalogs: [], held: new Set() },
    ...{ retains: false, isMounted: () => false, projections: [], failures: new Map(), underWay: new Map(), now: 0 },
    ...{ lookUpsDue: new Set(), prune: new Set(), outdated: asked, patient: asked },
    records: new Map(records.map((record) => [artifactKey(record), record])),
    ...change,
  });
  const pulled = (change: Partial<ArtifactPlanInput>) =>
    planArtifacts(input(change)).flatMap((step) => (step.do === 'pull' ? [step.view.name] : []));
  expect(pulled({})).toEqual(['a']);
  expect(pulled({ underWay: new Map([[a, '']]) as never })).toEqual([]);
  expect(pulled({ underWay: new Map([[a, '']]) as never, outdated: new Set([...asked, c]) as never })).toEqual(['c']);
  // Somebody else waits for it too.
  expect(pulled({ patient: new Set() })).toEqual(['a', 'b']);
  // Contents that are missing are pulled in any case.
  expect(pulled({ records: new Map() })).toEqual(['a', 'b']);
});

test('only complete contents are projected, and at most two artifacts are pulled at once', () => {
  fc.assert(
    fc.property(inputs, (input) => {
      const steps = planArtifacts(input);
      for (const step of steps) if (step.do === 'put') expect(input.records.has(artifactKey(step.record))).toBe(true);
      expect(steps.filter((step) => step.do === 'pull').length).toBeLessThanOrEqual(2);
    }),
  );
});
