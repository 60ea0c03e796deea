import { randomUUID } from 'node:crypto';
import { afterAll, expect, inject, test } from 'vitest';
import { kubeFromFile } from '../../hack/kube.ts';
import { testConfig } from '../../testing/test-config.ts';
import { createApp } from '../app.ts';
import { createLog } from '../telemetry/log.ts';
import { BASE } from './contract/base.ts';

/** Tokens of a real API server, sent to a complete controller. */
const namespace = `audience-${randomUUID().slice(0, 8)}`;
const all = new AsyncDisposableStack();
afterAll(() => all.disposeAsync());

async function startWith(env: Record<string, string>): Promise<(token: string) => Promise<number>> {
  const config = testConfig(inject('kubeconfig'), namespace, env);
  const app = all.use(await createApp(config, { log: createLog({ level: 'silent', name: 'test' }) }));
  await app.start();
  return async (token) => {
    const url = `http://127.0.0.1:${app.addresses.rest}${BASE}/node-list`;
    return (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).status;
  };
}

test('a bearer token is accepted for the audience in SKERRY_TOKEN_AUDIENCE; an empty audience accepts tokens for the API server', async () => {
  const kube = await kubeFromFile(inject('kubeconfig'));
  all.defer(() => kube.close());
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
  await kube.request('POST', accounts, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'ann' } });
  const mint = async (audiences?: string[]) => {
    const body = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { ...(audiences && { audiences }) },
    };
    const { status } = await kube.request<{ status: { token: string } }>('POST', `${accounts}/ann/token`, body);
    return status.token;
  };
  const tokens = [await mint(['plant']), await mint(['skerry']), await mint()];
  const seen: Record<string, number[]> = {};
  for (const audience of ['plant', 'skerry', '']) {
    const ask = await startWith({ SKERRY_TOKEN_AUDIENCE: audience });
    seen[audience] = [];
    for (const token of tokens) seen[audience].push(await ask(token));
  }
  // 403: the token is accepted, but has no role.
  expect(seen).toEqual({ plant: [403, 401, 401], skerry: [401, 403, 401], '': [401, 403, 403] });
});
