import { describe, expect, test } from 'vitest';
import { connectedOf, type EndState, hubLacks, listeningOf } from './links.ts';

const end = (router: string, state: EndState) => ({ router, state });
const UP = { is: 'up' } as const;
const failed = (message: string) => ({ is: 'failed', message }) as const;

describe('how many routers listen', () => {
  test.each([
    ['all', [end('a', UP), end('b', UP)], 'True', 'RoutersListen', '2 of 2 routers listen'],
    [
      'one of two, where the other one is behind',
      [end('a', { is: 'behind' }), end('b', UP)],
      ...(['True', 'RoutersListen', '1 of 2 routers listen; a does not: it does not have the service yet'] as const),
    ],
    [
      'some, where what somebody has to mend is said before what waits, and the first name before others',
      [end('a', { is: 'silent' }), end('c', failed('no')), end('b', failed('not allowed')), end('d', UP)],
      ...(['True', 'RoutersListen', '1 of 4 routers listen; b does not: not allowed'] as const),
    ],
    [
      'none, since the port is taken',
      [end('a', failed('proton:io: Address already in use - listen on 0.0.0.0:10024'))],
      'False',
      'ListenerPortTaken',
      '0 of 1 routers listen; a does not: its port is taken: proton:io: Address already in use - listen on 0.0.0.0:10024',
    ],
    [
      'none, since no router reaches the backend',
      [end('a', { is: 'waiting' })],
      ...([
        'False',
        'NoListener',
        '0 of 1 routers listen; a does not: no router that it is connected to reaches the backend',
      ] as const),
    ],
    [
      'none, since there is none',
      [],
      'False',
      'NoListener',
      'there is no default router, and no node selects the service',
    ],
  ] as const)('%s', (_, ends, status, reason, message) => {
    expect(listeningOf(ends)?.finding).toEqual({ status, reason, message });
  });

  test('is not known while one of them has not reported', () => {
    expect(listeningOf([end('a', UP), end('b', { is: 'unknown' })])).toBeUndefined();
  });

  test('is said in a message of a bounded length, whatever a router says', () => {
    expect(listeningOf([end('a', failed('x'.repeat(100_000)))])?.finding.message?.length).toBeLessThanOrEqual(1_024);
  });
});

describe('the connector', () => {
  test.each([
    [UP, 'True', 'RouterHasConnector'],
    [{ is: 'silent' }, 'Unknown', 'NodeSilent'],
    [{ is: 'refused', message: 'no' }, 'False', 'NoConnector'],
    [{ is: 'none' }, 'False', 'NoConnector'],
  ] as const)('a connector at a router in the state %j is %s', (state, status, reason) => {
    expect(connectedOf(end('a', state))).toMatchObject({ status, reason });
  });
});

describe('the default router', () => {
  test.each([
    ['that is not there', [], false, /^there is no default router/],
    ['that has it', [UP], false, undefined],
    ['whose listener waits for a connector', [{ is: 'waiting' }], false, undefined],
    ['that refuses it, although it had it', [{ is: 'refused', message: 'no' }], true, /^r: it refuses it: no$/],
    ['that cannot be reached', [{ is: 'unreached' }], false, /cannot be reached/],
    ['that cannot be reached any more', [{ is: 'unreached' }], true, undefined],
    ['that was not asked yet', [{ is: 'unknown' }], false, /not compared/],
    ['that has the listener alone', [UP, { is: 'behind' }], false, /does not have/],
  ] as const)('%s', (_, states, wasReady, expected) => {
    const lacks = hubLacks(
      states.map((state) => end('r', state)),
      wasReady,
    );
    if (expected) expect(lacks).toMatch(expected);
    else expect(lacks).toBeUndefined();
  });
});
