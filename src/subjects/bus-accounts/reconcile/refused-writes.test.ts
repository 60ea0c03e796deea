import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { FIELD_MANAGERS } from '../../../api/names.ts';
import { ApiError } from '../../../kube/mod.ts';
import { busOf, shopWithBus } from '../_fleet.ts';
import { operatorSecretName } from '../rules/secret.ts';

/** An API server that refuses the first write of each object by the leader, at each step of the story. */
let fleet: InMemoryController;
let refuse: ((verb: string, what: string) => Error | undefined) | undefined;
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
  // biome-ignore lint/suspicious/noExplicitAny: four functions with other parameters
  const client = fleet.cluster.client as any;
  for (const verb of ['create', 'replace', 'patch', 'delete']) {
    const write = client[verb].bind(client);
    client[verb] = async (...args: unknown[]) => {
      const [{ plural }, object] = args as [{ plural: string }, { name?: string; metadata?: { name: string } }];
      const options = args.at(-1) as { fieldManager?: string } | undefined;
      const name = object.metadata?.name ?? object.name;
      const error = options?.fieldManager === FIELD_MANAGERS.rest ? undefined : refuse?.(verb, `${plural}/${name}`);
      if (error) throw error;
      return write(...args);
    };
  }
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(async () => {
  refuse = undefined;
  await fleet.reset();
});

const bus = busOf(() => fleet);
const RESOURCES = /^(secrets|busaccounts|bususers|busoperators)\//;

test.each([
  ['conflicts (409)', 409, 'Conflict', ['replace', 'patch', 'delete']],
  ['too many requests (429)', 429, 'TooManyRequests', ['create', 'replace', 'patch', 'delete']],
] as const)(
  'access is given, changed and ended although writes are refused as %s',
  async (_, status, reason, verbs) => {
    const refusedOnce = new Set<string>();
    let refused = 0;
    refuse = (verb, what) => {
      if (!RESOURCES.test(what) || !(verbs as readonly string[]).includes(verb)) return undefined;
      if (refusedOnce.has(`${verb} ${what}`)) return undefined;
      refusedOnce.add(`${verb} ${what}`);
      refused++;
      return new ApiError(status, { reason }, what, 0);
    };
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
    refusedOnce.clear();
    await bus.edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: true, busRule: 'default-mqtt-user' } });
      Object.assign(spec.microservices?.[1] ?? {}, { busConfig: { busAccess: false } });
    });
    await until(() => Object.keys(bus.revoked('shop')).sort()).toEqual([pump?.sub, valve?.sub].sort());
    await until(() => bus.userTexts('shop', 'pump').former).toBeUndefined();
    await until(() => bus.user('shop', 'valve')).toBeUndefined();
    expect(bus.accountToken('shop')?.iat).toBeGreaterThan(first?.iat ?? Number.NaN);
    expect(bus.accountToken('shop')?.sub).toBe(first?.sub);
    refusedOnce.clear();
    await bus.edit('shop', (spec) => {
      spec.busConfig = { busAccess: false };
    });
    await until(() => bus.account('shop')).toBeUndefined();
    expect(refused).toBeGreaterThan(5);
    // Another key of the operator, whose steps wait ten minutes for silent machines. Back-off makes it slow with the other refusal.
    if (status !== 409 && !process.env.SKERRY_NIGHTLY) return;
    refusedOnce.clear();
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
    expect([...refusedOnce].some((what) => what.endsWith(`secrets/${operatorSecretName()}`))).toBe(true);
    for (const name of ['SYS', 'controller']) expect(bus.accountToken(name)?.iss).toBe(operatorKey());
  },
  120_000,
);
