import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeInputs } from '../../../../../testing/inputs.ts';
import type { ObservedMicroservice } from '../../../../api/v3/index.ts';
import { desiredState } from '../../../../desired/rules/desired.ts';
import { entryUuid } from '../../../../rules/names.ts';
import { makeNode } from '../../../nodes/_make.ts';
import { makeApplication, makeEntry, observedReader } from '../../_make.ts';

/** One microservice: the ports of its container, and those that its entry asks for now. */
interface Mover {
  holds?: readonly number[];
  asks?: readonly number[];
  /** its own Application, with this as its age; the one of all others when absent */
  age?: number;
  /** other members of its entry; null when the entry was removed */
  entry?: Parameters<typeof makeEntry>[0] | null;
  reported?: Partial<ObservedMicroservice>;
}

const ports = (externals: readonly number[]) =>
  externals.map((external) => ({ internal: external, external, protocol: 'tcp' as const }));

/** What the desired state of the node has of each: `runs`, or why not. */
function verdicts(movers: Record<string, Mover>): Record<string, string> {
  const entryOf = ([name, { asks = [], entry }]: [string, Mover]) =>
    makeEntry({ name, container: { ports: ports(asks) }, ...entry });
  const all = Object.entries(movers);
  const present = all.filter(([, { entry }]) => entry !== null);
  const shared = makeApplication({
    name: 'plant',
    entries: present.filter(([, { age }]) => age === undefined).map(entryOf),
  });
  const own = present
    .filter(([, { age }]) => age !== undefined)
    .map(([name, mover]) =>
      makeApplication({
        name: `of-${name}`,
        uid: `3333333${mover.age}-3333-4333-8333-333333333333`,
        createdAt: `2026-02-0${mover.age}T00:00:00Z`,
        entries: [entryOf([name, mover])],
      }),
    );
  const applications = [shared, ...own];
  const uuids = new Map(
    all.map(([name]) => {
      const application = applications.find(({ spec }) => spec.microservices?.some((entry) => entry.name === name));
      return [name, entryUuid(application ?? shared, { name })] as const;
    }),
  );
  const microservices = all
    .filter(([, { holds, reported }]) => holds || reported)
    .map(([name, { holds, reported }]) =>
      observedReader({
        uuid: uuids.get(name) as string,
        name,
        ...(holds?.length && { ports: ports(holds) }),
        ...reported,
      }),
    );
  const { entries } = desiredState(makeInputs({ node: makeNode({ status: { microservices } }), applications }));
  return Object.fromEntries(
    present.map(([name]) => {
      const { verdict } = entries.get(uuids.get(name) as string) ?? {};
      if (!verdict) return [name, 'runs'];
      return [name, `${verdict.passes ? 'waits' : 'refused'}: ${verdict.message.replace(/^.*is held by /, '')}`];
    }),
  );
}

describe('microservices that exchange ports', () => {
  const cases: Record<string, [Record<string, Mover>, Record<string, string>]> = {
    'two microservices of one Application swap their ports': [
      { a: { holds: [1111], asks: [2222] }, b: { holds: [2222], asks: [1111] } },
      { a: 'runs', b: 'runs' },
    ],
    'two microservices of two Applications swap their ports': [
      { a: { holds: [1111], asks: [2222], age: 1 }, b: { holds: [2222], asks: [1111], age: 2 } },
      { a: 'runs', b: 'runs' },
    ],
    'three microservices exchange their ports in a ring': [
      { a: { holds: [1111], asks: [2222] }, b: { holds: [2222], asks: [3333] }, c: { holds: [3333], asks: [1111] } },
      { a: 'runs', b: 'runs', c: 'runs' },
    ],
    'microservices in a chain each take the port of the next': [
      { a: { holds: [1111], asks: [2222] }, b: { holds: [2222], asks: [3333] } },
      { a: 'runs', b: 'runs' },
    ],
    'two microservices swap while one also waits for the port of a removed microservice': [
      {
        a: { holds: [1111], asks: [2222, 4444] },
        b: { holds: [2222], asks: [1111] },
        gone: { holds: [4444], entry: null },
      },
      { a: 'runs', b: 'runs' },
    ],
    'a swap continues when one container has already stopped': [
      {
        a: { holds: [], asks: [2222], reported: { state: 'QUEUED', containerId: 'old' } },
        b: { holds: [2222], asks: [1111] },
      },
      { a: 'runs', b: 'runs' },
    ],
    'a swap continues when one new container starts and does not report its port yet': [
      {
        a: { holds: [], asks: [2222], reported: { state: 'STARTING', containerId: 'old' } },
        b: { holds: [2222], asks: [1111] },
      },
      { a: 'runs', b: 'runs' },
    ],
    'an agent that reports no ports gets both microservices of a swap at once': [
      { a: { holds: [], asks: [2222] }, b: { holds: [], asks: [1111] } },
      { a: 'runs', b: 'runs' },
    ],
    'a new microservice waits for a port that is being given up, and a swap on the same node does not wait': [
      { a: { holds: [1111, 4444], asks: [2222] }, b: { holds: [2222], asks: [1111] }, fresh: { asks: [4444] } },
      { a: 'runs', b: 'runs', fresh: 'waits: plant/a, which is giving it up' },
    ],
    'a microservice that is refused for another reason keeps its port, and the verdict on the other one names it': [
      {
        a: { holds: [1111], asks: [2222], entry: { images: { riscv64: 'x:1' } } },
        b: { holds: [2222], asks: [1111] },
      },
      {
        a: expect.stringMatching(/^refused: has no image/) as never,
        b: 'refused: plant/a, which cannot give it up: plant/a is refused',
      },
    ],
    'in a ring with a refused microservice, the verdicts on all others name it': [
      {
        a: { holds: [1111], asks: [2222] },
        b: { holds: [2222], asks: [3333] },
        c: { holds: [3333], asks: [1111], entry: { images: { riscv64: 'x:1' } } },
      },
      {
        a: 'refused: plant/b, which cannot give it up: plant/c is refused',
        b: 'refused: plant/c, which cannot give it up: plant/c is refused',
        c: expect.stringMatching(/^refused: has no image/) as never,
      },
    ],
    'an older microservice that claims one of the ports of a swap prevents the swap': [
      {
        a: { holds: [1111], asks: [2222], age: 2 },
        b: { holds: [2222], asks: [1111], age: 3 },
        stranger: { asks: [1111], age: 1 },
      },
      {
        a: 'refused: of-b/b, which cannot give it up: of-b/b is refused',
        b: 'refused: of-stranger/stranger',
        stranger: 'refused: of-a/a, which cannot give it up: of-b/b is refused',
      },
    ],
    'a younger microservice that claims one of the ports of a swap is refused, and the swap takes place': [
      {
        a: { holds: [1111], asks: [2222], age: 1 },
        b: { holds: [2222], asks: [1111], age: 2 },
        stranger: { asks: [1111], age: 3 },
      },
      { a: 'runs', b: 'runs', stranger: 'refused: of-b/b' },
    ],
    'only a new microservice waits for a port that a microservice gives up, one that moves to another node included': [
      {
        leaves: { holds: [1111], asks: [1111], entry: { agent: { name: 'gw-2' } } },
        stays: { holds: [2222], asks: [1111] },
        fresh: { asks: [2222] },
      },
      { leaves: 'runs', stays: 'runs', fresh: 'waits: plant/stays, which is giving it up' },
    ],
    'a microservice that should stop gives up its port': [
      { a: { holds: [1111], asks: [1111], entry: { isActivated: false } }, b: { holds: [2222], asks: [1111] } },
      { a: expect.any(String) as never, b: 'runs' },
    ],
    'a microservice that still asks for its port keeps it': [
      { a: { holds: [1111], asks: [1111, 2222] }, b: { holds: [2222], asks: [1111] } },
      {
        a: 'refused: plant/b, which cannot give it up: plant/b is refused',
        b: 'refused: plant/a',
      },
    ],
  };
  it.each(Object.entries(cases))('%s', (_, [movers, want]) => expect(verdicts(movers)).toEqual(want));

  it('no microservice with a container waits, for any permutation of ports', () => {
    const shuffled = fc
      .integer({ min: 2, max: 6 })
      .chain((size) => fc.shuffledSubarray([...Array(size).keys()], { minLength: size, maxLength: size }));
    fc.assert(
      fc.property(shuffled, fc.boolean(), (target, apart) => {
        const movers = target.map((to, from): [string, Mover] => [
          `m${from}`,
          { holds: [1000 + from], asks: [1000 + to], ...(apart && { age: from + 1 }) },
        ]);
        expect(new Set(Object.values(verdicts(Object.fromEntries(movers))))).toEqual(new Set(['runs']));
      }),
    );
  });
});
