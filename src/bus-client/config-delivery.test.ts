import { readFileSync, writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { makeBus, startBusServer } from '../../testing/bus.ts';
import { systemClock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import { ConfigDelivery } from './config-delivery.ts';
import { type BusConnection, connectBus } from './connection.ts';

/** A server with the tag `one`, and a delivery to it that counts reloads. */
async function start() {
  const bus = makeBus();
  const server = await startBusServer(bus, { tag: 'one' });
  let wanted = 'one';
  let [reloads, reports] = [0, 0];
  const delivery = new ConfigDelivery({
    wanted: () => wanted,
    report: () => void reports++,
    ...{ clock: systemClock, random: () => 0, log: silentLog },
  });
  onTestFinished(() => delivery[Symbol.dispose]());
  const options = { servers: [server.url], creds: bus.admin.creds, name: 'test', signal: AbortSignal.timeout(30_000) };
  const connection = await connectBus(options);
  onTestFinished(() => connection.close());
  const counted: BusConnection = Object.assign(Object.create(connection), {
    server: connection.server,
    closed: connection.closed,
    tags: (signal: AbortSignal) => connection.tags(signal),
    reload(signal: AbortSignal) {
      reloads++;
      return connection.reload(signal);
    },
  });
  const text = readFileSync(server.configFile, 'utf8');
  return {
    delivery,
    counted,
    want(tag: string) {
      wanted = tag;
      delivery.changed();
    },
    write: (change: (text: string) => string) => writeFileSync(server.configFile, change(text)),
    tags: () => connection.tags(AbortSignal.timeout(5_000)),
    get reloads() {
      return reloads;
    },
    get reports() {
      return reports;
    },
  };
}

test('a server that has its configuration is not asked to read it', async () => {
  const to = await start();
  to.delivery.connected(to.counted);
  to.want('one');
  await to.tags();
  expect(to.reloads).toBe(0);
  expect(to.reports).toBe(0);
});

test('a server whose files come later reads them then, and is said to be behind until it has', async () => {
  const to = await start();
  to.delivery.connected(to.counted);
  to.want('two');
  await expect.poll(() => to.delivery.unread).toBe('its files are those of a former configuration');
  to.write((text) => text.replace('"one"', '"two"'));
  await expect.poll(() => to.delivery.unread, { timeout: 10_000 }).toBeUndefined();
  expect(await to.tags()).toEqual(['two']);
});

test('the refusal of a server is passed on, and ends with a configuration that it takes', async () => {
  const to = await start();
  to.delivery.connected(to.counted);
  to.write((text) => text.replace('"one"', '"two"').replace(/max_memory_store: \d+/, 'max_memory_store: 1'));
  to.want('two');
  await expect.poll(() => to.delivery.unread).toMatch(/decreasing jetstream max memory/);
  to.write((text) => text.replace('"one"', '"two"'));
  await expect.poll(() => to.delivery.unread, { timeout: 10_000 }).toBeUndefined();
});
