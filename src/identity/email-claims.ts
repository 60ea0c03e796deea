import { FIELD_MANAGERS, LABELS } from '../api/names.ts';
import { CORE_RESOURCES } from '../api/resources.ts';
import type { AuthUser } from '../api/v3/auth-user.ts';
import { decodeData, encodeData } from '../datastore/keyed-text.ts';
import { HttpError } from '../http/http-error.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Store } from '../kube/store.ts';
import { uuidOf } from '../rules/identity.ts';
import { namesShown } from '../rules/kind-status.ts';
import { namesOfUser } from '../subjects/identity/rules/names-of-user.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import type { LeftBindings } from './left-bindings.ts';
import { emailSecretName, SECRET_TYPE } from './secrets.ts';

/** A claim without a user belongs to a create that is under way, no longer than this. */
const CLAIM_MS = 60_000;

export interface EmailClaimsOptions {
  client: KubeClient;
  namespace: string;
  users: Store<AuthUser>;
  /** Unix ms */
  now(): number;
  left: LeftBindings;
  /** REST unless set */
  fieldManager?: string;
}

/** Whose an e-mail is: a Secret of its hash says it, which lasts for as long as a role binding may name the e-mail. */
export interface EmailClaims {
  /** Makes an e-mail belong to a user; 409 when it is another user's, or was and a role binding still names it. */
  claim(email: string, user: { uuid: string; object: string }, signal: AbortSignal): Promise<void>;
  free(email: string, uuid: string, signal: AbortSignal): Promise<void>;
  /** Frees the e-mail that a user has left, unless a role binding still names it: then its next user has to wait for a cluster admin. */
  leave(email: string, uuid: string, signal: AbortSignal): Promise<void>;
  /**
   * The user that an e-mail belongs to, read live: also a user in deletion, and a user whose former name it is. `isClaimed`: the e-mail
   * belongs to a user who is being made, or to none any more.
   */
  holder(email: string, signal: AbortSignal): Promise<{ object?: AuthUser; isClaimed: boolean }>;
}

export function createEmailClaims({
  client,
  namespace,
  users,
  now,
  left,
  fieldManager = FIELD_MANAGERS.rest,
}: EmailClaimsOptions): EmailClaims {
  const { authUsers } = RESOURCES;
  const secretOf = (email: string, signal: AbortSignal) =>
    client.find(CORE_RESOURCES.secrets, { namespace, name: emailSecretName(email) }, { signal });

  /** The user of a claim, unless it has ended, or never got the e-mail. */
  async function userOf(email: string, { user, object }: Record<string, string>, signal: AbortSignal) {
    if (user === undefined) return undefined;
    const name = object ?? users.byIndex('uuid', user)[0]?.metadata.name ?? user;
    const found = await client.find(authUsers, { namespace, name }, { signal });
    return found && uuidOf(found) === user && namesOfUser(found).includes(email) ? found : undefined;
  }

  async function free(email: string, uuid: string, signal: AbortSignal): Promise<void> {
    const present = await secretOf(email, signal);
    if (!present || decodeData(present.data).user !== uuid) return;
    const { uid, resourceVersion } = present.metadata;
    const preconditions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
    await client
      .delete(CORE_RESOURCES.secrets, { namespace, name: present.metadata.name }, { signal, preconditions })
      .catch((error) => {
        if (!isConflict(error) && !isNotFound(error)) throw error;
      });
  }

  return {
    async claim(email, { uuid, object }, signal) {
      const name = emailSecretName(email);
      const data = encodeData({ user: uuid, object });
      const metadata = { name, namespace, labels: { [LABELS.identity]: 'email' } };
      const secret = { apiVersion: 'v1', kind: 'Secret', type: SECRET_TYPE, metadata, data };
      try {
        await client.create(CORE_RESOURCES.secrets, secret, { signal, fieldManager });
      } catch (error) {
        if (!isAlreadyExists(error)) throw error;
        const present = await secretOf(email, signal);
        const claim = decodeData(present?.data);
        if (claim.user === uuid) return;
        const isFresh = now() - Date.parse(present?.metadata.creationTimestamp ?? '') < CLAIM_MS;
        if (!present || isFresh || (await userOf(email, claim, signal))) throw emailTaken(email);
        // A create that was interrupted, or a deleted user, left it.
        const bindings = await left.naming(email, signal);
        if (bindings?.length !== 0) throw stillBound(email, bindings);
        await client.replace(CORE_RESOURCES.secrets, { ...present, data }, { signal, fieldManager }).catch((lost) => {
          throw isConflict(lost) || isNotFound(lost) ? emailTaken(email) : lost;
        });
      }
    },

    free,

    async leave(email, uuid, signal) {
      const bindings = await left.naming(email, signal);
      if (bindings?.length === 0) await free(email, uuid, signal);
    },

    async holder(email, signal) {
      const present = await secretOf(email, signal);
      if (!present) return { isClaimed: false };
      const object = await userOf(email, decodeData(present.data), signal);
      return { ...(object && { object }), isClaimed: true };
    },
  };
}

export const emailTaken = (email: string) =>
  new HttpError(409, 'DUPLICATE_NAME', `another user has the e-mail ${email}`, { name: 'DuplicatePropertyError' });

function stillBound(email: string, bindings: readonly string[] | undefined): HttpError {
  const why = bindings
    ? `role bindings still give permissions to it; a cluster admin removes it from ${namesShown(bindings)}`
    : `the controller may not see whether role bindings still name it; a cluster admin lets it list rolebindings and clusterrolebindings, or deletes the Secret ${emailSecretName(email)}`;
  return new HttpError(409, 'EMAIL_STILL_BOUND', `another user had the e-mail ${email}, and ${why}`);
}
