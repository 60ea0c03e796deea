import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { REFUSALS, RefusedWrites } from '../../../../testing/refused-writes.ts';
import { busOf, shopWithBus } from '../_fleet.ts';
import { operatorSecretName } from '../rules/secret.ts';

/** An API server that refuses the first write of each object by the leader, at each step of the story. */
let fleet: InMemoryController;
let refused: RefusedWrites;
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
  refused = new RefusedWrites(fleet);
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(async () => {
  refused.end();
  await fleet.reset();
});

const bus = busOf(() => fleet);
const RESOURCES = /^(secrets|busaccounts|bususers|busoperators)\//;

test.each(REFUSALS)(
  'access is given, changed and ended although writes are refused as %s',
  async (_, refusal) => {
    refused.begin(refusal, RESOURCES);
    // The machine never reports: a former key ends by time, which begins when the refused write has been made.
    const until = (read: () => unknown) =>
      expect.poll(
        () => {
          fleet.time.now += 500;
          return read();
        },
        { timeout: 20_000 },
      );
    await bus.send('POST', '/application', shopWithBus());
    await until(() => bus.readyOf(bus.user('shop', 'pump'))?.status).toBe('True');
    await until(() => bus.readyOf(bus.user('shop', 'valve'))?.status).toBe('True');
    const [pump, valve] = ['pump', 'valve'].map((name) => bus.userToken('shop', name));
    const first = bus.accountToken('shop');
    refused.nextRound();
    await bus.edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: true, busRule: 'default-mqtt-user' } });
      Object.assign(spec.microservices?.[1] ?? {}, { busConfig: { busAccess: false } });
    });
    await until(() => Object.keys(bus.revoked('shop')).sort()).toEqual([pump?.sub, valve?.sub].sort());
    await until(() => bus.userTexts('shop', 'pump').former).toBeUndefined();
    await until(() => bus.user('shop', 'valve')).toBeUndefined();
    expect(bus.accountToken('shop')?.iat).toBeGreaterThan(first?.iat ?? Number.NaN);
    expect(bus.accountToken('shop')?.sub).toBe(first?.sub);
    refused.nextRound();
    await bus.edit('shop', (spec) => {
      spec.busConfig = { busAccess: false };
    });
    await until(() => bus.account('shop')).toBeUndefined();
    expect(refused.count).toBeGreaterThan(5);
    // Another key of the operator, whose steps wait ten minutes for silent machines. Back-off makes it slow with the other refusal.
    if (refusal.status !== 409 && !process.env.SKERRY_NIGHTLY) return;
    refused.nextRound();
    const operatorKey = () => bus.decode(bus.texts(operatorSecretName()).token)?.sub;
    const former = operatorKey();
    await bus.send('POST', '/bus/operator/rotate');
    for (const isDone of [
      () => operatorKey() !== former,
      () =>
        fleet.stores.busOperators
          .list()[0]
          ?.status?.conditions?.every(({ reason }) => reason !== 'BusOperatorRotating'),
    ]) {
      fleet.time.now += 11 * 60_000;
      await fleet.nextTerm();
      await until(isDone).toBe(true);
    }
    expect(refused.hasRefused(`secrets/${operatorSecretName()}`)).toBe(true);
    for (const name of ['SYS', 'controller']) expect(bus.accountToken(name)?.iss).toBe(operatorKey());
  },
  120_000,
);
