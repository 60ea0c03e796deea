import { describe, expect, test } from 'vitest';
import { createVirtualClock, settle } from '../../../kube/_util.ts';
import type { DialOptions, DialResult } from '../../../router-client/dial.ts';
import { type DialTarget, ServiceDials } from './dials.ts';

const target = (port: number, because = ''): DialTarget => ({ host: 'router', port, because });
const OPEN: DialResult = { is: 'open' };
const CLOSED: DialResult = { is: 'closed' };

/** Dials that the test answers. */
function setUp() {
  const clock = createVirtualClock();
  const asked: (DialOptions & { at: number; answer(result: DialResult): Promise<void> })[] = [];
  const changed: string[] = [];
  const dials = new ServiceDials({
    ...{ clock, random: () => 0.5, changed: (name) => void changed.push(name) },
    dial: (options) =>
      new Promise((resolve, reject) => {
        options.signal.addEventListener('abort', () => reject(options.signal.reason));
        asked.push({
          ...options,
          at: clock.now(),
          answer(result) {
            resolve(result);
            return settle();
          },
        });
      }),
  });
  return {
    ...{ clock, asked, changed, dials },
    last: () => asked.at(-1) as (typeof asked)[number],
    /** the pause until the next dial, ms */
    async pause() {
      const [before, at] = [asked.length, clock.now()];
      while (asked.length === before) await clock.advance(1_000);
      return (asked.at(-1)?.at ?? 0) - at;
    },
  };
}

describe('the dials of services', () => {
  test('begin at once, have a deadline, and say what they found', async () => {
    const { dials, last, changed } = setUp();
    expect(dials.of('db', target(1))).toBeUndefined();
    expect(last()).toMatchObject({ host: 'router', port: 1, connectMs: 5_000, staysMs: 3_000 });
    await last().answer(OPEN);
    expect(changed).toEqual(['db']);
    expect(dials.of('db', target(1))).toMatchObject({ status: 'True', reason: 'BackendAnswers' });
  });

  test('are sixteen at once at most, and fifty a second', async () => {
    const { dials, asked, clock } = setUp();
    for (let i = 0; i < 100; i++) dials.of(`s-${i}`, target(i));
    expect(asked).toHaveLength(1);
    await clock.advance(100);
    expect(asked).toHaveLength(6);
    await clock.advance(60_000);
    expect(asked).toHaveLength(16);
    await asked[3]?.answer(OPEN);
    await clock.advance(20);
    expect(asked).toHaveLength(17);
  });

  test('come again every five minutes, and after a failure soon and then less often', async () => {
    const { dials, last, pause } = setUp();
    dials.of('db', target(1));
    await last().answer(OPEN);
    expect(await pause()).toBe(300_000);
    const pauses: number[] = [];
    for (let i = 0; i < 7; i++) {
      await last().answer(CLOSED);
      pauses.push(Math.round((await pause()) / 1_000));
    }
    expect(pauses).toEqual([9, 17, 34, 68, 136, 255, 255]);
    await last().answer(OPEN);
    expect(await pause()).toBe(300_000);
  });

  test('lead to a status only where the result is another one', async () => {
    const { dials, last, pause, changed } = setUp();
    dials.of('db', target(1));
    for (const result of [CLOSED, CLOSED, OPEN, OPEN, OPEN, CLOSED]) {
      await last().answer(result);
      await pause();
    }
    expect(changed).toHaveLength(3);
  });

  test('come at once for another target, whose former result is forgotten, and for another reason, whose is kept', async () => {
    const { dials, last, asked, clock } = setUp();
    dials.of('db', target(1));
    await last().answer(OPEN);
    await clock.advance(1_000);
    expect(dials.of('db', target(1, 'connected'))).toMatchObject({ status: 'True' });
    expect(asked).toHaveLength(2);
    // This dial began before the service got another port.
    expect(dials.of('db', target(2))).toBeUndefined();
    expect(asked).toHaveLength(2);
    await last().answer(CLOSED);
    await clock.advance(20);
    expect(last().port).toBe(2);
    expect(dials.of('db', target(2))).toBeUndefined();
    await last().answer(OPEN);
    expect(dials.of('db', target(2))).toMatchObject({ status: 'True' });
  });

  test('end for a service without a target, and with the term', async () => {
    const { dials, last, asked, changed, clock } = setUp();
    dials.of('db', target(1));
    dials.of('db', undefined);
    await last().answer(OPEN);
    await clock.advance(1_000_000);
    expect([asked.length, changed]).toEqual([1, []]);
    dials.of('log', target(2));
    dials[Symbol.dispose]();
    await settle();
    await clock.advance(1_000_000);
    expect(asked).toHaveLength(2);
    expect(last().signal.aborted).toBe(true);
    expect(changed).toEqual([]);
  });
});
