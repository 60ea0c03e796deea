import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeCertificate } from '../../hack/certificate.ts';
import { startNats } from '../../hack/nats.ts';
import { freePort } from '../../hack/ports.ts';
import { startRabbitmq } from '../../hack/rabbitmq.ts';
import { makeRouterTrust, startRouter } from '../../testing/router.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { until } from '../kube/_util.ts';
import { systemClock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import { type Brokers, relayContract } from './_relay-contract.ts';
import { createAmqpBroker } from './amqp-broker.ts';
import type { Broker } from './broker.ts';
import { createBusBroker } from './bus-broker.ts';

/**
 * A real router takes longer to install than a change may wait: `make nightly` runs it, and all of the contract over the bus,
 * of which a change runs the brief form. All of it over a broker in memory is in relay.test.ts.
 */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;
const COMMON_NAME = 'server of a test';
const given = { clock: systemClock, log: silentLog };

/** A port in front of a broker, which can be closed. */
async function createGate(upstream: number) {
  const port = await freePort();
  const open = new Set<Socket>();
  let server: Server | undefined;
  const start = async () => {
    if (server?.listening) return;
    server = createServer({ noDelay: true }, (socket) => {
      const other = connect({ port: upstream, host: '127.0.0.1', noDelay: true });
      for (const one of [socket, other]) {
        open.add(one);
        one.on('error', () => {});
        one.on('close', () => {
          open.delete(one);
          socket.destroy();
          other.destroy();
        });
      }
      socket.pipe(other).pipe(socket);
    });
    await new Promise<void>((resolve) => server?.listen(port, '127.0.0.1', resolve));
  };
  await start();
  return {
    port,
    start,
    async stop() {
      server?.close();
      for (const one of [...open]) one.destroy();
    },
  };
}

interface Started extends AsyncDisposable {
  port: number;
  makeBroker(port: number): Broker;
}

function overReal(startBroker: (dir: string) => Promise<Started>, brief = false) {
  const dir = mkdtempSync(join(tmpdir(), 'skerry-relay-'));
  let broker: Started | undefined;
  let gate: Awaited<ReturnType<typeof createGate>> | undefined;
  beforeAll(async () => {
    broker = await startBroker(dir);
    gate = await createGate(broker.port);
  }, 600_000);
  afterAll(async () => {
    await gate?.stop();
    await broker?.[Symbol.asyncDispose]();
    rmSync(dir, { recursive: true, force: true });
  }, 60_000);
  const brokers: Brokers = {
    makeBroker: () => (broker as Started).makeBroker(gate?.port ?? 0),
    stop: async () => gate?.stop(),
    start: async () => gate?.start(),
  };
  relayContract(brokers, { brief });
}

describe.skipIf(!isNightly)('AMQP 1.0 over TLS with a client certificate', () => {
  overReal(async (dir) => {
    const made = makeCertificate(join(dir, 'tls'), ['127.0.0.1']);
    const caFile = join(dir, 'tls', 'ca.pem');
    const tls = { ca: made.ca, cert: readFileSync(made.cert, 'utf8'), key: readFileSync(made.key, 'utf8') };
    const rabbitmq = await startRabbitmq({ dir, tls: { ...made, caFile, commonName: COMMON_NAME } });
    let count = 0;
    return {
      port: rabbitmq.port,
      makeBroker: (port) =>
        createAmqpBroker({
          ...given,
          hosts: () => [{ host: '127.0.0.1', port }],
          tls: () => tls,
          name: `replica-${count++}`,
        }),
      [Symbol.asyncDispose]: () => rabbitmq[Symbol.asyncDispose](),
    };
  });
});

describe('a router of the installation with certificates of the platform', () => {
  overReal(async () => {
    const trust = await makeRouterTrust();
    const router = await startRouter(trust, { place: 'hub' });
    let count = 0;
    return {
      port: router.ports.messaging,
      makeBroker: (port) =>
        createAmqpBroker({
          ...{ ...given, name: `replica-${count++}`, tls: () => trust.agent },
          hosts: () => [{ host: '127.0.0.1', port }],
        }),
      async [Symbol.asyncDispose]() {},
    };
  }, !isNightly);
});

describe('the message bus with the credentials of the account controller', () => {
  overReal(async (dir) => {
    const nats = await startNats({ dir, subjects: ['controller.relay.v1.>'] });
    const { port, credentials } = nats;
    return {
      port,
      makeBroker: (port) =>
        createBusBroker({
          ...given,
          servers: () => [`nats://127.0.0.1:${port}`],
          credentials: () => readFileSync(credentials),
        }),
      [Symbol.asyncDispose]: () => nats[Symbol.asyncDispose](),
    };
  }, !isNightly);
});

describe.skipIf(!isNightly)('credentials of the bus without the permission for sessions', () => {
  test('make no end of a session reachable, and the log says so once', async () => {
    const dir = temporaryFolder();
    await using nats = await startNats({ dir, subjects: ['other.>'] });
    const lines: string[] = [];
    const note =
      (level: string) =>
      ({ err }: { err?: unknown }) =>
        void lines.push(`${level} ${String(err)}`);
    const log = { ...silentLog, debug: note('debug'), warn: note('warn') };
    const servers = [`nats://127.0.0.1:${nats.port}`];
    using broker = createBusBroker({
      servers: () => servers,
      credentials: () => readFileSync(nats.credentials),
      clock: systemClock,
      log,
    });
    const seen: string[] = [];
    // What the bus answers to one of them has arrived when it refuses the next.
    for (const id of ['a', 'b', 'c']) {
      const note = (what: string) => () => void seen.push(`${id} ${what}`);
      broker.open({ kind: 'exec', id, end: 'user' }, { up: note('up'), message: note('message'), down: note('down') });
      await until(`the refusal of ${id}`, () => lines.some((line) => line.includes(`.exec.${id}.user`)));
    }
    expect(seen.filter((one) => !one.startsWith('c'))).toEqual([]);
    expect(lines.filter((line) => line.startsWith('warn'))).toHaveLength(1);
  }, 120_000);
});
