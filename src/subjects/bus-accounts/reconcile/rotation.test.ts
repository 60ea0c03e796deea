import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { publicNkey } from '../../../signer/nkeys.ts';
import { busOf, shopWithBus } from '../_fleet.ts';
import { trustedOperators } from '../rules/operator.ts';
import { operatorSecretName } from '../rules/secret.ts';

/** Another key of the operator, step by step, over the whole controller in memory. */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(async () => {
  await fleet.reset();
  await fleet.settle();
});
const bus = busOf(() => fleet);

const texts = () => bus.texts(operatorSecretName());
const trusted = () => trustedOperators(texts()).map((token) => bus.decode(token)?.sub);
const signers = () =>
  new Set(fleet.stores.busAccounts.list().map(({ spec }) => bus.accountToken(spec.name ?? '')?.iss));
const readyOf = () => fleet.stores.busOperators.list()[0]?.status?.conditions?.find(({ type }) => type === 'Ready');
/** All machines report the files that they were sent. */
async function report() {
  fleet.report(fleet.node(0));
  fleet.report(fleet.spare);
  await fleet.settle();
}

test('servers trust both keys before any account is signed with the next one, and the former one goes last', async () => {
  await bus.send('POST', '/application', shopWithBus());
  await report();
  const former = publicNkey(texts().seed ?? '');
  const users = bus.userTexts('shop', 'pump');
  const key = bus.accountToken('shop')?.sub;
  const { status, body } = await bus.send('POST', '/bus/operator/rotate');
  expect([status, body.publicKey]).toEqual([200, former]);
  const [, next] = trusted();
  expect(trusted()).toEqual([former, next]);
  expect(next).toMatch(/^O/);
  expect(signers()).toEqual(new Set([former]));
  expect(readyOf()).toMatchObject({ status: 'False', reason: 'BusOperatorRotating' });
  await report();
  await expect.poll(() => [...signers()], { timeout: 20_000 }).toEqual([next]);
  expect(trusted()).toEqual([next, former]);
  await report();
  await expect.poll(trusted, { timeout: 20_000 }).toEqual([next]);
  await expect.poll(readyOf, { timeout: 20_000 }).toMatchObject({ status: 'True' });
  expect(bus.userTexts('shop', 'pump')).toEqual(users);
  expect(bus.accountToken('shop')?.sub).toBe(key);
  expect((await bus.send('GET', '/bus/operator')).body.publicKey).toBe(next);
}, 90_000);

test('a machine that does not say what it has holds up a rotation for ten minutes at most', async () => {
  const former = publicNkey(texts().seed ?? '');
  await bus.send('POST', '/bus/operator/rotate');
  await fleet.nextTerm();
  expect(signers()).toEqual(new Set([former]));
  fleet.time.now += 11 * 60_000;
  await fleet.nextTerm();
  await expect.poll(() => signers().has(former), { timeout: 20_000 }).toBe(false);
}, 60_000);

test('two orders before a rotation has begun are one', async () => {
  const operator = () => fleet.stores.busOperators.list()[0];
  const done = operator()?.status?.rotation ?? Number.NaN;
  await bus.send('POST', '/bus/operator/rotate');
  await bus.send('POST', '/bus/operator/rotate');
  expect(operator()?.spec.rotation).toBe(done + 1);
});
