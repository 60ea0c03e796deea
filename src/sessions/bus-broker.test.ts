import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { createVirtualClock, until } from '../kube/_util.ts';
import { silentLog } from '../lib/log.ts';
import { createBusBroker } from './bus-broker.ts';

/**
 * Against a server that speaks as much of the bus's protocol as a test needs, and does what none of its servers does at will.
 * The real server is in relay-brokers.test.ts.
 */
async function startBus(scheme: 'nats' | 'tls') {
  const lines: string[] = [];
  const subscriptions: { subject: string; sid: string; socket: Socket }[] = [];
  const sockets = new Set<Socket>();
  let isSilent = false;
  let held: (() => void)[] = [];
  const answer = (pong: () => void) => (isSilent ? void held.push(pong) : pong());
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    const info = { server_id: 'test', version: '2.10.0', proto: 1, headers: true, max_payload: 2 ** 20 };
    socket.write(`INFO ${JSON.stringify(info)}\r\n`);
    socket.setEncoding('utf8').on('data', (text: string) => {
      for (const line of text.split('\r\n').filter(Boolean)) {
        lines.push(line);
        const [verb, subject = '', sid = ''] = line.split(' ');
        if (verb === 'SUB') subscriptions.push({ subject, sid, socket });
        if (line === 'PING') answer(() => socket.write('PONG\r\n'));
      }
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const clock = createVirtualClock();
  const warnings: string[] = [];
  const broker = createBusBroker({
    servers: () => [`${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`],
    clock,
    log: { ...silentLog, warn: ({ err }: { err?: unknown }) => void warnings.push(String(err)) },
  });
  onTestFinished(() => {
    broker[Symbol.dispose]();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const seen: string[] = [];
  const open = (id: string) =>
    broker.open(
      { kind: 'exec', id, end: 'user' },
      {
        up: () => void seen.push(`${id} up`),
        message: ({ properties: { op } }) => void seen.push(`${id} ${op}`),
        down: () => void seen.push(`${id} down`),
      },
    );
  return {
    ...{ clock, lines, seen, warnings, open },
    /** Delivers a message with these headers. */
    deliver(headers: string, to: string) {
      const text = `NATS/1.0\r\n${headers}\r\n\r\n`;
      for (const { subject, sid, socket } of subscriptions)
        if (subject === to) socket.write(`HMSG ${subject} ${sid} ${text.length} ${text.length}\r\n${text}\r\n`);
    },
    /** No flush is answered until the returned function is called. */
    holdAnswers() {
      isSilent = true;
      return () => {
        isSilent = false;
        for (const pong of held) pong();
        held = [];
      };
    },
  };
}

test('a bus at tls:// that offers no TLS hears nothing', async () => {
  const { open, lines, warnings } = await startBus('tls');
  open('a');
  await until('the refusal', () => warnings.length > 0);
  expect(warnings[0]).toMatch(/TLS/i);
  expect(lines).toEqual([]);
});

test('an end of a session that the bus did not confirm within 5 s is asked for again until it does', async () => {
  const bus = await startBus('nats');
  bus.open('a');
  await until('the first end', () => bus.seen.includes('a up'));
  const answer = bus.holdAnswers();
  bus.open('b');
  const pings = () => bus.lines.filter((line) => line === 'PING').length;
  const before = pings();
  await until('its flush', () => pings() > before);
  await bus.clock.advance(5_000, { timers: 1 });
  answer();
  await bus.clock.advance(1_000, { timers: 1 });
  await until('the second end', () => bus.seen.includes('b up'));
  expect(bus.seen).toEqual(['a up', 'b up']);
  // It is subscribed to once.
  expect(bus.lines.filter((line) => line.includes('.exec.b.user'))).toHaveLength(1);
});

test('a message that cannot be read is left out, and those after it arrive', async () => {
  const bus = await startBus('nats');
  bus.open('a');
  await until('the end', () => bus.seen.includes('a up'));
  // Servers of the bus pass headers on as they are; the library refuses this value.
  bus.deliver('op: fi\nrst', 'controller.relay.v1.exec.a.user');
  bus.deliver('op: second', 'controller.relay.v1.exec.a.user');
  await until('a message', () => bus.seen.length > 1);
  expect(bus.seen).toEqual(['a up', 'a second']);
});

test('an end that is closed while it is not confirmed is not subscribed to again', async () => {
  const bus = await startBus('nats');
  bus.open('a');
  await until('the first end', () => bus.seen.includes('a up'));
  const answer = bus.holdAnswers();
  const channel = bus.open('b');
  const pings = () => bus.lines.filter((line) => line === 'PING').length;
  const before = pings();
  await until('its flush', () => pings() > before);
  await bus.clock.advance(5_000, { timers: 1 });
  channel.close();
  answer();
  await bus.clock.advance(1_000, { timers: 1 });
  bus.open('c');
  await until('a later end', () => bus.seen.includes('c up'));
  expect(bus.lines.filter((line) => line.startsWith('SUB') && line.includes('.exec.b.user'))).toHaveLength(1);
});
