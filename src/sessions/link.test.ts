import { describe, expect, test } from 'vitest';
import { createVirtualClock } from '../kube/_util.ts';
import { SESSION_TIMES } from '../wire/sessions.ts';
import type { Envelope } from './broker.ts';
import { createLink, LINK_TIMES } from './link.ts';

const WINDOW = 256 * 1024;
const MAX_BYTES = 1_024;
const text = (length: number, of = 'x') => Buffer.alloc(length, of);

/** One end: what it says, what its listener hears, and a clock in the hand of the test. */
function createEnd(clock = createVirtualClock(), maxBytes = MAX_BYTES) {
  const said: Envelope[] = [];
  const heard: string[] = [];
  const link = createLink({ link: 'a', send: (one) => void said.push(one), maxBytes, clock });
  link.socket.listen({
    message: (data) => void heard.push(data.length > 32 ? `${data.length} bytes` : String(data)),
    full: () => void heard.push('full'),
    drained: () => void heard.push('drained'),
    closed: (code, reason) => void heard.push(`closed ${code} ${reason}`),
  });
  const of = <O extends Envelope['op']>(op: O) =>
    said.filter((one): one is Extract<Envelope, { op: O }> => one.op === op);
  const { socket, receive, lost } = link;
  return { link, socket, receive, lost, clock, said, heard, of };
}

/** Two ends, and a hand that passes on what they say. */
function createEnds() {
  const clock = createVirtualClock();
  const [here, there] = [createEnd(clock), createEnd(clock)];
  const at = { here: 0, there: 0 };
  /** Passes everything on, in both directions, until neither says more. */
  function pass() {
    while (at.here < here.said.length || at.there < there.said.length) {
      for (; at.here < here.said.length; at.here++) there.receive(here.said[at.here] as Envelope);
      for (; at.there < there.said.length; at.there++) here.receive(there.said[at.there] as Envelope);
    }
  }
  return { clock, here, there, pass };
}

const frame = (seq: number, body = Buffer.from(String(seq))): Envelope => ({
  link: 'a',
  op: 'frame',
  messageType: 1,
  seq,
  hasMore: false,
  body,
});
const OVER = 'closed undefined undefined';

describe('a link', () => {
  test('gives messages in their order, and those in parts as a whole', () => {
    const { here, there, pass } = createEnds();
    for (const message of [text(3), text(MAX_BYTES), text(2 * MAX_BYTES + 1), text(2, 'y'), text(0)])
      here.socket.send(message);
    expect(here.of('frame').map(({ seq, hasMore, body }) => [seq, hasMore, body.length])).toEqual([
      [0, false, 3],
      [1, false, MAX_BYTES],
      [2, true, MAX_BYTES],
      [3, true, MAX_BYTES],
      [4, false, 1],
      [5, false, 2],
      [6, false, 0],
    ]);
    pass();
    expect(there.heard).toEqual(['xxx', `${MAX_BYTES} bytes`, `${2 * MAX_BYTES + 1} bytes`, 'yy', '']);
  });

  test('gives a message that arrives twice once', () => {
    const end = createEnd();
    for (const seq of [0, 1, 0, 1, 2]) end.receive(frame(seq));
    expect(end.heard).toEqual(['0', '1', '2']);
  });

  test('ends at a message that is missing, and gives none after it', () => {
    const end = createEnd();
    for (const seq of [0, 2, 1, 3]) end.receive(frame(seq));
    expect(end.heard).toEqual(['0', OVER]);
  });

  test('ends when the last message is missing, once the other side says how many there were', () => {
    const end = createEnd();
    end.receive(frame(0));
    end.receive({ link: 'a', op: 'taken', seq: 1, taken: 0 });
    expect(end.heard).toEqual(['0']);
    end.receive({ link: 'a', op: 'taken', seq: 2, taken: 0 });
    expect(end.heard).toEqual(['0', OVER]);
  });

  test('does not hear what is said to another one', () => {
    const end = createEnd();
    end.receive({ ...frame(7), link: 'b' });
    expect(end.link.isHeard).toBe(false);
    expect(end.heard).toEqual([]);
  });
});

describe('what is on its way', () => {
  const sendUntilFull = (end: ReturnType<typeof createEnd>) => {
    let count = 0;
    for (; end.heard.at(-1) !== 'full' && count < 10_000; count++) end.socket.send(text(MAX_BYTES));
    return count;
  };

  test('is 256 KiB at most and the message that exceeds it, as long as the other side takes nothing', () => {
    const { here, there, pass } = createEnds();
    there.socket.pause();
    const count = sendUntilFull(here);
    const each = MAX_BYTES + 256;
    expect(count * each).toBeGreaterThan(WINDOW);
    expect((count - 1) * each).toBeLessThanOrEqual(WINDOW);
    pass();
    expect(there.heard).toEqual([]);
    expect(here.heard).toEqual(['full']);
    there.socket.resume();
    pass();
    expect(there.heard).toHaveLength(count);
    expect(here.heard).toEqual(['full', 'drained']);
  });

  test('may be more again once half of it is taken, not before', () => {
    const end = createEnd();
    const sent = sendUntilFull(end) * (MAX_BYTES + 256);
    const taken = (bytes: number) => end.receive({ link: 'a', op: 'taken', seq: 0, taken: bytes });
    taken(sent - WINDOW / 2 - 1);
    expect(end.heard).toEqual(['full']);
    taken(sent - WINDOW / 2);
    taken(sent);
    expect(end.heard).toEqual(['full', 'drained']);
  });

  test('ends the link when the other side does not keep to that', () => {
    const end = createEnd();
    end.socket.pause();
    let seq = 0;
    for (; end.heard.length === 0 && seq < 100; seq++) end.receive(frame(seq, text(2 ** 20)));
    expect(end.heard).toEqual([OVER]);
    expect(seq).toBeLessThan(10);
  });

  test('ends the link when a message in parts does not end', () => {
    const end = createEnd();
    let bytes = 0;
    for (let seq = 0; end.heard.length === 0 && seq < 1_000; seq++) {
      end.receive({ ...frame(seq, text(64 * 1024)), hasMore: true } as Envelope);
      bytes += 64 * 1024;
    }
    expect(end.heard).toEqual([OVER]);
    expect(bytes).toBeLessThanOrEqual(2 * 2 ** 20);
    const empty = createEnd();
    for (let seq = 0; empty.heard.length === 0 && seq < 10_000; seq++)
      empty.receive({ ...frame(seq, text(0)), hasMore: true } as Envelope);
    expect(empty.heard).toEqual([OVER]);
  });

  test('is never less than nothing: a side that has taken more than was sent is not believed', () => {
    const end = createEnd();
    end.socket.send(text(3));
    end.receive({ link: 'a', op: 'taken', seq: 0, taken: 3 + 256 });
    expect(end.heard).toEqual([]);
    end.receive({ link: 'a', op: 'taken', seq: 0, taken: 3 + 257 });
    expect(end.heard).toEqual([OVER]);
  });

  test('arrives before the end that was said after it, also when nothing takes it for now', () => {
    const { here, there, pass } = createEnds();
    there.socket.pause();
    here.socket.send(text(3));
    here.socket.close(1000, 'done');
    pass();
    expect(there.heard).toEqual([]);
    there.socket.resume();
    expect(there.heard).toEqual(['xxx', 'closed 1000 done']);
    pass();
    expect(here.heard).toEqual(['closed 1000 ']);
  });
});

describe('the end of a link', () => {
  test('is said once and answered once; an answer is never answered', () => {
    const { here, there, pass } = createEnds();
    here.socket.close(1008, 'no such session');
    here.socket.close(1000, 'again');
    pass();
    expect(here.of('close')).toMatchObject([{ closeAck: false, code: 1008, reason: 'no such session' }]);
    expect(there.of('close')).toMatchObject([{ closeAck: true, code: 1008 }]);
    expect(there.heard).toEqual(['closed 1008 no such session']);
    expect(here.heard).toEqual(['closed 1008 ']);
  });

  test('of both sides at once is answered by both, and heard once', () => {
    const { here, there, pass } = createEnds();
    here.socket.close(1000, 'left');
    there.socket.close(1000, 'left');
    pass();
    for (const end of [here, there]) {
      expect(end.heard).toHaveLength(1);
      expect(end.of('close').map(({ closeAck }) => closeAck)).toEqual([false, true]);
    }
  });

  test('counts as answered after 5 s', async () => {
    const end = createEnd();
    end.socket.close(1000, 'done');
    await end.clock.advance(SESSION_TIMES.close - 1);
    expect(end.heard).toEqual([]);
    await end.clock.advance(1);
    expect(end.heard).toEqual(['closed 1000 done']);
  });

  test('comes when the broker may have lost messages; nothing is said or heard after it', async () => {
    const end = createEnd();
    end.lost();
    end.lost();
    end.receive(frame(0));
    end.socket.send(text(1));
    end.socket.close(1000, 'left');
    await end.clock.advance(10 * LINK_TIMES.silent);
    expect(end.heard).toEqual([OVER]);
    expect(end.said).toEqual([]);
  });

  test('does not come by silence or loss of the broker before what was said last is taken', async () => {
    const { clock, here, there, pass } = createEnds();
    there.socket.pause();
    for (let i = 0; i < 200; i++) here.socket.send(text(MAX_BYTES));
    here.socket.close(1000, 'done');
    pass();
    // The other side waits for an answer no longer than this, and says nothing after it.
    await clock.advance(SESSION_TIMES.close);
    expect(here.heard).toEqual(['closed 1000 done']);
    const said = there.said.length;
    await clock.advance(LINK_TIMES.silent + LINK_TIMES.sign - 1);
    there.lost();
    there.socket.send(text(1));
    expect(there.heard).toEqual([]);
    there.socket.resume();
    expect(there.heard).toHaveLength(201);
    expect(there.heard.at(-1)).toBe('closed 1000 done');
    // Nothing takes what would be said to a side that has left, besides the answer.
    expect(there.said.slice(said).map(({ op }) => op)).toEqual(['close']);
  });

  test('is the last that is heard of a side, whatever it says after it while nothing is taken', async () => {
    const end = createEnd();
    end.socket.pause();
    const close = (seq: number, reason: string): Envelope => ({
      ...{ link: 'a', op: 'close', closeAck: false, code: 1000 },
      ...{ seq, reason },
    });
    end.receive(frame(0));
    end.receive(close(1, 'done'));
    for (let seq = 2; seq < 100; seq++) end.receive(close(seq, 'more'));
    await end.clock.advance(SESSION_TIMES.linger - LINK_TIMES.sign);
    end.receive({ link: 'a', op: 'taken', seq: 2, taken: 0 });
    end.receive(frame(100));
    expect(end.heard).toEqual([]);
    await end.clock.advance(LINK_TIMES.sign);
    expect(end.heard).toEqual([OVER]);
  });

  test('comes when what was said last is not taken for too long', async () => {
    const { clock, here, there, pass } = createEnds();
    there.socket.pause();
    here.socket.send(text(3));
    here.socket.close(1000, 'done');
    pass();
    await clock.advance(SESSION_TIMES.linger - 1);
    expect(there.heard).toEqual([]);
    await clock.advance(LINK_TIMES.sign);
    expect(there.heard).toEqual([OVER]);
  });

  test('comes after 15 s in which the other side is silent', async () => {
    const end = createEnd();
    await end.clock.advance(LINK_TIMES.silent - 1);
    expect(end.heard).toEqual([]);
    await end.clock.advance(1);
    expect(end.heard).toEqual([OVER]);
  });

  test('does not come while the other side lives, also when neither has anything to say', async () => {
    const { clock, here, there, pass } = createEnds();
    for (let i = 0; i < 20; i++) {
      await clock.advance(LINK_TIMES.sign);
      pass();
    }
    expect([here.heard, there.heard]).toEqual([[], []]);
    expect(here.of('taken')).toHaveLength(20);
  });
});
