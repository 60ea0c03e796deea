import type { Benchmark } from '../benchmark.ts';
import { spread } from '../percentile.ts';

/** How long the maker of an application waits for the answer of REST. */
export const creation: Benchmark = {
  name: 'creation',
  about: 'applications created over REST',
  rows: {
    p50: {
      what: 'create an application of 5 microservices, until answered, p50',
      unit: 'ms',
      budget: { atMost: 40 },
      baseline: '190-220',
    },
    p99: { what: 'create an application of 5 microservices, until answered, p99', unit: 'ms' },
  },
  async run({ world }) {
    const { fleet } = await world();
    const count = fleet.applications.length + APPLICATIONS;
    await fleet.grow(count);
    const { n, p50, p99 } = spread(await fleet.deploy(count));
    return {
      figures: { p50, p99 },
      notes: [`${n} applications, one after the other, while their nodes are told of them and report`],
    };
  },
};

const APPLICATIONS = 200;
