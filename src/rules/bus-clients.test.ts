import { describe, expect, test } from 'vitest';
import { BUS_MOVE, type BusClients, busAddressFor, nextClients, nextStep } from './bus-clients.ts';

const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ host: `${name}.example`, port: 4222 })) as [
  { host: string; port: number },
  { host: string; port: number },
  { host: string; port: number },
];
const nodes = Array.from({ length: 1_000 }, (_, i) => `4f6c1e0a-0000-4000-8000-${String(i).padStart(12, '0')}`);
const countOf = (clients: BusClients | undefined, { host }: { host: string }) =>
  nodes.filter((node) => clients && busAddressFor(clients, node).host === host).length;

/** All steps to an address, as long as the hub is ready. */
function steps(from: BusClients, to: { host: string; port: number }): BusClients[] {
  const all: BusClients[] = [];
  let now = 0;
  for (let clients: BusClients | undefined = from; clients && all.length < 100; ) {
    clients = nextClients(clients, to, { isReady: true, now });
    if (!clients) break;
    all.push(clients);
    if (!clients.former) break;
    now = nextStep(clients);
  }
  return all;
}

describe('another address of the hub', () => {
  test('reaches no node at first, then a tenth more of them with each step, and all in five minutes', () => {
    const counts = steps(a, b).map((clients) => countOf(clients, b));
    expect(counts[0]).toBe(0);
    expect(counts.at(-1)).toBe(nodes.length);
    for (const [i, count] of counts.entries()) {
      const added = count - (counts[i - 1] ?? 0);
      if (i > 0) expect(added).toBeGreaterThan(50);
      expect(added).toBeLessThan(150);
    }
    expect((counts.length - 1) * BUS_MOVE.stepMs).toBe(300_000);
  });

  test('takes each node once', () => {
    const moved = new Set<string>();
    for (const clients of steps(a, b))
      for (const node of nodes) {
        const isThere = busAddressFor(clients, node).host === b.host;
        if (moved.has(node)) expect(isThere).toBe(true);
        if (isThere) moved.add(node);
      }
  });

  test('reaches no further node while its servers lack tokens, or before the time of the step', () => {
    const began = nextClients(a, b, { isReady: true, now: 0 });
    expect(nextClients(began, b, { isReady: false, now: 3_600_000 })).toEqual(began);
    expect(nextClients(began, b, { isReady: true, now: BUS_MOVE.stepMs - 1 })).toEqual(began);
  });

  test('touches the nodes alone that have it once it is taken back or mended on the way', () => {
    const halfway = steps(a, b)[3] as BusClients;
    const back = nextClients(halfway, a, { isReady: true, now: 0 });
    expect(back).toEqual(a);
    const mended = nextClients(halfway, c, { isReady: true, now: 0 });
    expect(countOf(mended, c)).toBe(countOf(halfway, b));
    expect(countOf(mended, a)).toBe(countOf(halfway, a));
  });
});

test('the first address is there at once, and stays while the hub has none', () => {
  expect(nextClients(undefined, a, { isReady: false, now: 0 })).toEqual(a);
  expect(nextClients(a, undefined, { isReady: true, now: 0 })).toEqual(a);
  expect(nextClients(a, a, { isReady: true, now: 0 })).toBe(a);
});
