import type { Example } from '../../../testing/example.ts';

export const NODES = {
  nodes: {
    names: ['gw-a', 'Gate B'],
    rest: { path: '/node', listPath: '/node-list', list: 'fogs' },
    spec: ({ text }) => ({ description: text }),
    edits: [{ body: (n) => ({ location: `hall ${n}` }) }, { body: (n) => ({ diskLimit: n }) }],
    kubectl: (n) => ({ spec: { timeZone: `Etc/GMT+${n}` } }),
  },
} satisfies Record<string, Example>;
