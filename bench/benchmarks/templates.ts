import { createRenderer } from '../../src/templates/renderer.ts';
import { type Benchmark, by } from '../benchmark.ts';
import { percentile } from '../percentile.ts';

const MICROSERVICES = 128;

/** The largest template: as many microservices as an application can have, with expressions in each. */
export const templates: Benchmark = {
  name: 'templates',
  about: 'rendering of a template of 128 microservices',
  rows: {
    first: {
      what: 'template of 128 microservices and 4,352 expressions, first one (the process starts)',
      unit: 'ms',
      budget: { atMost: 2_000 },
    },
    p50: { what: 'the same, later ones, p50', unit: 'ms', budget: { atMost: 500 } },
    p99: { what: 'the same, later ones, p99', unit: 'ms', budget: { atMost: 1_500 } },
    perMicroservice: { what: 'the same, later ones, for each microservice', unit: 'ms', budget: { atMost: 4 } },
  },
  async run(context) {
    using renderer = createRenderer();
    const render = async () => {
      const began = performance.now();
      const { microservices } = await renderer.render(
        { document: template(), variables: { level: 'info', port: 8000, 'node-name': 'gw-1' } },
        { lookUp: async () => ({}), caller: 'bench', signal: AbortSignal.timeout(60_000) },
      );
      if ((microservices as { schedule: unknown }[])[MICROSERVICES - 1]?.schedule !== 10)
        throw new Error('the template was not rendered');
      return performance.now() - began;
    };
    const first = await render();
    const rounds = by(context, { short: 10, usual: 100, long: 500 });
    const times: number[] = [];
    for (let round = 0; round < rounds; round++) times.push(await render());
    return {
      figures: {
        first,
        p50: percentile(times, 0.5),
        p99: percentile(times, 0.99),
        perMicroservice: percentile(times, 0.5) / MICROSERVICES,
      },
      notes: [`${rounds} rounds, one after another, without look-ups`],
    };
  },
};

const template = () => ({
  name: 'plant',
  microservices: Array.from({ length: MICROSERVICES }, (_, i) => ({
    name: `part-${i}-{{ level }}`,
    agent: { name: '{{ node-name }}' },
    images: { amd64: 'registry.example/part:1' },
    schedule: '{{ 5 | times: 2 }}',
    container: {
      ports: [{ internal: '{{ port }}', external: `{{ port | plus: ${i} }}` }],
      env: Array.from({ length: 29 }, (_, j) => ({
        key: `KEY_${j}`,
        value: `{{ self.name | upcase }}-${j}-{{ level }}`,
      })),
    },
  })),
});
