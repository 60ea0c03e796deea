import type { EdgeNode } from '../../../api/v3/index.ts';
import type { BusLookups } from '../../../rules/bus-lookups.ts';
import { v3Name } from '../../../rules/names.ts';
import { onceEach } from '../../../rules/once-each.ts';
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
  /** since when other keys sign its users, as the former ones were lost, Unix s */
  renewed?: string;
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

/** The accounts of a server, and the names of those for which its machine has no room. */
export interface NodeAccounts {
  accounts: readonly NodeAccount[];
  /** among the accounts, without a link */
  unlinked: readonly string[];
  /** not among the accounts */
  leftOut: readonly string[];
}

/** What a machine has room for. */
export interface AccountRoom {
  /** accounts with a link: each has a file of its own */
  links: number;
  /** characters of base64 of their tokens and credentials */
  characters: number;
}

/**
 * The accounts that the server of a node has, by name: a leaf has those with a user on the node, another server has all. What has no
 * token yet is left out. Where the room is too small, the system comes first, then accounts by when the server got them: no account takes
 * the room of an account that works.
 */
export function linkedAccounts(
  node: EdgeNode,
  mode: BusMode,
  bus: BusLookups,
  { hasUpstream, room }: { hasUpstream: boolean; room: AccountRoom },
): NodeAccounts {
  const users = new Map(bus.usersOfNode(v3Name(node)).map((user) => [user.account, user]));
  const refs = mode === 'server' ? bus.accounts() : [];
  const all = new Map(refs.map((ref) => [ref.name, ref]));
  for (const account of users.keys()) {
    const ref = all.get(account) ?? bus.account(account);
    if (ref) all.set(account, ref);
  }
  const found: FoundAccount[] = [];
  for (const ref of all.values()) {
    const content = ref.content();
    const signed = content && signedIn(content);
    if (!signed) continue;
    const user = users.get(ref.name);
    // A look-up: the order of many accounts asks for it again and again.
    const isOfSystem = user?.isOfSystem === true;
    const creds = user && !isOfSystem && hasUpstream ? user.content()?.creds : undefined;
    found.push({ name: ref.name, signed, isOfSystem, since: user?.createdAt ?? LATER, creds });
  }
  found.sort((a, b) => compareTexts(a.name, b.name));
  const { leftOut, unlinked } = beyond(found, room);
  const kept = leftOut.size === 0 ? found : found.filter(({ name }) => !leftOut.has(name));
  let keys: ReadonlySet<string> | undefined;
  const accounts = kept.map(({ name, signed, creds }): NodeAccount => {
    const { imports } = signed;
    const linked = unlinked.has(name) ? undefined : creds;
    if (imports.length === 0) return withoutImports(name, signed, linked);
    // What an account without a link sends elsewhere arrives by the link of who imports it alone.
    keys ??= new Set(kept.filter((one) => !unlinked.has(one.name)).map((one) => one.signed.publicKey));
    return accountOf(name, signed, linked, importedFrom(imports, keys));
  });
  return { accounts, unlinked: [...unlinked], leftOut: [...leftOut] };
}

interface FoundAccount {
  name: string;
  signed: SignedAccount;
  /** the user of the account on the node tells the server */
  isOfSystem: boolean;
  /** since when that user exists, RFC 3339 */
  since: string;
  creds: string | undefined;
}

/** The names of the accounts for which there is no room. */
function beyond(
  found: readonly FoundAccount[],
  room: AccountRoom,
): { unlinked: ReadonlySet<string>; leftOut: ReadonlySet<string> } {
  const unlinked = new Set<string>();
  const leftOut = new Set<string>();
  let { links, characters } = room;
  for (const { creds, signed } of found) {
    if (creds !== undefined) links--;
    characters -= sizeOf(signed, creds);
  }
  if (links >= 0 && characters >= 0) return { unlinked, leftOut };
  ({ links, characters } = room);
  for (const { name, signed, creds } of found.toSorted(byAge)) {
    const isLinked = creds !== undefined && links > 0;
    const size = sizeOf(signed, isLinked ? creds : undefined);
    if (size > characters) leftOut.add(name);
    else {
      characters -= size;
      if (isLinked) links--;
      else if (creds !== undefined) unlinked.add(name);
    }
  }
  return { unlinked, leftOut };
}

const sizeOf = ({ line }: SignedAccount, creds = '') => Math.ceil(line.length / 3) * 4 + creds.length;

/** The system first, then who has a user on the node for the longest time. */
const byAge = (a: FoundAccount, b: FoundAccount) =>
  Number(b.isOfSystem) - Number(a.isOfSystem) || compareTexts(a.since, b.since) || compareTexts(a.name, b.name);

/** After every time. */
const LATER = '~';

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
  const textOf = (key: string) => content[key] && Buffer.from(content[key], 'base64').toString();
  const token = textOf(BUS_KEYS.token);
  const renewed = textOf(BUS_KEYS.renewed);
  const claims = token ? decodeToken(token) : undefined;
  if (!token || !claims) return undefined;
  const { imports = [] } = claims.nats as { imports?: readonly Import[] };
  return {
    ...{ publicKey: claims.sub, line: `${claims.sub}: "${token}"\n`, file: tokensFile(claims.sub), imports },
    ...(renewed && { renewed }),
  };
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
