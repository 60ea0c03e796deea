import { BUS_SECRET_PREFIX, LABELS } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';

/** What a Secret of the bus is of; the value of its label. `server`: the configuration of the servers of the hub. */
export type BusSecretOf = 'operator' | 'account' | 'user' | 'server';

/** Name of the Secret with the keys and the token of the operator, an account or a user. */
export const operatorSecretName = (): string => `${BUS_SECRET_PREFIX}operator`;
export const accountSecretName = (uuid: string): string => `${BUS_SECRET_PREFIX}account-${uuid}`;
/** Name of the Secret with the configuration of the servers of the hub in the cluster. */
export const HUB_SECRET = `${BUS_SECRET_PREFIX}hub`;
export const userSecretName = (uuid: string): string => `${BUS_SECRET_PREFIX}user-${uuid}`;

/** The uuid in the name of the Secret of an account or a user; undefined for other names. */
export function uuidInName(of: 'account' | 'user', name: string): string | undefined {
  const prefix = `${BUS_SECRET_PREFIX}${of}-`;
  return name.startsWith(prefix) ? name.slice(prefix.length) : undefined;
}

/** Keys of these Secrets. */
export const BUS_KEYS = {
  /** private key */
  seed: 'seed',
  /** of an account whose private key was lost: its public key, as nothing but the operator signs tokens of accounts */
  key: 'key',
  /** the token */
  token: 'token',
  /** of the hub: the token of the account that its servers are started with */
  systemToken: 'system-token',
  /** of an account whose keys were lost: the time of the first token that followed, Unix s */
  renewed: 'renewed',
  /** of a user: the file with its token and its seed */
  creds: 'creds',
  /** of an account: private key that signs the users whose credentials the controller hands out itself */
  signing: 'signing',
  /** of an account: keys that signed such users before, JSON object (`FormerKeys`) */
  retiring: 'retiring',
  /** of an account: private key that signs the users that hold their credentials themselves */
  extra: 'extra',
  /** of an account: revoked keys of users that `extra` signed, JSON list */
  kept: 'kept',
  /** of an account: keys that signed users with credentials in other hands before, JSON object (`FormerKeys`) */
  formerKeys: 'former-keys',
  /** of a user: former keys that the account does not revoke yet, JSON object of key to the time in its token */
  former: 'former',
  /** of an account that ended: when, Unix ms. Its token, which refuses everybody, stays for servers that do not have it yet */
  ended: 'ended',
  /** of the operator: the rotation that the key is of */
  rotation: 'rotation',
  /** of the operator: the key that signs next, while servers learn to trust it, and its token */
  nextSeed: 'next-seed',
  nextToken: 'next-token',
  /** of the operator: tokens of former keys that servers trust still, JSON list */
  trusted: 'trusted',
  /** of the operator: when accounts began to be signed with its key, while servers trust former keys still, Unix ms */
  signingSince: 'signing-since',
} as const;

/** Texts of such a Secret by key. */
export type BusTexts = Readonly<Record<string, string>>;

/** Whether a Secret is what its label says; anything else of its name belongs to somebody else. */
export const isBusSecretOf = ({ metadata }: Pick<Secret, 'metadata'>, of: BusSecretOf): boolean =>
  metadata.labels?.[LABELS.bus] === of;

/** A value that the controller wrote; `absent` where there is none, or something else. */
export function parsedText<T>(text: string | undefined, absent: T, is: (value: unknown) => boolean): T {
  if (text === undefined) return absent;
  try {
    const value: unknown = JSON.parse(text);
    return is(value) ? (value as T) : absent;
  } catch {
    return absent;
  }
}
