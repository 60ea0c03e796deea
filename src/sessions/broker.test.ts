import { describe, expect, test } from 'vitest';
import { type BrokerMessage, type Envelope, readEnvelope, writeEnvelope } from './broker.ts';

const NOTHING = new Uint8Array(0);
const read = (properties: object) =>
  readEnvelope({ properties: properties as BrokerMessage['properties'], body: NOTHING });

describe('a message of a broker', () => {
  test('is read as it was written, also where all values are texts', () => {
    const all: Envelope[] = [
      { link: 'a', op: 'frame', messageType: 1, seq: 7, hasMore: true, body: NOTHING },
      { link: 'a', op: 'join', kind: 'exec', asked: '{"id":"s"}' },
      { link: 'a', op: 'taken', seq: 0, taken: 12 },
      { link: 'a', op: 'close', seq: 3, closeAck: false, code: 1000, reason: 'the user left' },
    ];
    for (const one of all) {
      const { properties } = writeEnvelope(one);
      const texts = Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, String(value)]));
      expect([read(properties), read(texts)]).toEqual([one, one]);
    }
  });

  test('with a map or a list where a text or a number belongs is no message, and no error', () => {
    const taken = { link: 'a', op: 'taken', seq: 0, taken: 0 };
    for (const value of [{ toString: 1, valueOf: 1 }, Object.create(null), [[]], null, undefined])
      for (const name of Object.keys(taken)) expect(read({ ...taken, [name]: value })).toBeUndefined();
  });

  test('has bounds of its texts: a longer one counts as absent', () => {
    const long = 'x'.repeat(100_000);
    expect(read({ link: long, op: 'taken', seq: 0, taken: 0 })).toBeUndefined();
    expect(read({ link: 'a', op: 'taken', seq: '0'.repeat(100_000), taken: 0 })).toBeUndefined();
    expect(read({ link: 'a', op: 'join', kind: 'exec', asked: long })).toMatchObject({ asked: '' });
    expect(read({ link: 'a', op: 'close', seq: 0, code: 1000, reason: long })).toMatchObject({ reason: '' });
  });
});
