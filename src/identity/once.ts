import { CORE_RESOURCES } from '../api/resources.ts';
import { isAlreadyExists, type KubeClient } from '../kube/mod.ts';
import type { Once } from './contract/once.ts';
import { hashed, LOGIN_CALL, loginSecret } from './login-secret.ts';

export interface OnceOptions {
  client: KubeClient;
  namespace: string;
  /** Unix ms */
  now: () => number;
}

/** The mark outlives what it forbids, for replicas whose clocks are late. */
const LATE_MS = 120_000;

/** A value counts for whoever creates the Secret with its hash. */
export function createOnce({ client, namespace, now }: OnceOptions): Once {
  return {
    async take(purpose, value, expiresAt, signal) {
      if (expiresAt <= now()) return false;
      const mark = { namespace, of: 'once' as const, hash: hashed(purpose, value) };
      try {
        const secret = loginSecret({ ...mark, expiresAt: expiresAt + LATE_MS });
        await client.create(CORE_RESOURCES.secrets, secret, { ...LOGIN_CALL, signal });
        return true;
      } catch (error) {
        if (isAlreadyExists(error)) return false;
        throw error;
      }
    },
  };
}
