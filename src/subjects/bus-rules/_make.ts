import { describe, type Example } from '../../../testing/example.ts';

export const BUS = {
  busAccountRules: {
    names: ['wide', 'Narrow account 2'],
    spec: ({ text, isHub }) => ({ description: text, maxConnections: isHub ? 1 : 5, pubAllow: [`${text}.>`] }),
    edits: [
      describe,
      { body: (n) => ({ maxImports: n }) },
      { body: (n) => ({ subDeny: [`secret.${n}`, 'q.> workers'] }) },
    ],
    kubectl: (n) => ({ spec: { memStorage: `${n + 1}m` } }),
  },
  busUserRules: {
    names: ['reader', 'Night writer 2'],
    spec: ({ text, isHub }) => ({ description: text, bearerToken: isHub, subAllow: [`${text}.*`] }),
    edits: [describe, { body: (n) => ({ src: [`10.0.0.${n}`] }) }, { body: (n) => ({ tags: [`tag-${n}`] }) }],
    kubectl: (n) => ({ spec: { maxSubscriptions: n } }),
  },
} satisfies Record<string, Example>;
