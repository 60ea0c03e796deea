import { describe, expect, test } from 'vitest';
import type { RouterAttribute } from '../wire/router.ts';
import {
  changesTo,
  type FoundEntity,
  type Managed,
  managedEntities,
  type RouterChange,
  type RouterEntity,
} from './changes.ts';

const entity = (kind: Managed, name: string, attributes: Record<string, RouterAttribute> = {}): RouterEntity => ({
  ...{ kind, name, attributes },
});
const listener = (name: string, port: string, more: Record<string, RouterAttribute> = {}) =>
  entity('tcpListener', `${name}-listener`, { port, address: name, ...more });
const texts = (changes: readonly RouterChange[]) =>
  changes.map(({ operation, entity: { kind, name } }) => `${operation} ${kind} ${name}`);

/** An entity as a router shows it: with defaults, its own attributes and other spellings. */
const shown = ({ kind, name, attributes }: RouterEntity, more: Record<string, unknown> = {}): FoundEntity => ({
  ...{ kind, name },
  attributes: { ...attributes, ...more, name, identity: `${kind}/${name}`, type: `io.skupper.router.${kind}` },
});

describe('nothing is changed where', () => {
  const amqps = entity('listener', 'amqps', { port: 5_671, role: 'normal', authenticatePeer: true, sslProfile: 's' });
  test.each<[string, RouterEntity, FoundEntity]>([
    [
      'a router shows defaults that were not asked for',
      listener('a', '1'),
      shown(listener('a', '1'), { host: '', backlog: 0, observer: 'auto', authenticatePeer: false }),
    ],
    ['an older router has another default', listener('a', '1'), shown(listener('a', '1'), { host: '0.0.0.0' })],
    [
      'a router shows what it does',
      listener('a', '1'),
      shown(listener('a', '1'), { operStatus: 'down', connectionMsg: 'Address already in use', bytesIn: 5 }),
    ],
    ['a number comes back as text', amqps, shown(amqps, { port: '5671' })],
    ['an attribute comes back as nothing', amqps, shown(amqps, { linkCapacity: undefined, maxSessionFrames: null })],
  ])('%s', (_, wanted, found) => {
    expect(changesTo([found], [wanted])).toEqual([]);
  });
});

describe('a router that differs', () => {
  const profile = entity('sslProfile', 's', { caCertFile: '/ca.crt' });
  test.each<[string, FoundEntity[], RouterEntity[], string[]]>([
    [
      'gets what it lacks, profiles first and listeners of services last',
      [],
      [listener('a', '1'), entity('connector', 'up', { host: 'h', port: '1' }), profile],
      ['create sslProfile s', 'create connector up', 'create tcpListener a-listener'],
    ],
    [
      'loses what nobody wants, profiles last',
      [shown(profile), shown(listener('a', '1')), shown(entity('listener', 'l'))],
      [],
      ['delete tcpListener a-listener', 'delete listener l', 'delete sslProfile s'],
    ],
    ['has a profile updated', [shown(profile, { caCertFile: '/other' })], [profile], ['update sslProfile s']],
    [
      'has a profile made again when what differs cannot be updated',
      [shown(profile, { uidFormat: 'n' })],
      [profile],
      ['delete sslProfile s', 'create sslProfile s'],
    ],
    [
      'has a listener of a service made again',
      [shown(listener('a', '1'))],
      [listener('a', '2')],
      ['delete tcpListener a-listener', 'create tcpListener a-listener'],
    ],
    [
      'has the observer of a listener updated',
      [shown(listener('a', '1'), { observer: 'none' })],
      [listener('a', '1')],
      ['update tcpListener a-listener'],
    ],
    [
      'has an attribute taken away that somebody added',
      [shown(listener('a', '1'), { sslProfile: 's' })],
      [listener('a', '1')],
      ['delete tcpListener a-listener', 'create tcpListener a-listener'],
    ],
    [
      'frees the ports of two listeners before it uses them again',
      [shown(listener('a', '1')), shown(listener('b', '2'))],
      [listener('a', '2'), listener('b', '1')],
      [
        'delete tcpListener b-listener',
        'delete tcpListener a-listener',
        'create tcpListener a-listener',
        'create tcpListener b-listener',
      ],
    ],
    [
      'frees a name that an entity of another kind has',
      [shown(entity('connector', 'x', { host: 'h', port: '1' }))],
      [entity('listener', 'x', { port: 1 })],
      ['delete connector x', 'create listener x'],
    ],
    [
      'frees the name of a profile before another kind has it',
      [shown(entity('sslProfile', 'x'))],
      [entity('listener', 'x', { port: 1 })],
      ['delete sslProfile x', 'create listener x'],
    ],
  ])('%s', (_, found, wanted, expected) => {
    expect(texts(changesTo(found, wanted))).toEqual(expected);
  });
});

describe('of a router that is not ours alone', () => {
  test('bridges that nobody wants are deleted, and nothing else', () => {
    const found = [
      shown(listener('old', '1')),
      shown(entity('tcpConnector', 'old-connector', { port: '1', address: 'old' })),
      shown(entity('tcpListener', 'theirs', { port: '2', address: 'x' })),
      shown(entity('tcpConnector', 'x-listener', { port: '2', address: 'x' })),
      shown(entity('listener', 'their-listener', { port: 3 })),
      shown(entity('sslProfile', 'theirs-too')),
    ];
    expect(texts(changesTo(found, [], 'bridges'))).toEqual([
      'delete tcpListener old-listener',
      'delete tcpConnector old-connector',
    ]);
  });

  test('an entity with a name of ours is replaced', () => {
    const found = [shown(entity('connector', 'web-listener', { host: 'h', port: '1' }))];
    expect(texts(changesTo(found, [listener('web', '1')], 'bridges'))).toEqual([
      'delete connector web-listener',
      'create tcpListener web-listener',
    ]);
  });
});

test('pairs of a start, and those without a name, are no entities of the management', () => {
  const pairs = [
    ['router', { id: 'a' }],
    ['log', { module: 'SERVER' }],
    ['tcpListener', { port: '1', address: 'a' }],
    ['tcpListener', { name: 'a-listener', port: '1', address: 'a' }],
  ] as const;
  expect(managedEntities(pairs)).toEqual([listener('a', '1')]);
});

/** A router that carries out requests, and refuses those out of order. */
function carryOut(found: readonly FoundEntity[], changes: readonly RouterChange[]): FoundEntity[] {
  const present = new Map(found.map((one) => [one.name, one]));
  for (const { operation, entity: one } of changes) {
    const others = [...present.values()].filter(({ name }) => name !== one.name);
    if (operation === 'delete') {
      if (!present.delete(one.name)) throw new Error(`there is no ${one.name}`);
      continue;
    }
    if (present.has(one.name) !== (operation === 'update')) throw new Error(`${operation} of ${one.name}`);
    const { port, sslProfile } = one.attributes;
    if (
      one.kind === 'tcpListener' &&
      others.some(({ kind, attributes }) => kind === 'tcpListener' && attributes.port === port)
    )
      throw new Error(`the port of ${one.name} is taken`);
    if (sslProfile !== undefined && present.get(String(sslProfile))?.kind !== 'sslProfile')
      throw new Error(`${one.name} has no profile`);
    present.set(one.name, shown(one, { host: '', observer: 'auto' }));
  }
  return [...present.values()];
}

test.each(Array.from({ length: 30 }, (_, seed) => seed + 1))(
  'the requests lead from any entities to any others, each of them possible when its turn comes, seed %i',
  (seed) => {
    let state = seed * 40_503;
    const random = (below: number) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const some = (): RouterEntity[] => {
      const ports = Array.from({ length: 12 }, (_, i) => String(i + 1)).sort(() => random(3) - 1);
      const profiles = ['p', 'q']
        .filter(() => random(2) === 0)
        .map((name) => entity('sslProfile', name, { caCertFile: `/${random(2)}` }));
      const listeners = Array.from({ length: 8 }, (_, i) => i)
        .filter(() => random(2) === 0)
        .map((i) => {
          const profile = profiles[random(4)];
          return listener(`s${i}`, ports[i] as string, profile ? { sslProfile: profile.name } : {});
        });
      return [...listeners, ...profiles];
    };
    let found: FoundEntity[] = [];
    for (let step = 0; step < 20; step++) {
      const wanted = some();
      found = carryOut(found, changesTo(found, wanted));
      expect(changesTo(found, wanted)).toEqual([]);
      expect(found.map(({ name }) => name).sort()).toEqual(wanted.map(({ name }) => name).sort());
    }
  },
);
