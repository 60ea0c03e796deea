import type { EdgeNode } from '../../../api/v3/index.ts';
import type { BusAccountRef, BusLookups } from '../../../rules/bus-lookups.ts';
import { v3Name } from '../../../rules/names.ts';
import { onceEach } from '../../../rules/once-each.ts';
import type { PartInputs } from '../../../rules/part.ts';
import { compareTexts } from '../../../rules/precedence.ts';
import type { Base64ByKey } from '../../../rules/system-files.ts';
import { tokensFile } from '../../../wire/bus.ts';
import { BUS_KEYS } from '../../bus-accounts/rules/secret.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import type { BusMode } from '../../nodes/rules/modes.ts';

/** What the token of an account says, for all servers that have it. */
interface SignedAccount {
  publicKey: string;
  /** the line of the token in the files of a server */
  line: string;
  /** the file with this line */
  file: string;
  imports: readonly Import[];
}

/** An account as the server of a node has it. */
export interface NodeAccount {
  name: string;
  publicKey: string;
  /** the same object as long as its token is the same */
  signed: SignedAccount;
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
  const found: [BusAccountRef, SignedAccount][] = [];
  for (const ref of all.values()) {
    const content = secret(ref.secret);
    const signed = content && signedIn(content);
    if (signed) found.push([ref, signed]);
  }
  found.sort(([a], [b]) => compareTexts(a.name, b.name));
  let keys: ReadonlySet<string> | undefined;
  return found.map(([{ name }, signed]): NodeAccount => {
    const user = users.get(name);
    const creds = user && !user.isOfSystem ? secret(user.secret)?.creds : undefined;
    if (signed.imports.length === 0) return withoutImports(name, signed, creds);
    keys ??= new Set(found.map(([, { publicKey }]) => publicKey));
    return accountOf(name, signed, creds, importedFrom(signed.imports, keys));
  });
}

const accountOf = (
  name: string,
  signed: SignedAccount,
  creds: string | undefined,
  imported: readonly string[],
): NodeAccount => ({ name, signed, publicKey: signed.publicKey, ...(creds && { creds }), imported });

/** Accounts without imports as the last server had them: at an edit of one account, the others are the same. */
const lastAccounts = new WeakMap<SignedAccount, NodeAccount>();

function withoutImports(name: string, signed: SignedAccount, creds: string | undefined): NodeAccount {
  const last = lastAccounts.get(signed);
  if (last && last.name === name && last.creds === creds) return last;
  const made = accountOf(name, signed, creds, NONE);
  lastAccounts.set(signed, made);
  return made;
}

const NONE: readonly string[] = [];

/** Contents of a store never change: at an edit of one account, the tokens of the others are not read again. */
const signedIn = onceEach((content: Base64ByKey): SignedAccount | undefined => {
  const token = content[BUS_KEYS.token] && Buffer.from(content[BUS_KEYS.token] ?? '', 'base64').toString();
  const claims = token ? decodeToken(token) : undefined;
  if (!token || !claims) return undefined;
  const { imports = [] } = claims.nats as { imports?: readonly Import[] };
  return { publicKey: claims.sub, line: `${claims.sub}: "${token}"\n`, file: tokensFile(claims.sub), imports };
});

/** The subjects, as the account sees them, that it imports from one of these accounts. */
const importedFrom = (imports: readonly Import[], accounts: ReadonlySet<string>): string[] =>
  imports
    .filter(({ account }) => accounts.has(account))
    .map(({ subject, local_subject: local }) => withoutReferences(local || subject))
    .sort();

interface Import {
  account: string;
  subject: string;
  local_subject?: string;
}

/** A reference to a token of the other subject, such as `$1`, stands for any token. */
const withoutReferences = (subject: string) => subject.replace(/\$[0-9]+/g, '*');
