import { describe, expect, test } from 'vitest';
import { readFileSets } from '../../../../agent/src/domain/system-files.ts';
import { makeBus, type TestAccount } from '../../../../testing/bus.ts';
import { makeBusLookups } from '../../../../testing/inputs.ts';
import type { PartInputs } from '../../../rules/part.ts';
import { systemFilesView } from '../../../rules/system-files.ts';
import { tokensIn } from '../../../wire/bus.ts';
import { makeNode } from '../../nodes/_make.ts';
import { linkedAccounts } from './node-accounts.ts';
import { BUS_SERVER } from './node-part.ts';

/** A server with more accounts than its machine has room for. */
const bus = makeBus();
const base64 = (text: string) => Buffer.from(text).toString('base64');

interface Given {
  name: string;
  account: TestAccount;
  token: string;
  /** day on which its leaf user was made */
  day: number;
}

const given = (name: string, day: number, rule: Parameters<TestAccount['token']>[0] = {}): Given => {
  const account = bus.account(name);
  return { name, account, token: account.token(rule), day };
};
const NODE = makeNode({ name: 'gw-1', spec: { busMode: 'server' } });
const CREDS = base64(bus.account('any').user('leaf-gw-1').creds);

function inputsOf(accounts: readonly Given[]) {
  const secrets = new Map<string, Record<string, string>>([
    ['skerry-bus-operator', { token: base64(bus.operator) }],
    ['account-SYS', { token: base64(bus.system.token()) }],
    ['user-SYS', { creds: base64(bus.admin.creds) }],
    ...accounts.map(({ name, token }) => [`account-${name}`, { token: base64(token) }] as const),
    ...accounts.map(({ name }) => [`user-${name}`, { creds: CREDS }] as const),
  ]);
  const all = ['SYS', ...accounts.map(({ name }) => name)];
  const dayOf = new Map(accounts.map(({ name, day }) => [name, day]));
  const users = all.map((account) => ({
    ...{ name: 'leaf-gw-1', account, secret: `user-${account}`, isOfSystem: account === 'SYS' },
    createdAt: new Date(Date.UTC(2026, 0, dayOf.get(account) ?? 300)).toISOString(),
  }));
  const inputs: PartInputs & { bus: ReturnType<typeof makeBusLookups> } = {
    key: () => base64('k'.repeat(32)),
    secret: (name) => secrets.get(name),
    upstreamNode: () => undefined,
    bus: makeBusLookups(
      { usersOfNode: () => users, accounts: () => all.map((name) => ({ name, secret: `account-${name}` })) },
      (name) => secrets.get(name),
    ),
  };
  return inputs;
}

const within = (accounts: readonly Given[], links: number, characters = 2 ** 30) => {
  const found = linkedAccounts(NODE, 'server', inputsOf(accounts).bus, {
    hasUpstream: true,
    room: { links, characters },
  });
  const linked = found.accounts.filter(({ creds }) => creds).map(({ name }) => name);
  return { ...found, names: found.accounts.map(({ name }) => name), linked };
};

describe('accounts beyond the room of a machine', () => {
  const [a, b, c] = [given('a', 3), given('b', 1), given('c', 2)];

  test('are the accounts that came last, whatever their names are, and have tokens without a link', () => {
    expect(within([a, b, c], 3)).toMatchObject({ linked: ['a', 'b', 'c'], unlinked: [], leftOut: [] });
    expect(within([a, b, c], 2)).toMatchObject({ linked: ['b', 'c'], unlinked: ['a'], names: ['SYS', 'a', 'b', 'c'] });
    expect(within([a, b, c], 1)).toMatchObject({ linked: ['b'], unlinked: ['c', 'a'] });
  });

  test('are never the account of the system', () => {
    const [, ofSystem] = within([a, b, c], 3).accounts;
    const room = base64(`${bus.system.publicKey}: "${bus.system.token()}"\n`).length;
    expect(ofSystem).toBeDefined();
    expect(within([a, b, c], 3, room)).toMatchObject({ names: ['SYS'], leftOut: ['b', 'c', 'a'] });
  });

  test('do not take the subjects of accounts that import from them off the links of those', () => {
    const shared = { subject: 'speed', type: 'stream', name: 'speed' } as const;
    const from = given('from', 2, { rule: { exports: [shared] } });
    const to = given('to', 1, { rule: { imports: [{ ...shared, account: from.account.publicKey }] } });
    const importedBy = (links: number) =>
      within([from, to], links).accounts.find(({ name }) => name === 'to')?.imported;
    expect(importedBy(2)).toEqual(['speed']);
    expect(importedBy(1)).toEqual([]);
  });
});

describe('the files of a server', () => {
  const wantsOf = (accounts: readonly Given[]) => {
    const files = BUS_SERVER.wants(NODE, { hasDefaultRouter: false, isBusEnabled: true })?.files?.(inputsOf(accounts));
    const config = files?.sets.find(({ name }) => name === 'bus-config')?.files ?? {};
    const tokens = Object.entries(config).flatMap(([path, content]) =>
      path.startsWith('tokens-') ? [...tokensIn(Buffer.from(content, 'base64').toString()).keys()] : [],
    );
    return { lacks: files?.lacks, taken: readFileSets((files?.sets ?? []).map(systemFilesView)), config, tokens };
  };
  const many = (count: number) => Array.from({ length: count }, (_, i) => given(`plant-${1_000 - i}`, i + 1));

  test('are taken by an agent with as many accounts as there can be links, and with more, of which the condition names the last', () => {
    const all = many(568);
    const full = wantsOf(all.slice(0, 566));
    expect(full.lacks).toBeUndefined();
    const over = wantsOf(all);
    expect(over.lacks).toEqual({
      reason: 'BusTooManyAccounts',
      message: 'a bus server links 566 accounts, and has these for its machine alone: plant-433; plant-434',
    });
    for (const { taken } of [full, over]) expect(taken.flatMap((set) => ('problem' in set ? [set] : []))).toEqual([]);
    const linked = ({ config }: typeof over) =>
      Object.keys(config)
        .filter((path) => path.startsWith('creds/'))
        .sort();
    expect(linked(over)).toEqual(linked(full));
    expect(over.tokens).toHaveLength(569);
  });

  test('are taken by an agent although the tokens are larger than all files may be, and lack the last of these', () => {
    const revocations = Object.fromEntries(
      Array.from({ length: 10_000 }, (_, i) => [`U${String(i).padStart(55, 'A')}`, 1]),
    );
    const large = Array.from({ length: 4 }, (_, i) => given(`large-${i}`, 9 - i, { revocations }));
    const { lacks, taken, tokens } = wantsOf(large);
    expect(lacks?.reason).toBe('BusTooManyAccounts');
    expect(lacks?.message).toBe('the tokens of these accounts have no room on the machine: large-0');
    expect(tokens).toContain(large[3]?.account.publicKey);
    expect(tokens).not.toContain(large[0]?.account.publicKey);
    expect(taken.flatMap((set) => ('problem' in set ? [set] : []))).toEqual([]);
  });
});
