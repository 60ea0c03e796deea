import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { BASE } from '../../src/rest/contract/base.ts';
import { createStack } from '../_stack.ts';
import { FILE_BODIES, JSON_BODIES } from './_attacks.ts';
import { memoryOf } from './_process.ts';
import { createSender, forEach } from './_send.ts';

/**
 * Lengths are limited before memory is allocated: a controller process receives hostile input in all forms, and needs no
 * more memory for the last hundred megabytes than for the first.
 */
const MIB = 2 ** 20;
/** MiB that are sent; nightly runs send more */
const AMOUNT = Number(process.env.SKERRY_HOSTILE_MIB ?? 256);
const LONG = 3_600_000;
/** MiB after which the heap has the size that it keeps: 25 rounds of 60 MiB reach it in the sixth */
const WARMTH = 350;
/** MiB that the process may grow by after that: garbage that is not yet collected */
const GROWTH = 64;
/** MiB that the process may need at most: a fourteenth of what eight uploads at once would need without limits */
const PEAK = 640;

const stack = await createStack();
const controller = await stack.startController({ env: { LOG_LEVEL: 'info' } });

test(
  `${AMOUNT} MiB of hostile input do not let the memory of the controller grow`,
  async () => {
    using send = createSender({ origin: controller.url });
    const json = { authorization: `Bearer ${stack.token}`, 'content-type': 'application/json' };
    const bearer = { authorization: json.authorization };
    const padding = Buffer.alloc(12 * MIB, ' ');
    const requests = [
      ...JSON_BODIES.map(({ body, headers }) => ({ method: 'POST', path: '/application', body, headers })),
      ...FILE_BODIES.map(({ body, headers }) => ({ method: 'POST', path: '/application/yaml', body, headers })),
      ...JSON_BODIES.map(({ body, headers }) => ({ method: 'POST', path: '/agent/provision', body, headers })),
      { method: 'POST', path: '/node', body: padding, headers: json },
      { method: 'POST', path: '/application/yaml', body: padding, headers: { 'content-type': 'text/yaml' } },
      { method: 'POST', path: '/agent/provision', body: padding.subarray(0, 8 * MIB), headers: json },
      ...Array.from({ length: 200 }, (_, i) => ({
        method: 'GET',
        path: `/application/${`${i}`.repeat(200)}?${'q=1&'.repeat(2_000)}`,
        body: undefined,
        headers: { 'x-padding': 'p'.repeat(15_000), authorization: i % 2 ? `Bearer ${'t'.repeat(8_000)}${i}` : '' },
      })),
    ];
    const sizeOf = ({ body, path }: (typeof requests)[number]) =>
      body ? Buffer.byteLength(body) : path.length + 15_000;
    const samples: number[] = [];
    let sent = 0;
    const faults: string[] = [];
    const round = () =>
      forEach(requests, 8, async (request) => {
        const { method, path, body, headers } = request;
        const heard = await send({ method, path: BASE + path, headers: { ...bearer, ...headers }, body }).catch(
          (error: Error) => ({ status: 0, text: error.message }),
        );
        sent += sizeOf(request);
        if (heard.status === 0 || (heard.status >= 500 && heard.status !== 501))
          faults.push(`${method} ${path.slice(0, 40)}: ${heard.status} ${heard.text.slice(0, 200)}`);
      });
    while (sent < WARMTH * MIB) await round();
    await sleep(1_000);
    const warm = memoryOf(controller.pid).now;
    while (sent < (WARMTH + AMOUNT) * MIB) {
      await round();
      samples.push(memoryOf(controller.pid).now);
    }
    await sleep(2_000);
    const { now, peak } = memoryOf(controller.pid);
    const figures = `${(sent / MIB).toFixed(0)} MiB sent; RSS ${warm.toFixed(0)} MiB warm, ${now.toFixed(0)} after, peak ${peak.toFixed(0)} (${samples.map((one) => one.toFixed(0)).join(' ')})`;
    process.stderr.write(`${figures}\n`);
    expect(faults.slice(0, 10)).toEqual([]);
    expect(now - warm, figures).toBeLessThan(GROWTH);
    expect(peak, figures).toBeLessThan(PEAK);
  },
  LONG,
);
