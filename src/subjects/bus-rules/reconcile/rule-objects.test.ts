import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import type { BusAccountRule, BusUserRule } from '../../../api/v3/index.ts';
import { publicKeyText } from '../../../rules/nkey-text.ts';
import { busOf, shopWithBus } from '../../bus-accounts/_fleet.ts';
import { RESERVED_ACCOUNT_RULES, RESERVED_USER_RULES } from '../rules/reserved-rules.ts';

let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

const bus = busOf(() => fleet);
const accountRule = (name: string) => fleet.stores.busAccountRules.get(NAMESPACE, name) as BusAccountRule;
const userRule = (name: string) => fleet.stores.busUserRules.get(NAMESPACE, name) as BusUserRule;
const readyOf = (rule: BusAccountRule | BusUserRule) => rule.status?.conditions?.find(({ type }) => type === 'Ready');

describe('a reserved rule', () => {
  test.each(RESERVED_ACCOUNT_RULES.map(({ name }) => name))('for accounts exists and can be used: %s', (name) => {
    expect(readyOf(accountRule(name))).toMatchObject({ status: 'True', reason: 'Usable' });
  });
  test.each(RESERVED_USER_RULES.map(({ name }) => name))('for users exists and can be used: %s', (name) => {
    expect(readyOf(userRule(name))).toMatchObject({ status: 'True', reason: 'Usable' });
  });

  test('has its content again after an edit or a deletion', async () => {
    const { spec } = userRule('controller-user');
    fleet.cluster.edit(userRule('controller-user'), (edited) => {
      edited.spec.pubAllow = ['>'];
      edited.spec.tags = ['mine'];
    });
    await fleet.settle();
    expect(userRule('controller-user').spec).toEqual(spec);
    const { resource } = fleet.stores.busAccountRules;
    await fleet.cluster.client.delete(resource, { namespace: NAMESPACE, name: 'default-account' });
    await fleet.settle();
    expect(readyOf(accountRule('default-account'))).toMatchObject({ status: 'True' });
  });

  test('keeps its name before a rule of kubectl', async () => {
    const { resource } = fleet.stores.busUserRules;
    await fleet.cluster.client.create(resource, {
      ...{ apiVersion: 'skerry.dev/v3', kind: 'BusUserRule', metadata: { name: 'wide', namespace: NAMESPACE } },
      spec: { name: 'default-user' },
    });
    await fleet.settle();
    expect(readyOf(userRule('wide'))).toMatchObject({ status: 'False', reason: 'NameTaken' });
  });
});

describe('an import', () => {
  const UNKNOWN = publicKeyText('account', new Uint8Array(32).fill(7));
  const importing = (account: string) => ({ imports: [{ type: 'stream' as const, subject: 'news.>', account }] });
  const createRule = async (spec: BusAccountRule['spec']) => {
    const { resource } = fleet.stores.busAccountRules;
    await fleet.cluster.client.create(resource, {
      ...{
        apiVersion: 'skerry.dev/v3',
        kind: 'BusAccountRule',
        metadata: { name: 'reader', namespace: NAMESPACE },
        spec,
      },
    });
    await fleet.settle();
  };

  test('from an account that does not exist is 400 over REST and in Ready over kubectl', async () => {
    const message = `imports[0].account: "${UNKNOWN}"; no account has this public key`;
    const { status, body } = await bus.send('POST', '/bus/account-rules', { name: 'reader', ...importing(UNKNOWN) });
    expect([status, body]).toEqual([400, expect.objectContaining({ code: 'BUS_RULE_INVALID', message })]);
    await createRule(importing(UNKNOWN));
    expect(readyOf(accountRule('reader'))).toMatchObject({ status: 'False', reason: 'BusAccountNotFound', message });
  });

  test('is usable while its account exists, and not after that', async () => {
    await bus.send('POST', '/application', shopWithBus());
    const key = bus.account('shop')?.status?.publicKey ?? '';
    const { status } = await bus.send('POST', '/bus/account-rules', { name: 'reader', ...importing(key) });
    expect(status).toBe(201);
    expect(readyOf(accountRule('reader'))).toMatchObject({ status: 'True' });
    expect((await bus.send('DELETE', '/application/shop')).status).toBe(204);
    await expect.poll(() => readyOf(accountRule('reader'))?.reason).toBe('BusAccountNotFound');
  });
});
