import { annotate, EDITED, type Example } from '../../../testing/example.ts';

const roleOf = (n: number) => ({ roleRef: { name: n % 2 ? 'agent-admin' : 'microservice' } });

export const SERVICE_ACCOUNTS = {
  serviceAccounts: {
    names: ['plant/web', 'plant/db', 'mill/web'],
    spec: ({ role }, name) => ({ applicationName: name.split('/')[0], roleRef: { kind: 'Role', name: role } }),
    change({ role }, full) {
      const [applicationName, name] = full.split('/');
      return { name, applicationName, roleRef: { kind: 'Role', name: role } };
    },
    edits: [{ body: (n, name) => ({ name, applicationName: EDITED.application, ...roleOf(n) }), shows: roleOf }],
    kubectl: annotate,
  },
} satisfies Record<string, Example>;
