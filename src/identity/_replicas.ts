import { randomUUID } from 'node:crypto';
import { KubeConfig } from '@kubernetes/client-node';
import { expect, inject } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import { atEnd } from '../../testing/at-end.ts';
import { readRevisionKey } from '../datastore/revision-key.ts';
import { createStores, followStores, type Stores } from '../datastore/stores.ts';
import { createClient, type KubeClient } from '../kube/mod.ts';
import { silentLog } from '../lib/log.ts';
import type { LoginContext } from './contract/login-context.ts';
import { createIdentity, type IdentityOptions, type Logins } from './identity.ts';

/** Users and logins of one replica, over a real API server. */
export interface IdentityReplica {
  client: KubeClient;
  stores: Stores;
  identity: Logins;
  namespace: string;
}

const ISSUER = 'http://127.0.0.1:51121/oidc';
export const BY: LoginContext = { address: '192.0.2.7', requestId: 'r1' };
export const PASSWORD = 'Correct-Horse-7';

/** Starts replicas in a new namespace, or in one where others run; they end with the present test or with the file. */
export async function startIdentities(
  count: number,
  { isNew = true, namespace: given, ...overrides }: Partial<IdentityOptions> & { isNew?: boolean } = {},
): Promise<IdentityReplica[]> {
  const config = () => {
    const made = new KubeConfig();
    made.loadFromFile(inject('kubeconfig'));
    return made;
  };
  const cleanup = new AsyncDisposableStack();
  atEnd(() => cleanup.disposeAsync());
  const namespace = given ?? `identity-${randomUUID().slice(0, 8)}`;
  const first = cleanup.use(createClient({ config }));
  if (given === undefined) await first.request('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
  if (isNew) await readRevisionKey({ client: first, namespace, log: silentLog }, new AbortController().signal);
  const replicas: IdentityReplica[] = [];
  for (let i = 0; i < count; i++) {
    const client = cleanup.use(createClient({ config }));
    const stop = new AbortController();
    const stores = createStores({ namespace });
    const reflectors = followStores(stores, { client }, stop.signal);
    const identity = createIdentity({
      ...{ client, namespace, stores, issuer: ISSUER, audience: 'controller', prefix: 'skerry' },
      ...{ given: {}, ttls: {}, bootstrap: { maySayPassword: false }, replicas: () => 1, log: silentLog },
      events: { record() {} },
      ...overrides,
    });
    const running = identity.run(stop.signal);
    cleanup.defer(async () => {
      stop.abort();
      await running;
      for (const reflector of reflectors) await reflector[Symbol.asyncDispose]();
    });
    replicas.push({ client, stores, identity, namespace });
  }
  await expect
    .poll(() => replicas.every(({ identity }) => identity.users.synced && identity.keys.signing), { timeout: 30_000 })
    .toBe(true);
  return replicas;
}

/** Calls a function so often at the same time, at the replicas in turn; resolves with the results and the errors. */
export async function atOnce<T>(
  times: number,
  replicas: readonly IdentityReplica[],
  call: (replica: IdentityReplica, i: number) => Promise<T>,
): Promise<{ done: T[]; failed: { status?: number; code?: string }[] }> {
  const settled = await Promise.allSettled(
    Array.from({ length: times }, (_, i) => call(replicas[i % replicas.length] as IdentityReplica, i)),
  );
  return {
    done: settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : [])),
    failed: settled.flatMap((one) => (one.status === 'rejected' ? [one.reason] : [])),
  };
}
