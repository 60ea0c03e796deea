import { beforeAll, expect, test } from 'vitest';
import { waitFor } from '../../../hack/wait.ts';
import { expectShortTurns } from '../../../testing/turns.ts';
import { BOUNDS } from '../../api/bounds.ts';
import { API_VERSION } from '../../api/names.ts';
import type { BusAccountRuleSpec } from '../../api/v3/index.ts';
import { encodeData } from '../../datastore/keyed-text.ts';
import type { TestClient } from '../../rest/_client.ts';
import { startTestCluster } from '../../rest/_cluster.ts';
import { makeNkey, signJwt } from '../../signer/nkeys.ts';
import { accountClaims } from '../bus-rules/rules/tokens/claims.ts';
import { KINDS, RESOURCES } from '../kinds.ts';
import { BUS_KEYS, userSecretName } from './rules/secret.ts';
import { MOST_KEPT_REVOCATIONS, MOST_REVOCATIONS } from './rules/signing-keys.ts';

/**
 * The largest rules and many users at a real API server. No turn of the event loop of the controller takes long meanwhile. The long form has
 * 128 rules and 10,000 users.
 */
const NIGHTLY = process.env.SKERRY_NIGHTLY !== undefined;
const RULES = NIGHTLY ? 128 : 6;
const USERS = NIGHTLY ? 10_000 : 32;
/**
 * What cannot be repeated may meet a collection of garbage, which the best of several times leaves out. The process is client and
 * controller: the long form has garbage of hundreds of megabytes.
 */
const ONCE = { times: 1, budget: 100 };
const timeoutMs = NIGHTLY ? 3_600_000 : 120_000;

const cluster = await startTestCluster();
const { kube, namespace } = cluster;
// The rules of the long form are more than the objects that an installation may have by default.
const BUDGETS = { SKERRY_BUDGET_OBJECTS_MIB: '512', SKERRY_BUDGET_USER_PERCENT: '100' };
const controller = await cluster.startController({ BUS_ENABLED: 'true', ...(NIGHTLY && BUDGETS) });
let rest: TestClient;
beforeAll(async () => {
  rest = controller.client.as(await cluster.token('admin'));
  const node = { json: { name: 'gateway-0', archId: 1 } };
  await waitFor(async () => (await rest.post('/node', node)).status === 201, { what: 'the controller to be ready' });
});

async function create(path: string, json: object): Promise<void> {
  const { status, body } = await rest.post(path, { json });
  expect(status, JSON.stringify(body).slice(0, 500)).toBe(201);
}

/** The objects of a kind, in pages that take no long turn of their own. */
async function all<T extends { metadata: { name: string } }>(key: 'busAccounts' | 'busUsers'): Promise<T[]> {
  const found: T[] = [];
  for await (const { items } of kube.listPages(RESOURCES[key] as never, { namespace, limit: 40 }))
    found.push(...(items as unknown as T[]));
  return found;
}
interface Signed {
  metadata: { name: string };
  spec: { name?: string; account?: string; rule?: string };
  status?: { uuid?: string; publicKey?: string; rule?: string; conditions?: { type: string; status: string }[] };
}
const isReady = ({ status }: Signed) =>
  status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') ?? false;

/** A rule as large as it may be; with imports from this account it has as many bytes as a rule may have, and more with `isBeyond`. */
function largestRule(account?: string, { isBeyond = false } = {}): BusAccountRuleSpec {
  const text = (start: string) => start.padEnd(BOUNDS.busSubject, 'é');
  const many = <T>(one: (index: number) => T) => Array.from({ length: BOUNDS.busShares }, (_, index) => one(index));
  const subjects = many((index) => text(`${index}.`));
  const rule: BusAccountRuleSpec = {
    ...{ pubAllow: subjects, pubDeny: subjects, subAllow: subjects, subDeny: subjects },
    description: 'é'.repeat(BOUNDS.description),
    exports: many((index) => ({
      ...{ type: 'service' as const, subject: text(`e${index}`), name: text('n'), description: text('d') },
      info_url: `https://example.com/${'a'.repeat(2_000)}`,
    })),
  };
  if (account === undefined) return rule;
  const imports = many((index) => ({
    ...{ type: 'stream' as const, subject: text(`i${index}`), name: text('n'), account },
  }));
  const isWithin = (count: number) =>
    Buffer.byteLength(JSON.stringify({ ...rule, imports: imports.slice(0, count) })) <= BOUNDS.busAccountRuleBytes;
  const most = imports.findIndex((_, index) => !isWithin(index + 1));
  return { ...rule, imports: imports.slice(0, isBeyond ? most + 1 : most) };
}
/** The key of an account that exists from the start. */
const controllerKey = () =>
  waitFor(
    async () =>
      (await all<Signed>('busAccounts')).find(({ metadata }) => metadata.name === 'controller')?.status?.publicKey,
    { what: 'the account of the controller to be signed' },
  );

test('a Secret of the API server has room for the token of the largest rule with the most revocations', async () => {
  const key = await makeNkey('account');
  const revoked = Array.from({ length: MOST_KEPT_REVOCATIONS + 2 * MOST_REVOCATIONS }, (_, index) =>
    `${index}`.padEnd(56, 'U'),
  );
  const other = (await makeNkey('account')).publicKey;
  const of = { operator: key.publicKey, key: other, name: 'n'.repeat(253), iat: 1 };
  const revocations = Object.fromEntries(revoked.map((one) => [one, 2 ** 31]));
  const signingKeys = Array.from({ length: 6 }, () => key.publicKey);
  const token = await signJwt(
    accountClaims({ ...of, rule: largestRule(key.publicKey), revocations, signingKeys }),
    key.seed,
  );
  const texts = { [BUS_KEYS.token]: token, [BUS_KEYS.kept]: JSON.stringify(revoked), [BUS_KEYS.seed]: key.seed };
  const metadata = { name: 'largest', namespace };
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata, data: encodeData(texts) };
  await expect(kube.create(RESOURCES.secrets, secret as never)).resolves.toBeDefined();
});

test('a rule beyond the bound is 400 over REST and not usable over kubectl, with the member and the bound', async () => {
  const body = largestRule(await controllerKey(), { isBeyond: true });
  const expected = /^exports: has [0-9]+ of the [0-9]+ bytes of the rule as JSON; a rule has at most 393216$/;
  const answer = await rest.post('/bus/account-rules', { json: { name: 'beyond', ...body } });
  expect([answer.status, answer.body.code]).toEqual([400, 'BUS_RULE_INVALID']);
  expect(answer.body.message).toMatch(expected);
  const { kind } = RESOURCES.busAccountRules;
  const metadata = { name: 'beyond', namespace };
  await kube.create(RESOURCES.busAccountRules, { apiVersion: API_VERSION, kind, metadata, spec: body } as never);
  await expect
    .poll(
      async () => {
        const stored = await kube.get(RESOURCES.busAccountRules, { namespace, name: 'beyond' });
        const { conditions = [] } =
          (stored as unknown as { status?: { conditions?: { message: string }[] } }).status ?? {};
        return conditions.map(({ message }) => message).find((message) => expected.test(message));
      },
      { timeout: 20_000 },
    )
    .toBeDefined();
});

test('a user that a developer writes into the account of the servers, where no policy is installed, gets no Secret', async () => {
  await controllerKey();
  const { resource } = KINDS.busUsers;
  const metadata = { name: 'mine', namespace };
  const made = { apiVersion: API_VERSION, kind: resource.kind, metadata, spec: { account: 'SYS', name: 'me' } };
  await kube.create(resource, made as never);
  const mine = async () => (await kube.get(resource, { namespace, name: 'mine' })) as unknown as Signed;
  await expect
    .poll(async () => (await mine()).status?.conditions, { timeout: 20_000 })
    .toContainEqual(expect.objectContaining({ type: 'Ready', status: 'False', reason: 'BusUserOfSystem' }));
  const { status } = await mine();
  expect(status?.publicKey).toBeUndefined();
  const secret = { namespace, name: userSecretName(status?.uuid ?? '') };
  await expect(kube.get(RESOURCES.secrets, secret)).rejects.toThrow('not found');
});

test(
  `${RULES} accounts with a rule of the largest size each are signed, listed and edited, and no turn of the event loop is long`,
  async () => {
    const rule = largestRule(await controllerKey());
    await expectShortTurns(async () => {
      for (let i = 0; i < RULES; i++) {
        await create('/bus/account-rules', { name: `large-${i}`, ...rule });
        await create('/application', {
          name: `app-${i}`,
          busConfig: { busAccess: true, busRule: `large-${i}` },
          microservices: [],
        });
      }
      await waitFor(
        async () => {
          const accounts = (await all<Signed>('busAccounts')).filter(({ metadata }) => /^app-/.test(metadata.name));
          return (
            accounts.length === RULES && accounts.every((one) => isReady(one) && /^large-/.test(one.status?.rule ?? ''))
          );
        },
        { what: 'every account to have its rule', timeoutMs },
      );
    }, ONCE);
    await expectShortTurns(async () => {
      // The whole list is tens of megabytes: read as bytes, not as one text.
      const response = await fetch(`${controller.url}/api/v3/bus/account-rules`, {
        headers: { authorization: `Bearer ${await cluster.token('admin')}` },
      });
      let bytes = 0;
      for await (const chunk of response.body ?? []) bytes += chunk.length;
      expect(bytes).toBeGreaterThan(RULES * (BOUNDS.busAccountRuleBytes - 8_192));
    });
  },
  timeoutMs,
);

test(
  `${USERS} users of one account are signed, listed, signed again by another rule and deleted, and no turn of the event loop is long`,
  async () => {
    await create('/bus/user-rules', { name: 'readers', pubDeny: ['>'] });
    await create('/application', { name: 'crowd', busConfig: { busAccess: true }, microservices: [] });
    const users = async () => (await all<Signed>('busUsers')).filter(({ spec }) => spec.rule === 'readers');
    const { resource } = KINDS.busUsers;
    const keys = new Map<string, string | undefined>();
    const signed = () =>
      waitFor(
        async () => {
          const found = await users();
          return (
            found.length === USERS &&
            found.every(({ metadata, status }) => status?.publicKey && status.publicKey !== keys.get(metadata.name))
          );
        },
        { what: 'every user to have another key', timeoutMs, intervalMs: NIGHTLY ? 1_000 : 50 },
      );
    const steps = [
      async () => {
        const make = (i: number) =>
          kube.create(resource, {
            apiVersion: API_VERSION,
            kind: resource.kind,
            metadata: { name: `user-${i}`, namespace },
            spec: { account: 'crowd', rule: 'readers' },
          } as never);
        for (let i = 0; i < USERS; i += 8)
          await Promise.all(Array.from({ length: Math.min(8, USERS - i) }, (_, n) => make(i + n)));
        await signed();
      },
      async () => {
        for (const { metadata, status } of await users()) keys.set(metadata.name, status?.publicKey);
        expect((await rest.patch('/bus/user-rules/readers', { json: { pubDeny: ['a.>'] } })).status).toBe(200);
        await signed();
      },
      async () => {
        const body = { json: { busConfig: { busAccess: false } } };
        expect((await rest.patch('/application/crowd', body)).status).toBe(204);
        await waitFor(async () => (await users()).length === 0, { what: 'all users to be deleted', timeoutMs });
      },
    ];
    for (const step of steps) await expectShortTurns(step, ONCE);
  },
  timeoutMs,
);
