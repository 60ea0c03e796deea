import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { createTurns, type ListReply, type ListWriting, listReply, writeList } from './list-reply.ts';

const busy = (ms: number) => {
  const until = performance.now() + ms;
  while (performance.now() < until);
};
const asList = (list: object) => list as unknown as ListReply;

async function serve(list: ListReply, options: Partial<ListWriting> = {}) {
  const signal = AbortSignal.timeout(30_000);
  const leftOut = () => {};
  const turn = createTurns();
  const done = Promise.withResolvers<void>();
  const server = createServer((_request, response) => {
    response.on('error', () => {});
    writeList(response.writeHead(200), list, { turn, signal, leftOut, ...options }).then(done.resolve, done.reject);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return { url, done: done.promise, [Symbol.dispose]: stop };
}

describe('a long list', () => {
  test('is written as the JSON of all its groups', async () => {
    for (const sources of [[], [1], [1, 2, 3], Array.from({ length: 5_000 }, (_, i) => i)]) {
      const list = listReply('things', sources, (n) => (n % 2 ? [{ n, text: 'ü"'.repeat(50) }, n] : []));
      using server = await serve(asList(list));
      const body = await (await fetch(server.url)).json();
      expect(body).toEqual(JSON.parse(JSON.stringify(list)));
      await server.done;
    }
  });

  test('leaves out objects that cannot be shown, and reports them', async () => {
    const sources = ['a', 'broken', 'c', 'odd'].map((name) => ({ metadata: { name } }));
    const list = listReply('things', sources, ({ metadata: { name } }) => {
      if (name === 'broken') throw new Error('cannot be read');
      return [{ name }];
    });
    const left: string[] = [];
    using server = await serve(asList(list), {
      check(item) {
        if ((item as { name: string }).name === 'odd') throw new TypeError('not promised');
      },
      leftOut: (error, name) => left.push(`${name}: ${(error as Error).message}`),
    });
    expect(await (await fetch(server.url)).json()).toEqual({ things: [{ name: 'a' }, { name: 'c' }] });
    expect(left).toEqual(['broken: cannot be read', 'odd: not promised']);
  });

  test('yields to other requests, also while it writes nothing', async () => {
    const list = listReply('things', Array.from({ length: 200 }), () => {
      busy(1);
      return [];
    });
    using server = await serve(asList(list));
    let turns = 0;
    const count = setInterval(() => turns++, 1);
    await (await fetch(server.url)).text();
    clearInterval(count);
    expect(turns).toBeGreaterThan(20);
  });

  test('waits for its turn when several lists are written at once', async () => {
    const turn = createTurns();
    const order: string[] = [];
    await Promise.all([turn().then(() => order.push('a')), turn().then(() => order.push('b'))]);
    expect(order).toEqual(['a', 'b']);
  });

  test('ends when its client disconnects, and waits for a slow client', async () => {
    let made = 0;
    const list = listReply('things', Array.from({ length: 100_000 }), () => {
      made++;
      return ['x'.repeat(1000)];
    });
    using server = await serve(asList(list));
    const request = get(server.url, (response) => response.pause());
    let before = -1;
    // Until the buffers of the connection are full.
    while (made !== before) {
      before = made;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    expect(before).toBeLessThan(100_000);
    request.destroy();
    await server.done;
    expect(made).toBeLessThan(100_000);
  });
});
