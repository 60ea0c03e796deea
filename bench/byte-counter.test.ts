import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { countBytes, segmentsSent } from './byte-counter.ts';

test('the proxy counts the bytes of both directions and passes them on unchanged', async () => {
  const server = createServer((request, response) => {
    request.on('data', () => {});
    request.on('end', () => response.end('x'.repeat(10_000)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await using counter = await countBytes(`http://127.0.0.1:${port}`);
  const passed = counter.watch();

  const answer = await fetch(counter.url, { method: 'POST', body: 'y'.repeat(5_000) });
  expect(await answer.text()).toBe('x'.repeat(10_000));
  const { up, down } = passed();
  expect(up).toBeGreaterThan(5_000);
  expect(up).toBeLessThan(6_000);
  expect(down).toBeGreaterThan(10_000);
  expect(down).toBeLessThan(11_000);
  server.closeAllConnections();
  server.close();
});

test('segments are counted by connection', () => {
  const text = [
    '0      0          127.0.0.1:48280    127.0.0.1:46615 ',
    '\t ts sack bbr rto:208 bytes_sent:2826 segs_out:97 segs_in:96 data_segs_out:4 app_limited',
    '0      12         127.0.0.1:48296    127.0.0.1:46615 ',
    '\t ts sack bbr rto:204 segs_out:30 data_segs_out:3',
    '',
  ].join('\n');
  expect(segmentsSent(text)).toEqual(
    new Map([
      ['127.0.0.1:48280', 97],
      ['127.0.0.1:48296', 30],
    ]),
  );
});
