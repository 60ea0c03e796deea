import { createInMemoryApiServer } from '../../testing/in-memory-api-server.ts';
import type { Stores } from '../datastore/stores.ts';
import { silentLog } from '../lib/log.ts';
import { createIdentity, type Logins } from './identity.ts';

/** Users and logins over the stores of dependencies in memory: users can be made, changed and deleted; there are no keys. */
export const loginsInMemory = (stores: Stores, namespace = 'test'): Logins =>
  createIdentity({
    ...{ client: createInMemoryApiServer(stores).client, namespace, stores },
    ...{ issuer: 'http://127.0.0.1/oidc', audience: 'controller', prefix: 'skerry', given: {}, ttls: {} },
    ...{ bootstrap: { maySayPassword: false }, events: { record() {} }, replicas: () => 1, log: silentLog },
  });
