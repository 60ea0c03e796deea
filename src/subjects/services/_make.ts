import type { Example } from '../../../testing/example.ts';

export const SERVICES = {
  services: {
    names: ['shop-db', 'pump-log'],
    spec: ({ text, isHub }) => ({
      ...{ type: 'cluster', resource: isHub ? 'db.shop.svc' : '10.0.0.5', targetPort: 5432 },
      tags: [`${text}-a`, 'example.com/owner: plant'],
    }),
    edits: [{ body: (n) => ({ targetPort: 1_000 + n }) }, { body: (n) => ({ resource: `db-${n}.svc` }) }],
    kubectl: (n) => ({ spec: { tags: [`tag-${n}`] } }),
  },
} satisfies Record<string, Example>;
