import { expect, test } from 'vitest';
import { makeBus } from '../../../../testing/bus.ts';
import { startCallCounter } from '../../../../testing/count-calls.ts';
import { makeBusLookups } from '../../../../testing/inputs.ts';
import type { PartInputs } from '../../../rules/part.ts';
import {
  type Base64ByKey,
  type SystemFileSet,
  systemFileContents,
  systemFilesView,
} from '../../../rules/system-files.ts';
import { knownFolders, parseKnown, withoutKnown } from '../../../wire/known-folders.ts';
import type { SystemFileSetView } from '../../../wire/system-files.ts';
import { makeNode } from '../../nodes/_make.ts';
import { BUS_SERVER } from './node-part.ts';

/** Work on the files of a server with all accounts that an edit of one account must not do for the others. */
const [FEW, MANY] = [10, 1_000];
/** A machine has room for no further links. */
const MOST_LINKS = 566;
const DEAR = ['decodeToken', 'print', 'printed', 'remoteOf', 'tlsOf', 'base64', 'read', 'importedFrom', 'storeBytes'];

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** A server node and its accounts, each with a leaf user; `edit` signs the token of one again. */
function makeServer(count: number) {
  const bus = makeBus();
  const secrets = new Map<string, Base64ByKey>([
    ['skerry-bus-operator', { token: base64(bus.operator) }],
    ['account-SYS', { token: base64(bus.system.token()) }],
    ['user-SYS', { creds: base64(bus.admin.creds) }],
  ]);
  const names = Array.from({ length: count }, (_, i) => `plant-${i}`);
  const accounts = names.map((name) => bus.account(name));
  for (const [i, account] of accounts.entries()) {
    secrets.set(`account-${names[i]}`, { token: base64(account.token()) });
    secrets.set(`user-${names[i]}`, { creds: base64(account.user('leaf-gw-1').creds) });
  }
  const all = ['SYS', ...names];
  const refs = all.map((name) => ({ name, secret: `account-${name}` }));
  const users = all.map((account) => ({
    name: 'leaf-gw-1',
    account,
    secret: `user-${account}`,
    isOfSystem: account === 'SYS',
  }));
  const inputs: PartInputs = {
    key: () => base64('k'.repeat(32)),
    secret: (name) => secrets.get(name),
    upstreamNode: () => undefined,
    bus: makeBusLookups({ usersOfNode: () => users, accounts: () => refs }, (name) => secrets.get(name)),
  };
  const facts = { isBusEnabled: true, hasDefaultRouter: false };
  const wants = BUS_SERVER.wants(makeNode({ name: 'gw-1', spec: { busMode: 'server' } }), facts);
  const leaf = BUS_SERVER.wants(makeNode({ name: 'gw-2', spec: { busMode: 'leaf' } }), facts);
  const ofLeaf = makeBusLookups(
    {
      usersOfNode: () => users.slice(0, 3),
      account: (name) => refs.find((ref) => ref.name === name),
    },
    (name) => secrets.get(name),
  );
  return {
    /** the files of a leaf with two of the accounts */
    leafSets: () => leaf?.files?.({ ...inputs, bus: ofLeaf }).sets ?? [],
    edit: () => void secrets.set('account-plant-3', { token: base64(accounts[3]?.token() ?? '') }),
    sets: () => wants?.files?.(inputs).sets ?? [],
    /** digests by path */
    render: () =>
      new Map(
        wants
          ?.files?.(inputs)
          .sets.flatMap((set) => systemFilesView(set).files.map(({ path, digest }) => [path, digest])),
      ),
  };
}

/** The characters that a machine with the former files is sent: the list, and the files that it lacks. */
function sentTo(former: readonly SystemFileSet[], sets: readonly SystemFileSet[]): { list: number; files: number } {
  const had = former.map(systemFilesView);
  const known = parseKnown(knownFolders(had));
  const listed = sets.map((set) => withoutKnown(systemFilesView(set), known));
  const digestsIn = (all: readonly SystemFileSetView[]) =>
    all.flatMap(({ files }) => files.map(({ digest }) => digest));
  const here = new Set(digestsIn(had));
  const missing = digestsIn(listed).filter((digest) => !here.has(digest));
  const contents = systemFileContents(sets, missing);
  return { list: JSON.stringify(listed).length, files: JSON.stringify(contents).length };
}

test('an edit of one account among 1,000 sends a machine a short list and one file of tokens', () => {
  const [few, many] = [FEW, MANY].map((count) => {
    const server = makeServer(count);
    const former = server.sets();
    server.edit();
    return sentTo(former, server.sets());
  });
  expect(many?.list).toBeLessThan(8 * 1024);
  expect(many?.list).toBeGreaterThan(few?.list ?? Number.NaN);
  expect(many?.files).toBeLessThan(80 * 1024);
}, 60_000);

test('an edit of one account costs the files of a server with 1,000 accounts no more of the dear work than with 10', async () => {
  using counter = await startCallCounter();
  const measured: Map<string, number>[] = [];
  for (const count of [FEW, MANY]) {
    const server = makeServer(count);
    const before = server.render();
    server.edit();
    expect(server.leafSets().length).toBe(2);
    let after = before;
    const calls = await counter.during(() => {
      after = server.render();
    });
    const changed = [...after].filter(([path, digest]) => before.get(path) !== digest).map(([path]) => path);
    expect(changed).toEqual([expect.stringMatching(/^tokens-/)]);
    expect(after.size).toBeGreaterThan(Math.min(count, MOST_LINKS));
    measured.push(calls);
  }
  const [few, many] = measured as [Map<string, number>, Map<string, number>];
  const dearest = [...many].filter(
    ([what, calls]) => DEAR.some((name) => what.endsWith(` ${name}`)) && calls > (few.get(what) ?? 0) + 5,
  );
  expect(dearest).toEqual([]);
  expect(many.get('src/subjects/bus-rules/rules/tokens/decode.ts decodeToken')).toBe(1);
}, 60_000);
