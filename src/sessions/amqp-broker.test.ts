import type { AddressInfo, Socket } from 'node:net';
import rhea, { type EventContext, type Receiver, type Sender } from 'rhea';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createVirtualClock, until } from '../kube/_util.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { createAmqpBroker } from './amqp-broker.ts';
import type { Address, BrokerMessage } from './broker.ts';

/**
 * Against the other end of the same library, which speaks AMQP 1.0 over a real connection and does what a test wants a router
 * to do. Real routers are in relay-brokers.test.ts.
 */
const USER: Address = { kind: 'exec', id: 's', end: 'user' };

async function startRouter(
  on: Record<string, (context: EventContext) => void> = {},
  { admits = (): boolean => true, credit = 1_000 } = {},
) {
  const container = rhea.create_container({ id: 'router', receiver_options: { credit_window: credit } });
  let connections = 0;
  container.sasl_server_mechanisms.enable_plain(admits);
  for (const event of ['error', 'connection_error', 'protocol_error', 'session_error', 'sender_error', 'disconnected'])
    container.on(event, () => {});
  for (const [event, listener] of Object.entries(on)) container.on(event, listener);
  const server = container.listen({ port: 0, host: '127.0.0.1' });
  const sockets: Socket[] = [];
  server.on('connection', (socket) => {
    connections++;
    sockets.push(socket);
  });
  await until('the router to listen', () => server.listening);
  const clock = createVirtualClock();
  const lines: string[] = [];
  const note =
    (level: string) =>
    ({ why }: { why?: unknown }, message: string) =>
      void (why && lines.push(`${level} ${message}: ${String(why)}`));
  const log: Log = { ...silentLog, debug: note('debug'), warn: note('warn') };
  const broker = createAmqpBroker({
    hosts: () => [{ host: '127.0.0.1', port: (server.address() as AddressInfo).port }],
    login: { username: 'controller', password: 'secret' },
    name: 'replica',
    random: () => 0,
    clock,
    log,
  });
  onTestFinished(() => {
    broker[Symbol.dispose]();
    server.close();
  });
  /** What is said of the address, and what arrives. */
  const seen: string[] = [];
  const open = (message: (got: BrokerMessage) => void = () => {}) =>
    broker.open(USER, {
      up: () => void seen.push('up'),
      message(got) {
        seen.push(String(got.properties.op));
        message(got);
      },
      down: () => void seen.push('down'),
    });
  /** The connections stay, as those to a machine without power, and nothing is read from them any more. */
  const goSilent = () => {
    for (const socket of sockets) socket.pause();
  };
  return { clock, lines, open, seen, goSilent, count: () => connections };
}

const warnings = (lines: string[]) => lines.filter((line) => line.startsWith('warn'));

describe('a router that refuses', () => {
  test('the login is asked with growing pauses, and the log says so once', async () => {
    const router = await startRouter({}, { admits: () => false });
    router.open();
    for (const [i, pause] of [200, 400, 800, 1_600, 3_200, 5_000, 5_000].entries()) {
      await until(`failure ${i + 1}`, () => router.lines.length === i + 1);
      await router.clock.advance(pause - 1, { timers: 0 });
      expect(router.count()).toBe(i + 1);
      await router.clock.advance(1, { timers: 1 });
      await until(`attempt ${i + 2}`, () => router.count() === i + 2);
    }
    expect(warnings(router.lines)).toEqual([expect.stringMatching(/cannot be reached: .*Failed to authenticate/)]);
    expect(router.lines.join()).not.toContain('secret');
    expect(router.seen).toEqual([]);
  });

  test('an address is asked again after 5 s, and the log has its reason once', async () => {
    let count = 0;
    const router = await startRouter({
      sender_open({ sender }) {
        count++;
        sender?.close({ condition: 'amqp:unauthorized-access', description: 'no permission for user-s' });
      },
    });
    router.open();
    for (let attempt = 1; attempt <= 3; attempt++) {
      await until(`refusal ${attempt}`, () => router.lines.length === attempt);
      expect(count).toBe(attempt);
      await router.clock.advance(4_999, { timers: 0 });
      expect(count).toBe(attempt);
      await router.clock.advance(1, { timers: 1 });
    }
    expect(warnings(router.lines)).toEqual([
      expect.stringContaining('amqp:unauthorized-access no permission for user-s'),
    ]);
    expect(router.count()).toBe(1);
  });

  test('an address by the end of the whole session of the protocol is asked again, with growing pauses', async () => {
    const router = await startRouter({
      sender_open({ session }) {
        session?.close({ condition: 'amqp:unauthorized-access', description: 'no permission for user-s' });
      },
    });
    router.open();
    for (const [i, pause] of [200, 400, 800].entries()) {
      await until(`failure ${i + 1}`, () => router.lines.length === i + 1);
      await router.clock.advance(pause - 1, { timers: 0 });
      expect(router.count()).toBe(i + 1);
      await router.clock.advance(1, { timers: 1 });
      await until(`attempt ${i + 2}`, () => router.count() === i + 2);
    }
    expect(warnings(router.lines)).toEqual([
      expect.stringContaining('amqp:unauthorized-access no permission for user-s'),
    ]);
  });

  test('and later does not: the address is heard', async () => {
    let admits = false;
    const router = await startRouter({}, { admits: () => admits });
    router.open();
    await until('a failure', () => router.lines.length === 1);
    admits = true;
    await router.clock.advance(200, { timers: 1 });
    await until('the address', () => router.seen.includes('up'));
  });
});

describe.each([
  ['in one read', true],
  ['one by one', false],
])('messages for a listener that closes at the first one, which arrive %s', (_, atOnce) => {
  test('are accepted until then, and released to the router afterwards', async () => {
    const states: string[] = [];
    let ops = ['first', 'second', 'third'];
    const router = await startRouter({
      sendable({ sender, connection }) {
        const { socket } = connection as unknown as { socket: Socket };
        if (atOnce) socket.cork();
        setImmediate(() => socket.uncork());
        for (const op of ops) sender?.send({ application_properties: { op }, body: 'x' });
        ops = [];
      },
      accepted: () => void states.push('accepted'),
      released: () => void states.push('released'),
    });
    const channel = router.open(() => channel.close());
    await until('all three', () => states.length === 3);
    expect(states).toEqual(['accepted', 'released', 'released']);
    expect(router.seen).toEqual(['up', 'first']);
  });
});

test('a connection over which an address is not answered within 5 s is given up for another one', async () => {
  const router = await startRouter();
  router.open();
  await until('the address', () => router.seen.includes('up'));
  router.goSilent();
  router.open();
  await router.clock.advance(4_999, { timers: 0 });
  expect(router.lines).toEqual([]);
  await router.clock.advance(1, { timers: 1 });
  expect(warnings(router.lines)).toEqual([expect.stringContaining('the router does not answer')]);
  await router.clock.advance(200, { timers: 1 });
  await until('both addresses', () => router.seen.length === 4);
  expect(router.seen).toEqual(['up', 'down', 'up', 'up']);
  expect(router.count()).toBe(2);
});

describe('an address to which nothing more is sent', () => {
  const at = (link: string): Address => ({ kind: 'exec', id: 's', end: 'agent', link });
  const said = (op: string): BrokerMessage => ({ properties: { op }, body: Buffer.from('x') });

  test('has its link closed once what was sent is on its way, and the others stay', async () => {
    const log: string[] = [];
    const router = await startRouter({
      receiver_open: ({ receiver }) => void log.push(`open ${receiver?.target?.address}`),
      receiver_close: ({ receiver }) => void log.push(`close ${receiver?.target?.address}`),
      message: ({ message }) => void log.push(`message ${message?.application_properties?.op}`),
    });
    const channel = router.open();
    await until('the address', () => router.seen.includes('up'));
    channel.send(at('a'), said('a1'));
    channel.send(at('b'), said('b1'));
    // Before there is credit for it.
    channel.send(at('a'), said('a2'));
    channel.forget(at('a'));
    channel.forget(at('unknown'));
    await until('the end of a', () => log.includes('close agent-s.a'));
    channel.send(at('b'), said('b2'));
    await until('b2', () => log.includes('message b2'));
    expect(log.filter((one) => one.startsWith('close'))).toEqual(['close agent-s.a']);
    expect(log.indexOf('message a2')).toBeLessThan(log.indexOf('close agent-s.a'));
    expect(router.seen).toEqual(['up']);
  });

  test('has it closed after 5 s when there is no credit for what was sent, and that is the end of nothing else', async () => {
    const log: string[] = [];
    const router = await startRouter(
      {
        receiver_open: () => void log.push('open'),
        receiver_close: () => void log.push('close'),
      },
      { credit: 0 },
    );
    const channel = router.open();
    await until('the address', () => router.seen.includes('up'));
    channel.send(at('a'), said('a'));
    await until('its link', () => log.length === 1);
    channel.forget(at('a'));
    await router.clock.advance(4_999, { timers: 0 });
    expect(log).toEqual(['open']);
    await router.clock.advance(1, { timers: 1 });
    await until('its end', () => log.length === 2);
    expect(router.seen).toEqual(['up']);
    expect(router.lines).toEqual([]);
  });
});

describe('an address that takes less than is sent to it', () => {
  const at = (link: string): Address => ({ kind: 'exec', id: 's', end: 'agent', link });
  const said = (op: string): BrokerMessage => ({ properties: { op }, body: Buffer.from('x') });

  /** A router that takes one message at the address of `a`, and everything at others. */
  async function startNarrow() {
    const log: string[] = [];
    const router = await startRouter(
      {
        receiver_open: ({ receiver }) => receiver?.add_credit(receiver.target.address.endsWith('.a') ? 1 : 100),
        receiver_close: ({ receiver }) => void log.push(`close ${receiver?.target?.address}`),
        message: ({ message }) => void log.push(String(message?.application_properties?.op)),
      },
      { credit: 0 },
    );
    const channel = router.open();
    await until('the address', () => router.seen.includes('up'));
    for (const op of ['a1', 'a2', 'a3']) channel.send(at('a'), said(op));
    await until('the first message', () => log.includes('a1'));
    return { router, channel, log };
  }

  test('holds up nothing that is sent to others over the same connection', async () => {
    const { channel, log } = await startNarrow();
    channel.send(at('b'), said('b1'));
    await until('the message to another address', () => log.includes('b1'));
    expect(log).toEqual(['a1', 'b1']);
  });

  test('has its link closed when nothing more can be sent for 5 s, and a further one is made', async () => {
    const { router, channel, log } = await startNarrow();
    await router.clock.advance(5_000, { timers: 1 });
    expect(router.seen).toEqual(['up', 'down', 'up']);
    await until('the end of the link', () => log.includes('close agent-s.a'));
    channel.send(at('a'), said('a4'));
    await until('the message over the further link', () => log.includes('a4'));
    expect(log).toEqual(['a1', 'close agent-s.a', 'a4']);
  });

  test('has its connection made again when the router takes back credit that was used', async () => {
    type Narrowed = Receiver & { credit: number; issue_flow: boolean; connection: { _register(): void } };
    const log: string[] = [];
    let toUser: Sender | undefined;
    let ofAgent: Narrowed | undefined;
    const router = await startRouter(
      {
        sender_open({ sender }) {
          toUser = sender;
        },
        receiver_open({ receiver }) {
          receiver?.add_credit(2);
          ofAgent = receiver as Narrowed;
        },
        message: ({ message }) => void log.push(String(message?.application_properties?.op)),
      },
      { credit: 0 },
    );
    const channel = router.open(() => channel.send(at('a'), said('a2')));
    await until('the address', () => router.seen.includes('up'));
    channel.send(at('a'), said('a1'));
    await until('the first message', () => log.includes('a1'));
    // Both in one piece, so that the second message is given to the library before it reads that it has no credit.
    toUser?.send({ application_properties: { op: 'go' }, body: 'x' });
    Object.assign(ofAgent ?? {}, { credit: 0, issue_flow: true });
    ofAgent?.connection._register();
    await until('the end of the connection', () => router.seen.includes('down'));
    await router.clock.advance(200, { timers: 1 });
    await until('the address again', () => router.seen.at(-1) === 'up');
    expect(router.seen).toEqual(['up', 'go', 'down', 'up']);
    expect(router.count()).toBe(2);
  });
});
