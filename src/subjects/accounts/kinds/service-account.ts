import {
  type ServiceAccount,
  serviceAccountResource,
  serviceAccountSpecSchema,
} from '../../../api/v3/service-account.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { plainShapes } from '../../../kinds/rest.ts';
import { requireUnchanged } from '../../../rules/document.ts';
import { invalid } from '../../../rules/errors.ts';
import { roleVerdict, serviceAccountName } from '../rules/service-account.ts';

const plain = plainTranslation<ServiceAccount>(serviceAccountSpecSchema, { closed: true });
const shapes = plainShapes(serviceAccountResource, serviceAccountSpecSchema);

export const serviceAccountKind = defineKind<ServiceAccount>()({
  key: 'serviceAccounts',
  definition: serviceAccountResource,
  lookedUp: true,
  noun: 'service account',
  identity: { name: serviceAccountName },
  access: 'workloads',
  inUse: { status: 409, code: 'SERVICE_ACCOUNT_IN_USE' },
  references: ({ spec }) => [{ to: 'applications', ref: spec.applicationName }],
  verdict({ spec: { applicationName, roleRef } }, find) {
    // An application that is being deleted takes its accounts with it; one that is made now is for a later one.
    const application = find({ to: 'applications', ref: applicationName });
    if (application && !application.metadata.deletionTimestamp) {
      return roleVerdict(roleRef, 'roleRef', (name) => find({ to: 'roles', ref: name }) !== undefined);
    }
    return {
      reason: 'ApplicationNotFound',
      status: 404,
      code: 'INVALID_APPLICATION_NAME',
      field: 'applicationName',
      message: `there is no application ${JSON.stringify(applicationName)}`,
    };
  },
  rest: {
    tag: 'Service accounts',
    key: 'name',
    notFound: 'SERVICE_ACCOUNT_NOT_FOUND',
    crud: {
      path: '/serviceaccounts',
      list: 'serviceAccounts',
      isBareList: true,
      scope: { param: 'appName', field: 'applicationName' },
      replies: {
        create: { status: 201, body: 'object' },
        change: { status: 200, body: 'object' },
        delete: { status: 204 },
      },
      shapes: { ...shapes, change: shapes.create.meta({ id: 'ServiceAccountChanges' }) },
      ...plain,
      fromBody(body) {
        const { name = '', spec } = plain.fromBody(body);
        return { name: `${spec.applicationName}/${name}`, spec: { ...spec, name } };
      },
      /** The role is all that an account can change; the body says the whole account all the same. */
      patch(account, body) {
        const given = (body ?? {}) as Record<string, unknown>;
        for (const field of ['name', 'applicationName', 'roleRef'])
          if (!given[field]) throw invalid(`${field}: is required`, field);
        requireUnchanged('applicationName', given.applicationName, account.spec.applicationName);
        return plain.patch(account, body);
      },
      read(account, find) {
        const { kind = 'Role', ...role } = account.spec.roleRef;
        return { ...plain.read(account, find), roleRef: { kind, ...role } };
      },
      upload: { part: 'serviceaccount', update: 'PATCH', topLevel: ['roleRef'] },
    },
  },
  indexes: {
    /** name of its role */
    role: ({ spec }) => [spec.roleRef.name],
  },
});
