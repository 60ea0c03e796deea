import { createServer } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { createVirtualTime, noteWhatIsLeft } from './virtual-time.ts';

const listen = async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
};

test('virtual time that moves beside a socket without a word about its timers is an error', async () => {
  const time = createVirtualTime(0);
  await listen();
  await expect(time.advance(1_000)).rejects.toThrow(/beside .*TCPServerWrap.*say how many \{ timers \}/);
  expect(time.now).toBe(0);
  await time.advance(1_000, { timers: 0 });
  expect(time.now).toBe(1_000);
});

test('virtual time minds no socket that an earlier file of the process has left, and each further one', async () => {
  const there = ['TCPSocketWrap'];
  const outside = () => there;
  noteWhatIsLeft(outside);
  onTestFinished(() => noteWhatIsLeft());
  const time = createVirtualTime(0, { outside });
  await time.advance(1_000);
  there.push('TCPServerWrap');
  await expect(time.advance(1_000)).rejects.toThrow(/beside TCPSocketWrap, TCPServerWrap/);
});

test('virtual time stands still until the timers that are to ring are set, however long the outside takes', async () => {
  const time = createVirtualTime(0);
  const rung: number[] = [];
  setTimeout(() => time.after(700, () => rung.push(time.now)), 50);
  setTimeout(() => time.after(500, () => rung.push(time.now)), 100);
  await time.advance(1_000, { timers: 2 });
  expect(rung).toEqual([500, 700]);
});

test('virtual time whose timer is never set says which timers there are', async () => {
  const time = createVirtualTime(0, { waitMs: 10 });
  time.after(2_000, () => {});
  await expect(time.advance(1_000, { timers: 1 })).rejects.toThrow(
    'advance(1000) waited 10 ms for 1 timers due within this time: timers are due in 2000 ms',
  );
});

test('virtual time without sockets needs no word about its timers', async () => {
  const time = createVirtualTime(0, { outside: () => [] });
  let rung = 0;
  time.after(10, () => time.after(10, () => rung++));
  await time.advance(19);
  expect(rung).toBe(0);
  await time.advance(1);
  expect(rung).toBe(1);
});
