import { expect, test } from 'vitest';
import { TransportError } from './api-error.ts';
import type { KubeClient } from './client.ts';
import { createServiceAccount, NoServiceAccountError } from './service-account.ts';

/** An API server that returns `username` for every request, after `away` requests that fail. */
function server(username: string, away = 0) {
  const asked: string[] = [];
  const request = async (_method: string, path: string) => {
    asked.push(path);
    if (asked.length <= away) throw new TransportError('lost', 'read ECONNRESET');
    if (path.endsWith('/selfsubjectreviews')) return { status: { userInfo: { username } } };
    if (path.endsWith('/token')) return { status: { token: 'a token' } };
    return { status: { authenticated: true, user: { username }, audiences: ['replicas'] } };
  };
  return { asked, client: { request } as Pick<KubeClient, 'request'> };
}

test('the name of the account is requested again after the API server did not respond', async () => {
  const { client, asked } = server('system:serviceaccount:skerry:controller', 2);
  const account = createServiceAccount({ client, audience: 'replicas' });
  await expect(account.token()).rejects.toThrow('ECONNRESET');
  await expect(account.verify('theirs')).rejects.toThrow('ECONNRESET');
  expect(await account.token()).toBe('a token');
  expect(await account.verify('theirs')).toBe(true);
  expect(asked.filter((path) => path.endsWith('/selfsubjectreviews'))).toHaveLength(3);
});

test('a user that is no ServiceAccount gets no token and verifies none', async () => {
  const { client } = server('admin');
  const account = createServiceAccount({ client, audience: 'replicas' });
  await expect(account.token()).rejects.toThrow(NoServiceAccountError);
  expect(await account.verify('theirs')).toBe(false);
});
