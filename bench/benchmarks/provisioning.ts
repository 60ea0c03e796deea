import type { Benchmark } from '../benchmark.ts';

/** How fast nodes take their identity: as many as a small fleet has, some at a time. */
export const provisioning: Benchmark = {
  name: 'provisioning',
  about: 'nodes that take their identity',
  rows: {
    rate: { what: 'provisioning', unit: 'nodes/s', budget: { atLeast: 200 }, baseline: '26' },
    whole: { what: 'create a node, issue its key and provision it', unit: 'nodes/s' },
  },
  async run({ world, profiled }) {
    const { fleet } = await world();
    const grow = () => fleet.grow(fleet.agents.length + NODES);
    const { nodes, created, keyed, provisioned } = await profiled('provisioning', grow);
    return {
      figures: { rate: nodes / provisioned, whole: nodes / (created + keyed + provisioned) },
      notes: [
        `${nodes} nodes, 16 at a time; each is two writes to the API server (the key is used up, the node has one)`,
      ],
    };
  },
};

const NODES = 200;
