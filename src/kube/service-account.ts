import type { CallOptions } from './call.ts';
import type { KubeClient } from './client.ts';

/**
 * The identity of this process in the cluster, for requests between replicas: each replica requests short-lived tokens of
 * the common ServiceAccount with an audience for this purpose, and authenticates the others by them. No secret is shared
 * or stored.
 */
export interface OwnServiceAccount {
  /** A token of this account for the audience, renewed before it expires. */
  token(signal?: AbortSignal): Promise<string>;
  /** Whether a token is one of this account for the audience. Rejects when the API server does not respond. */
  verify(token: string, signal?: AbortSignal): Promise<boolean>;
}

const LIFETIME_S = 3600;
/** Tokens are renewed after this share of their lifetime. */
const RENEW_AFTER = 0.7;

const REVIEW = { apiVersion: 'authentication.k8s.io/v1' } as const;

/** This process does not run as a ServiceAccount, so that its replicas cannot authenticate each other. */
export class NoServiceAccountError extends Error {
  override readonly name = 'NoServiceAccountError';
}

/**
 * Needs the permissions to create tokens of its own account and to create token reviews. The name of the account is
 * requested when it is first needed, and again until a request succeeds: an API server that does not respond while a
 * process starts must not prevent the authentication of replicas for good. With the kubeconfig of a user there is no
 * account: `token` rejects with NoServiceAccountError, and `verify` resolves with false.
 */
export function createServiceAccount(options: {
  client: Pick<KubeClient, 'request'>;
  audience: string;
  now?: () => number;
}): OwnServiceAccount {
  const { client, audience, now = Date.now } = options;
  let known: Account | undefined;
  let current: { token: string; renewAt: number } | undefined;

  async function account(signal?: AbortSignal): Promise<Account> {
    known ??= accountOf(await whoAmI(client, { signal }));
    if (known.path === undefined)
      throw new NoServiceAccountError(
        `acts as "${known.username}", not as a ServiceAccount; replicas can only know each other by tokens of one`,
      );
    return known;
  }

  return {
    async token(signal) {
      if (current && now() < current.renewAt) return current.token;
      const { path = '' } = await account(signal);
      const body = { ...REVIEW, kind: 'TokenRequest', spec: { audiences: [audience], expirationSeconds: LIFETIME_S } };
      const { status } = await client.request<{ status: { token: string } }>('POST', path, body, { signal });
      current = { token: status.token, renewAt: now() + LIFETIME_S * 1000 * RENEW_AFTER };
      return status.token;
    },
    async verify(token, signal) {
      const own = await account(signal).catch((error: unknown) => {
        if (error instanceof NoServiceAccountError) return undefined;
        throw error;
      });
      if (!own) return false;
      const body = { ...REVIEW, kind: 'TokenReview', spec: { token, audiences: [audience] } };
      const { status } = await client.request<TokenReview>(
        'POST',
        '/apis/authentication.k8s.io/v1/tokenreviews',
        body,
        { signal },
      );
      return (
        status.authenticated === true &&
        status.user?.username === own.username &&
        (status.audiences ?? []).includes(audience)
      );
    },
  };
}

interface Account {
  username: string;
  /** where its tokens are requested; absent for a user that is no ServiceAccount */
  path?: string;
}

function accountOf(username: string): Account {
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(username) ?? [];
  return name === undefined
    ? { username }
    : { username, path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token` };
}

interface TokenReview {
  status: { authenticated?: boolean; user?: { username?: string }; audiences?: string[] };
}

async function whoAmI(client: Pick<KubeClient, 'request'>, call: CallOptions): Promise<string> {
  const body = { ...REVIEW, kind: 'SelfSubjectReview' };
  const reply = await client.request<{ status: { userInfo: { username: string } } }>(
    'POST',
    '/apis/authentication.k8s.io/v1/selfsubjectreviews',
    body,
    call,
  );
  return reply.status.userInfo.username;
}
