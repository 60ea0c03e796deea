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

/**
 * Needs the permissions to create tokens of the own account and token reviews. Rejects, with what to do, when the
 * client does not act as a ServiceAccount (a user's kubeconfig has no account whose tokens could be asked for).
 */
export async function createServiceAccount(
  options: { client: KubeClient; audience: string; now?: () => number } & CallOptions,
): Promise<ServiceAccount> {
  const { client, audience, now = Date.now, ...call } = options;
  const username = await whoAmI(client, call);
  const match = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(username);
  if (!match)
    throw new Error(
      `acts as "${username}", not as a ServiceAccount; replicas can only know each other by tokens of one`,
    );
  const path = `/api/v1/namespaces/${match[1]}/serviceaccounts/${match[2]}/token`;
  let current: { token: string; renewAt: number } | undefined;

  return {
    async token(signal) {
      if (current && now() < current.renewAt) return current.token;
      const body = { ...REVIEW, kind: 'TokenRequest', spec: { audiences: [audience], expirationSeconds: LIFETIME_S } };
      const { status } = await client.request<{ status: { token: string } }>('POST', path, body, { signal });
      current = { token: status.token, renewAt: now() + LIFETIME_S * 1000 * RENEW_AFTER };
      return status.token;
    },
    async verify(token, signal) {
      const body = { ...REVIEW, kind: 'TokenReview', spec: { token, audiences: [audience] } };
      const { status } = await client.request<TokenReview>(
        'POST',
        '/apis/authentication.k8s.io/v1/tokenreviews',
        body,
        { signal },
      );
      return (
        status.authenticated === true &&
        status.user?.username === username &&
        (status.audiences ?? []).includes(audience)
      );
    },
  };
}

interface TokenReview {
  status: { authenticated?: boolean; user?: { username?: string }; audiences?: string[] };
}

async function whoAmI(client: KubeClient, call: CallOptions): Promise<string> {
  const body = { ...REVIEW, kind: 'SelfSubjectReview' };
  const reply = await client.request<{ status: { userInfo: { username: string } } }>(
    'POST',
    '/apis/authentication.k8s.io/v1/selfsubjectreviews',
    body,
    call,
  );
  return reply.status.userInfo.username;
}
