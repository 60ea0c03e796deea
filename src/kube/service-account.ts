import type { CallOptions, KubeClient } from './client.ts';

/**
 * This process's own identity in the cluster, for talking to its replicas: each asks for short-lived tokens of the
 * common ServiceAccount with an audience of their own, and knows the others by them. Nothing is shared or stored.
 */
export interface ServiceAccount {
  /** A token of this account for the audience, renewed when most of its life is over. */
  token(signal?: AbortSignal): Promise<string>;
  /** Whether a token is one of this account for the audience. Rejects when the API server cannot tell. */
  verify(token: string, signal?: AbortSignal): Promise<boolean>;
}

const LIFETIME_S = 3600;
/** Tokens are renewed after this share of their life. */
const RENEW_AFTER = 0.7;

const REVIEW = { apiVersion: 'authentication.k8s.io/v1' } as const;

/** This process does not act as a ServiceAccount, so its replicas, if there were any, could not know each other. */
export class NoServiceAccountError extends Error {
  override readonly name = 'NoServiceAccountError';
}

/**
 * Needs the permissions to create tokens of the own account and token reviews. Who we are is asked when it is first
 * needed, and again until the API server has told: a server that is away while a process starts must not cost its
 * replicas their knowledge of each other. A user's kubeconfig has no account whose tokens could be asked for: `token`
 * then rejects with NoServiceAccountError, and `verify` knows nobody.
 */
export function createServiceAccount(options: {
  client: Pick<KubeClient, 'request'>;
  audience: string;
  now?: () => number;
}): ServiceAccount {
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
  /** where its tokens are asked for; absent for who is no ServiceAccount */
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
