import { expect, test } from 'vitest';
import { type ConnectionEnd, type ConnectionPlace, createConnections } from './connections.ts';

const LIMITS = { all: 20, strangers: 10, address: 4, graceMs: 10_000, caller: 3 };

/** Connections by name, in the order in which they were ended. */
function start(limits: Partial<typeof LIMITS> = {}) {
  let now = 0;
  const ended: string[] = [];
  const why: ConnectionEnd[] = [];
  let open = { authenticated: 0, strangers: 0 };
  const connections = createConnections(
    { ...LIMITS, ...limits },
    {
      clock: { now: () => now },
      metrics: {
        connections: (count) => {
          open = count;
        },
        connectionEnded: (reason) => why.push(reason),
      },
    },
  );
  return {
    ended,
    why,
    open: () => open,
    pass(ms: number) {
      now += ms;
    },
    connect(address: string, name = address): ConnectionPlace | undefined {
      const place = connections.take(address, () => {
        ended.push(name);
        place?.leave();
      });
      return place;
    },
  };
}

test('an address that has had its time gives its oldest connection for each further one', () => {
  const { connect, pass, ended, why } = start();
  for (let i = 0; i < 4; i++) connect('a', `a${i}`);
  pass(LIMITS.graceMs);
  connect('b');
  expect(ended).toEqual([]);
  connect('a', 'a4');
  connect('a', 'a5');
  expect(ended).toEqual(['a0', 'a1']);
  expect(why).toEqual(['address', 'address']);
});

test('many clients behind one address that connect at once all have the time to authenticate', () => {
  const { connect, ended, open } = start();
  const places = Array.from({ length: 9 }, (_, i) => connect('a', `a${i}`));
  for (const [i, place] of places.entries()) place?.authenticated(`node ${i}`);
  expect(ended).toEqual([]);
  expect(open()).toEqual({ authenticated: 9, strangers: 0 });
});

test('the half of the places that strangers can have is shared between their addresses', () => {
  const { connect, ended, why } = start();
  for (let i = 0; i < 10; i++) connect('a', `a${i}`);
  for (let i = 0; i < 5; i++) connect(`b${i}`);
  expect(ended).toEqual(['a0', 'a1', 'a2', 'a3', 'a4']);
  expect(new Set(why)).toEqual(new Set(['strangers']));
});

test('a connection on which a request was authenticated makes room for nobody', () => {
  const { connect, pass, ended } = start();
  const agent = connect('a', 'agent');
  agent?.authenticated('node 1');
  pass(LIMITS.graceMs);
  for (let i = 0; i < 100; i++) connect('a', `a${i}`);
  expect(ended).toHaveLength(90);
  expect(ended).not.toContain('agent');
});

test('connections of one caller beyond its bound stay among the strangers', () => {
  const { connect, ended, open } = start();
  for (let i = 0; i < 12; i++) connect('a', `a${i}`)?.authenticated('user eve');
  expect(open()).toEqual({ authenticated: 3, strangers: 9 });
  connect('b')?.authenticated('user ann');
  connect('c');
  connect('d');
  expect(ended).toEqual(['a3']);
});

test('strangers make room when authenticated callers have all other places, and only then is a connection refused', () => {
  const { connect, ended, why } = start();
  for (let i = 0; i < 17; i++) connect('a', `a${i}`)?.authenticated(`node ${i}`);
  for (let i = 0; i < 3; i++) connect('b', `b${i}`);
  connect('c', 'c0')?.authenticated('node c0');
  connect('c', 'c1')?.authenticated('node c1');
  connect('c', 'c2')?.authenticated('node c2');
  expect(ended).toEqual(['b0', 'b1', 'b2']);
  expect(connect('d')).toBeUndefined();
  expect(why).toEqual(['all', 'all', 'all', 'all']);
});

test('a connection that is closed gives its place back once', () => {
  const { connect, open } = start();
  const [one, other] = [connect('a'), connect('a')];
  one?.authenticated('node 1');
  for (const place of [one, one, other, other]) place?.leave();
  one?.authenticated('node 2');
  expect(open()).toEqual({ authenticated: 0, strangers: 0 });
});
