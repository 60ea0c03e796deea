import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { BASE } from '../../src/rest/contract/base.ts';
import { DEFAULT_LIMITS } from '../../src/rest/contract/limits.ts';
import { createStack, until } from '../_stack.ts';
import { memoryOf } from './_process.ts';
import { createSender, dial, hear } from './_send.ts';

/**
 * Slow clients: headers and bodies that arrive byte by byte, responses that are not read, thousands of connections without
 * a request. Each is closed, memory does not grow, and agents and users notice nothing.
 */
const LONG = 300_000;
const IDLE = 2_000;
const SLOW = 200;

const stack = await createStack();
const controller = await stack.startController({ env: { LOG_LEVEL: 'info' } });
const agent = await stack.startAgent('gw-s', controller);

test(
  'the controller closes slow and silent connections, and other clients do not wait for them',
  async () => {
    const before = memoryOf(controller.pid).now;
    const sockets: Socket[] = [];
    const dials = async (count: number, first: string) => {
      const dialled: Socket[] = [];
      for (let i = 0; i < count; i += 100)
        dialled.push(...(await Promise.all(Array.from({ length: 100 }, () => dial(controller.url)))));
      for (const socket of dialled) if (first) socket.write(first);
      sockets.push(...dialled);
      return dialled;
    };
    const closed = (socket: Socket) => hear(socket, 150_000);
    const authorization = `Authorization: Bearer ${stack.token}`;

    const began = performance.now();
    const silent = (await dials(IDLE, '')).map(closed);
    const drippingHeads = await dials(SLOW, `GET ${BASE}/status HTTP/1.1\r\nHost: c\r\n`);
    const heads = drippingHeads.map(closed);
    const drippingBodies = await dials(
      SLOW,
      `POST ${BASE}/application HTTP/1.1\r\nHost: c\r\n${authorization}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{`,
    );
    const bodies = drippingBodies.map(closed);
    const drip = setInterval(() => {
      for (const socket of drippingHeads) socket.write('X-A: b\r\n');
      for (const socket of drippingBodies) socket.write(' ');
    }, 1_000);
    // They request far more than the buffers of a connection have room for, and read none of it.
    const deaf = await dials(100, '');
    for (const socket of deaf) {
      await socket.pause();
      socket.write(`GET ${BASE}/openapi.json HTTP/1.1\r\nHost: c\r\n\r\n`.repeat(4));
    }

    // Users and agents meanwhile.
    const rest = stack.rest(controller);
    using send = createSender({ origin: controller.url });
    const times: number[] = [];
    let peak = 0;
    const until = performance.now() + 20_000;
    while (performance.now() < until) {
      const { status, ms } = await send({ method: 'GET', path: `${BASE}/status` });
      expect(status).toBe(200);
      times.push(ms);
      peak = Math.max(peak, memoryOf(controller.pid).now);
      await sleep(100);
    }
    const { body } = await rest('GET', `/node/${(await stack.node('gw-s'))?.status?.uuid}`);
    expect(body.daemonStatus).toBe('RUNNING');

    const ends = {
      silent: await Promise.all(silent),
      heads: await Promise.all(heads),
      // The time limit of a body is a minute.
      ...(process.env.SKERRY_NIGHTLY && { bodies: await Promise.all(bodies) }),
    };
    clearInterval(drip);
    for (const [what, all] of Object.entries(ends))
      expect({ what, closed: all.filter((one) => one.closed).length }).toEqual({ what, closed: all.length });
    expect(ends.heads[0]?.text).toMatch(/^HTTP\/1\.1 408/);
    const seconds = (performance.now() - began) / 1_000;
    times.sort((a, b) => a - b);
    const slowest = times.at(Math.floor(times.length * 0.99)) ?? 0;
    const figures = `${sockets.length} hostile connections ended after ${seconds.toFixed(0)} s at most; meanwhile others were answered in ${times[times.length >> 1]?.toFixed(0)} ms (p50), ${slowest.toFixed(0)} ms (p99); RSS ${before.toFixed(0)} -> ${peak.toFixed(0)} MiB`;
    process.stderr.write(`${figures}\n`);
    // Who waited for them would wait for their end.
    expect(slowest, figures).toBeLessThan(DEFAULT_LIMITS.headersMs);
    expect(peak - before, figures).toBeLessThan(200);
    for (const socket of sockets) socket.destroy();
  },
  LONG,
);

test(
  'an agent whose long poll was open meanwhile gets a change',
  async () => {
    const image = await stack.image('v1');
    await stack.apply({
      apiVersion: 'skerry.dev/v3',
      kind: 'Application',
      metadata: { name: 'meanwhile' },
      spec: { microservices: [{ name: 'web', agent: { name: 'gw-s' }, images: { amd64: image, arm64: image } }] },
    });
    await until(
      'it to run',
      async () => (await stack.application('meanwhile'))?.status?.microservices?.[0]?.state === 'RUNNING',
    );
    expect((await agent.cli('status')).code).toBe(0);
  },
  LONG,
);
