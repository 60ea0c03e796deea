import type { EdgeNode } from '../../../api/v3/index.ts';
import type { BusAccountRef, BusLookups } from '../../../rules/bus-lookups.ts';
import { v3Name } from '../../../rules/names.ts';
import type { PartInputs } from '../../../rules/part.ts';
import { compareTexts } from '../../../rules/precedence.ts';
import type { BusClaims } from '../../bus-rules/rules/tokens/claims.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import type { BusMode } from '../../nodes/rules/modes.ts';

/** An account as the server of a node has it. */
export interface NodeAccount {
  name: string;
  publicKey: string;
  token: string;
  /** the credentials of its leaf user on the node, in base64; absent: it is not linked */
  creds?: string;
  /** subjects that it imports from an account of the same server: over its link they would arrive a second time */
  imported: readonly string[];
}

/**
 * The accounts that the server of a node has, by name: a leaf has those with a user on the node, another server has all. What has no
 * token yet is left out.
 */
export function linkedAccounts(
  node: EdgeNode,
  mode: BusMode,
  { bus, secret }: Pick<PartInputs, 'secret'> & { bus: BusLookups },
): readonly NodeAccount[] {
  const users = new Map(bus.usersOfNode(v3Name(node)).map((user) => [user.account, user]));
  const refs = mode === 'server' ? bus.accounts() : [];
  const all = new Map(refs.map((ref) => [ref.name, ref]));
  for (const account of users.keys()) {
    const ref = all.get(account) ?? bus.account(account);
    if (ref) all.set(account, ref);
  }
  const found = [...all.values()]
    .sort((a, b) => compareTexts(a.name, b.name))
    .flatMap((ref) => {
      const read = tokenOf(ref, secret);
      return read ? [{ ref, ...read }] : [];
    });
  const keys = new Set(found.map(({ claims }) => claims.sub));
  return found.map(({ ref: { name }, token, claims }): NodeAccount => {
    const user = users.get(name);
    const creds = user && !user.isOfSystem ? secret(user.secret)?.creds : undefined;
    return { name, publicKey: claims.sub, token, ...(creds && { creds }), imported: importedFrom(claims, keys) };
  });
}

function tokenOf({ secret: name }: BusAccountRef, secret: PartInputs['secret']) {
  const stored = secret(name)?.token;
  const token = stored && Buffer.from(stored, 'base64').toString();
  const claims = token ? decodeToken(token) : undefined;
  return token && claims ? { token, claims } : undefined;
}

/** The subjects, as the account sees them, that it imports from one of these accounts. */
function importedFrom({ nats }: BusClaims, accounts: ReadonlySet<string>): string[] {
  const { imports = [] } = nats as { imports?: readonly Import[] };
  return imports
    .filter(({ account }) => accounts.has(account))
    .map(({ subject, local_subject: local }) => withoutReferences(local || subject))
    .sort();
}

interface Import {
  account: string;
  subject: string;
  local_subject?: string;
}

/** A reference to a token of the other subject, such as `$1`, stands for any token. */
const withoutReferences = (subject: string) => subject.replace(/\$[0-9]+/g, '*');
