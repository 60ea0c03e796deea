import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import rhea, { type EventContext, type Receiver, type Sender } from 'rhea';
import { describe, expect, test } from 'vitest';
import { ROOT } from '../../hack/paths.ts';
import { freePort } from '../../hack/ports.ts';
import { atEnd } from '../../testing/at-end.ts';
import { isRealRouter, makeRouterTrust, startRouter } from '../../testing/router.ts';
import { REQUESTS } from '../../testing/router-answers/requests.ts';
import { isEntityKind, typeOfKind } from '../router-schema/schema.ts';
import { ROUTER_SETS, type RouterPair } from '../wire/router.ts';

interface Answer {
  what: string;
  status: number;
  description: string;
  rows?: Record<string, unknown>[];
}

const FILE = join(ROOT, 'testing/router-answers/answers.json');
const waits = { timeout: 10_000, interval: 500 };
/** Attributes that differ from run to run. */
const VARYING = new Set(['connectionsOpened', 'connectionsClosed', 'bytesIn', 'bytesOut']);

type Ask = (properties: object, body: unknown) => Promise<{ status: number; description: string; body: unknown }>;

/** A client of the management that shows each answer as it is. */
async function asker(port: number, tls: object): Promise<Ask> {
  const connection = rhea.create_container({ id: 'test' }).connect({
    ...{
      host: '127.0.0.1',
      port,
      transport: 'tls',
      servername: 'localhost',
      enable_sasl_external: true,
      reconnect: false,
    },
    ...tls,
  } as never);
  // Without a listener the library writes of it.
  connection.on('disconnected', () => {});
  atEnd(() => connection.close());
  const sender: Sender = connection.open_sender('$management');
  const receiver: Receiver = connection.open_receiver({ source: { dynamic: true, address: '' } });
  await new Promise((resolve) => receiver.once('receiver_open', resolve));
  let count = 0;
  return (properties, body) =>
    new Promise((resolve) => {
      const id = String(count++);
      const take = ({ message }: EventContext) => {
        if (message?.correlation_id !== id) return;
        receiver.removeListener('message', take);
        const { statusCode, statusDescription } = message.application_properties as {
          statusCode: number;
          statusDescription: string;
        };
        resolve({ status: statusCode, description: statusDescription, body: message.body });
      };
      receiver.on('message', take);
      sender.send({
        reply_to: receiver.source.address,
        correlation_id: id,
        application_properties: properties,
        body,
      } as never);
    });
}

test('a router answers each request as the recorded one', { timeout: 120_000 }, async () => {
  const trust = await makeRouterTrust();
  const router = await startRouter(trust, { id: 'recorded', place: 'hub' });
  const ask = await asker(router.ports.messaging, trust.agent);
  const certificates = join(router.certificates, ROUTER_SETS.site);
  const ports = await Promise.all(
    ['PORT1', 'PORT2', 'PORT3', 'PORT9'].map(async (name) => [name, String(await freePort())] as const),
  );
  const names: [string, string][] = [
    ['CERTS', certificates],
    ['CERTIFICATES', router.certificates],
    ...ports.map(([name, port]): [string, string] => [name, port]),
    ...Object.entries(router.ports).map(([name, port]): [string, string] => [
      `${name.toUpperCase()}_PORT`,
      String(port),
    ]),
    ...router
      .local([['listener', { name: '@9090' }]])
      .map(([, { name, port }]): [string, string] => [`${String(name).toUpperCase()}_PORT`, String(port)]),
  ];
  const placed = (text: string) =>
    names.slice(0, 6).reduce((done, [name, value]) => done.replaceAll(name, value), text);
  const named = (text: string) => names.reduce((done, [name, value]) => done.replaceAll(value, name), text);

  const answerTo = async ({ what, body = {} }: (typeof REQUESTS)[number]): Promise<Answer> => {
    const [operation = '', kind = '', name = ''] = what.split(' ');
    const type = isEntityKind(kind) ? typeOfKind(kind) : `io.skupper.router.${kind}`;
    const isQuery = operation === 'QUERY';
    const properties = isQuery
      ? { operation, type: 'org.amqp.management', name: 'self', entityType: type }
      : { operation, type, name };
    const sent = isQuery ? { attributeNames: [] } : JSON.parse(placed(JSON.stringify(body)));
    const { status, description, body: got } = await ask(properties, sent);
    const rows = isQuery && status === 200 ? rowsOf(got) : undefined;
    const said = description.replace(/object at 0x[0-9a-f]+/g, 'object');
    return JSON.parse(named(JSON.stringify({ what, status, description: said, ...(rows && { rows }) })));
  };

  const recorded = JSON.parse(readFileSync(FILE, 'utf8')) as Answer[];
  const answers: Answer[] = [];
  for (const [i, request] of REQUESTS.entries()) {
    let answer = await answerTo(request);
    const { rows, status } = recorded[i] ?? {};
    // A listener begins and ends a moment after its connector.
    let before: unknown;
    const isSettled = async () => {
      [before, answer] = [answer.rows, await answerTo(request)];
      return isRealRouter
        ? JSON.stringify(answer.rows) === JSON.stringify(before)
        : isDeepStrictEqual(answer.rows, rows);
    };
    if (answer.rows)
      await expect
        .poll(isSettled, waits)
        .toBe(true)
        .catch(() => {});
    answers.push(answer);
    if (!isRealRouter)
      expect({ what: answer.what, status: answer.status, rows: answer.rows }).toEqual({
        what: request.what,
        status,
        rows,
      });
  }
  if (isRealRouter) await expect(`${JSON.stringify(answers, null, 1)}\n`).toMatchFileSnapshot(FILE);
  else expect(recorded).toHaveLength(answers.length);
});

describe('a router does not start', () => {
  test.each<[string, RouterPair]>([
    ['an attribute that its schema does not have', ['listener', { name: 'x', port: 1, routeContainer: true }]],
    ['an entity that its schema does not have', ['bridge', { name: 'x' }]],
    ['a value of another type', ['tcpListener', { name: 'x', port: '1', address: 'x', backlog: 'many' }]],
    ['a value outside of its list', ['listener', { name: 'x', port: 1, role: 'hub' }]],
    ['a name twice', ['tcpListener', { name: 'recorded-amqps', port: '1', address: 'x' }]],
    ['a listener of a role that its mode does not have', ['listener', { name: 'x', port: 1, role: 'edge' }]],
    ['a profile whose files do not exist', ['sslProfile', { name: 'lost', caCertFile: '/none/ca.crt' }]],
    ['a profile that does not exist', ['listener', { name: 'x', port: 1, sslProfile: 'none' }]],
  ])('with %s', async (_, pair) => {
    const router = await startRouter(await makeRouterTrust(), { id: 'recorded', mode: 'edge' });
    await router.kill();
    const others: RouterPair[] =
      pair[0] === 'sslProfile' ? [['listener', { name: 'y', port: 1, sslProfile: 'lost' }]] : [];
    await expect(router.start([...router.pairs, pair, ...others])).rejects.toThrow(/exit|ended/);
    await router.start();
  });
});

/** Rows by the names of their attributes, without those that have no value. */
function rowsOf(body: unknown): Record<string, unknown>[] {
  const { attributeNames, results } = body as { attributeNames: string[]; results: unknown[][] };
  return results
    .map((row) => {
      const pairs = attributeNames.map((name, i) => [name, row[i] ?? undefined] as const);
      return Object.fromEntries(
        pairs.filter(([name, value]) => value !== undefined && !VARYING.has(name)).sort(([a], [b]) => (a < b ? -1 : 1)),
      );
    })
    .sort((a, b) => (String(a.name) < String(b.name) ? -1 : 1));
}
