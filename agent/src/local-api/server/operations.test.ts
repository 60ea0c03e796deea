import { describe, expect, test } from 'vitest';
import { VirtualClock } from '../../machine/_virtual-clock.ts';
import { LocalApiError } from './errors.ts';
import { Operations } from './operations.ts';

interface Pull {
  image: string;
  progress: number;
}

function setUp() {
  const clock = new VirtualClock();
  const end = new AbortController();
  const operations = new Operations<Pull>({ clock, signal: end.signal });
  const gate = () => Promise.withResolvers<Partial<Pull>>();
  return { clock, end, operations, gate };
}
const PULL: Pull = { image: 'till:1', progress: 0 };
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('operations', () => {
  test('are under way when they are begun, and are polled until they have ended', async () => {
    const { clock, operations, gate } = setUp();
    const work = gate();
    let update: (members: Partial<Pull>) => void = () => {};
    const begun = operations.begin(PULL, (change) => {
      update = change;
      return work.promise;
    });
    expect(begun).toEqual({
      ...PULL,
      operationId: begun.operationId,
      status: 'running',
      startedAt: '2026-01-01T00:00:00.000Z',
    });
    await turn();
    update({ progress: 40 });
    expect(operations.get(begun.operationId)).toMatchObject({ status: 'running', progress: 40 });
    expect(operations.running).toHaveLength(1);
    await clock.advance(2000);
    work.resolve({ progress: 100 });
    await turn();
    update({ progress: 7 });
    const ended = { status: 'succeeded', progress: 100, endedAt: '2026-01-01T00:00:02.000Z' };
    expect(operations.get(begun.operationId)).toMatchObject(ended);
    expect(operations.running).toEqual([]);
  });

  test.each([
    [
      new LocalApiError('CONFLICT', 'it is in use', { by: 'till' }),
      { code: 'CONFLICT', message: 'it is in use', details: { by: 'till' } },
    ],
    [new Error('no room'), { code: 'INTERNAL', message: 'no room' }],
  ])('fail with the error of their work: %s', async (thrown, error) => {
    const { operations } = setUp();
    const { operationId } = operations.begin(PULL, () => Promise.reject(thrown));
    await turn();
    expect(operations.get(operationId)).toMatchObject({ status: 'failed', error });
  });

  test('fail as well when their work throws at once', async () => {
    const { operations } = setUp();
    const { operationId } = operations.begin(PULL, () => {
      throw new LocalApiError('NOT_FOUND', 'gone');
    });
    await turn();
    expect(operations.get(operationId).error).toEqual({ code: 'NOT_FOUND', message: 'gone' });
  });

  test('are known for 24 hours after their end, whatever the wall clock says', async () => {
    const { clock, operations } = setUp();
    const { operationId } = operations.begin(PULL, async () => ({}));
    await turn();
    await clock.advance(24 * 3600 * 1000 - 1);
    expect(operations.get(operationId).status).toBe('succeeded');
    await clock.advance(2);
    expect(() => operations.get(operationId)).toThrow('no operation');
  });

  test('are 1,000 at most: those that ended first are forgotten, and none that is under way', async () => {
    const { operations, gate } = setUp();
    const forever = operations.begin(PULL, () => gate().promise);
    const ids: string[] = [];
    for (let at = 0; at < 1100; at++) {
      ids.push(operations.begin(PULL, async () => ({})).operationId);
      await turn();
    }
    const isKnown = (id: string) => {
      try {
        return Boolean(operations.get(id));
      } catch {
        return false;
      }
    };
    expect(isKnown(forever.operationId)).toBe(true);
    expect(ids.filter(isKnown)).toEqual(ids.slice(-999));
  });

  test('are refused while 64 are under way', () => {
    const { operations, gate } = setUp();
    for (let at = 0; at < 64; at++) operations.begin(PULL, () => gate().promise);
    expect(() => operations.begin(PULL, () => gate().promise)).toThrow('64 operations of this kind are under way');
  });

  test('are refused to a microservice that has two under way, and to all others only where 32 are', () => {
    const { operations, gate } = setUp();
    const begin = (by?: string) => operations.begin(PULL, () => gate().promise, by);
    begin('web');
    begin('web');
    expect(() => begin('web')).toThrow('2 operations of this microservice are under way');
    for (let at = 0; at < 30; at++) begin(`microservice-${at}`);
    expect(() => begin('db')).toThrow('32 operations of microservices are under way');
    for (let at = 0; at < 32; at++) begin();
    expect(() => begin()).toThrow('64 operations of this kind are under way');
  });

  test('are known to the microservice that began them and to the admin, and to no other microservice', async () => {
    const { operations } = setUp();
    const { operationId } = operations.begin(PULL, async () => ({}), 'web');
    expect(operations.get(operationId, 'web')).toMatchObject({ operationId });
    expect(operations.get(operationId)).toMatchObject({ operationId });
    expect(() => operations.get(operationId, 'db')).toThrow('no operation');
    const { operationId: own } = operations.begin(PULL, async () => ({}));
    expect(() => operations.get(own, 'web')).toThrow('no operation');
  });

  test('are waited for until they end, the time is over, or the signal fires', async () => {
    const { clock, operations, gate } = setUp();
    const work = gate();
    const { operationId } = operations.begin(PULL, () => work.promise);
    const late = operations.ended(operationId, 8000);
    await clock.advance(8000);
    expect((await late).status).toBe('running');
    const gone = new AbortController();
    const waiting = operations.ended(operationId, 8000, gone.signal);
    gone.abort();
    expect((await waiting).status).toBe('running');
    const timely = operations.ended(operationId, 8000);
    work.resolve({});
    expect((await timely).status).toBe('succeeded');
  });

  test('end with the agent', async () => {
    const { end, operations } = setUp();
    const { operationId } = operations.begin(
      PULL,
      (_update, signal) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('the agent ends')))),
    );
    await turn();
    end.abort();
    await turn();
    expect(operations.get(operationId)).toMatchObject({ status: 'failed', error: { message: 'the agent ends' } });
  });
});
