import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startBusServer, type TestServer } from '../../../../testing/bus.ts';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { publicNkey } from '../../../signer/nkeys.ts';
import { busOf, shopWithBus } from '../../bus-accounts/_fleet.ts';
import { trustedOperators } from '../../bus-accounts/rules/operator.ts';
import { operatorSecretName } from '../../bus-accounts/rules/secret.ts';

/** Another key of the operator, with a real server as the hub. */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

const bus = busOf(() => fleet);
const until = (what: () => unknown) => expect.poll(what, { timeout: 20_000 });
const texts = () => bus.texts(operatorSecretName());
const operatorKey = () => publicNkey(texts().seed ?? '');
const signers = () => [...new Set(['SYS', 'controller', 'shop'].map((name) => bus.accountToken(name)?.iss))];
const messageOf = () =>
  fleet.stores.busOperators.list()[0]?.status?.conditions?.find(({ type }) => type === 'Ready')?.message ?? '';
const status = () => fleet.stores.busHubs.list()[0]?.status;

/** A server that trusts the present operator, and is the hub. */
async function startHub(): Promise<TestServer> {
  expect((await bus.send('POST', '/application', shopWithBus())).status).toBe(201);
  const system = { publicKey: bus.accountToken('SYS')?.sub ?? '', token: () => bus.accountTexts('SYS').token ?? '' };
  const server = await startBusServer({ operator: texts().token ?? '', system });
  await bus.send('PUT', '/bus/hub', { host: '127.0.0.1', serverPort: server.serverPort });
  await until(status).toMatchObject({ answering: 1, trusted: [operatorKey()], operator: operatorKey() });
  return server;
}
/** Another leader continues after the longest time for servers that are silent. */
async function waitLong() {
  fleet.time.now += 11 * 60_000;
  await fleet.nextTerm();
  await fleet.settle();
}

test('a server of the hub that answers is waited for until it was started with the next key', async () => {
  const server = await startHub();
  const former = operatorKey();
  await bus.send('POST', '/bus/operator/rotate');
  await waitLong();
  await until(status).toMatchObject({ answering: 1, trusted: [former] });
  await until(messageOf).toContain('servers of the hub have not been started with its next key');
  expect(messageOf()).toContain('the token next-token of the Secret skerry-bus-operator');
  expect(signers()).toEqual([former]);

  const both = `operator: ${JSON.stringify(trustedOperators(texts()))}`;
  const text = readFileSync(server.configFile, 'utf8').replace(/^operator: \[[^\]]*\]/m, both);
  await server.kill();
  writeFileSync(server.configFile, text);
  await server.start();
  await until(() => signers().includes(former)).toBe(false);
  const next = operatorKey();
  expect(signers()).toEqual([next]);
  for (const node of [fleet.node(0), fleet.spare]) fleet.report(node);
  // The former key goes once the server has every token of the next one.
  await until(() => trustedOperators(texts()).length).toBe(1);
  expect(status()).toMatchObject({ operator: next, current: 1 });
}, 90_000);

test('a server of the hub that is silent holds a rotation up for ten minutes', async () => {
  const server = await startHub();
  const former = operatorKey();
  await server.kill();
  await until(() => status()?.answering).toBe(0);
  await bus.send('POST', '/bus/operator/rotate');
  await until(messageOf).toContain('1 of 1 servers of the hub do not answer, which holds it up for 10 minutes at most');
  expect(signers()).toEqual([former]);
  await waitLong();
  await until(() => signers().includes(former)).toBe(false);
}, 90_000);
