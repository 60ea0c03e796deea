import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

const roleRef = { name: 'microservice' };

export const cases: AgreementCase[] = [
  accepts('an application and a role', { applicationName: 'plant-a', roleRef }),
  accepts('every field', {
    name: 'reader',
    id: 12,
    applicationName: 'plant-a',
    roleRef: { kind: 'Role', name: 'agent-admin', apiGroup: 'rbac.authorization.k8s.io' },
  }),
  refuses('no application', { roleRef }),
  refuses('no role', { applicationName: 'plant-a' }),
  refuses('a role without a name', { applicationName: 'plant-a', roleRef: { kind: 'Role' } }),
  refuses('an application name that is none', { applicationName: 'Plant A', roleRef }),
  refuses('a name that is none', { name: 'a b', applicationName: 'plant-a', roleRef }),
  refuses('rules of its own', { applicationName: 'plant-a', roleRef, rules: [] }),
];
