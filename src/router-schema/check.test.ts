import { describe, expect, test } from 'vitest';
import { attributeProblems, configProblems, startProblems } from './check.ts';
import { ROUTER_SCHEMA, typeOfKind } from './schema.ts';

const ROUTER = ['router', { id: 'hub', mode: 'interior' }];
const problemsOf = (...pairs: unknown[]) => configProblems([ROUTER, ...pairs]);

describe('a configuration of a router', () => {
  test.each<[string, unknown[]]>([
    ['of a router alone', []],
    [
      'with numbers as texts and texts as numbers',
      [['listener', { name: 'a', port: 5_671, cost: '2', authenticatePeer: 'yes' }]],
    ],
    [
      'with two listeners at one port of different addresses',
      [
        ['listener', { name: 'a', port: 1_000, host: '127.0.0.1' }],
        ['listener', { name: 'b', port: 1_000, host: '192.0.2.1' }],
      ],
    ],
    [
      'with a profile that listeners refer to',
      [
        ['sslProfile', { name: 's' }],
        ['listener', { name: 'a', sslProfile: 's' }],
      ],
    ],
    [
      'with entities that have no names',
      [
        ['address', { prefix: 'a' }],
        ['address', { prefix: 'b' }],
      ],
    ],
  ])('%s is right', (_, pairs) => {
    expect(problemsOf(...pairs)).toEqual([]);
  });

  test.each<[string, unknown[], string]>([
    ['that is no list', [['x']], 'pair 1 is no [entity, attributes]'],
    ['with an entity that does not exist', [['bridge', {}]], 'pair 1: there is no entity "bridge"'],
    [
      'with an attribute that does not exist',
      [['listener', { name: 'a', routeContainer: true }]],
      'listener "a": there is no attribute "routeContainer"',
    ],
    [
      'with an attribute that objects inherit',
      [['listener', { name: 'a', constructor: 1 }]],
      'listener "a": there is no attribute "constructor"',
    ],
    [
      'with an attribute that is the router’s own',
      [['tcpListener', { name: 'a', port: '1', address: 'a', operStatus: 'up' }]],
      'tcpListener "a": the attribute operStatus is the router\'s own',
    ],
    [
      'with a value of another type',
      [['listener', { name: 'a', cost: 'much' }]],
      'listener "a": cost: "much" is not a whole number',
    ],
    ['with a fraction', [['listener', { name: 'a', cost: 1.5 }]], 'listener "a": cost: "1.5" is not a whole number'],
    [
      'with a text where a flag is',
      [['listener', { name: 'a', http: 'maybe' }]],
      'listener "a": http: "maybe" is not true or false',
    ],
    [
      'with a value outside of its list',
      [['listener', { name: 'a', role: 'hub' }]],
      'listener "a": role: "hub" is not one of normal, inter-router, route-container, edge, inter-edge',
    ],
    [
      'with two entities of one name',
      [
        ['sslProfile', { name: 'a' }],
        ['listener', { name: 'a' }],
      ],
      'listener "a": sslProfile "a" has the same name',
    ],
    [
      'with a profile that does not exist',
      [['listener', { name: 'a', sslProfile: 's' }]],
      'listener "a": there is no sslProfile "s"',
    ],
    [
      'with a reference to another kind',
      [
        ['connector', { name: 's', port: '1' }],
        ['listener', { name: 'a', sslProfile: 's' }],
      ],
      'listener "a": there is no sslProfile "s"',
    ],
    [
      'with a port twice',
      [
        ['tcpListener', { name: 'a', port: '1000', address: 'a' }],
        ['listener', { name: 'b', port: 1_000 }],
      ],
      'listener "b": port 1000 is the port of tcpListener "a"',
    ],
    [
      'with a port twice, once by its name',
      [
        ['listener', { name: 'a', port: 'amqps' }],
        ['listener', { name: 'b', port: 5_671 }],
      ],
      'listener "b": port 5671 is the port of listener "a"',
    ],
    [
      'with a port twice, once of one address',
      [
        ['listener', { name: 'a', port: 1_000 }],
        ['listener', { name: 'b', port: 1_000, host: '127.0.0.1' }],
      ],
      'listener "b": port 1000 is the port of listener "a"',
    ],
    [
      'with no port',
      [['tcpConnector', { name: 'a', address: 'a' }]],
      'tcpConnector "a": address and port are required',
    ],
    [
      'with a port that is none',
      [['tcpListener', { name: 'a', port: '70000', address: 'a' }]],
      'tcpListener "a": port: "70000" is no port from 1 to 65535',
    ],
    ['with two routers', [['router', { id: 'b' }]], 'there are several pairs router'],
    [
      'with a module that routers do not have',
      [['log', { module: 'NOPE', enable: 'error+' }]],
      'is not one of ROUTER,',
    ],
    ['without what is required', [['autoLink', { address: 'a' }]], 'pair 1 (autoLink): direction is required'],
  ])('%s is refused by name, attribute and what would be right', (_, pairs, problem) => {
    expect(problemsOf(...pairs)).toEqual([expect.stringContaining(problem)]);
  });

  test.each<[string, string, unknown[], string]>([
    [
      'inter-router',
      'edge',
      ['connector', { name: 'a', role: 'inter-router' }],
      'role inter-router needs a router of mode interior',
    ],
    ['edge', 'edge', ['listener', { name: 'a', role: 'edge' }], 'role edge needs a router of mode interior'],
    [
      'edge',
      'standalone',
      ['connector', { name: 'a', role: 'edge' }],
      'role edge needs a router of mode interior or edge',
    ],
  ])('with the role %s in a router of mode %s is refused', (_, mode, pair, problem) => {
    expect(configProblems([['router', { id: 'a', mode }], pair])).toEqual([expect.stringContaining(problem)]);
  });

  test.each(['a b', 'a|b', 'a$b', 'a\tb'])('with the router id %j is refused', (id) => {
    expect(configProblems([['router', { id }]])).toEqual([
      expect.stringContaining('has white space, a control character, | or $'),
    ]);
  });

  test('without a router is refused, and so is anything but a list', () => {
    expect(configProblems([])).toEqual(['there is no pair router']);
    for (const text of [undefined, null, {}, 'x']) expect(configProblems(text)).toHaveLength(1);
  });

  test('with a port twice lets a router start, which then does not listen there', () => {
    const twice = [ROUTER, ['listener', { name: 'a', port: 1_000 }], ['listener', { name: 'b', port: 1_000 }]];
    expect(startProblems(twice)).toEqual([]);
    expect(configProblems(twice)).toHaveLength(1);
  });
});

describe('a request', () => {
  test('changes what can be changed, and nothing else', () => {
    expect(attributeProblems('sslProfile', { ordinal: 2 }, 'update')).toEqual([]);
    expect(attributeProblems('tcpListener', { port: '1' }, 'update')).toEqual(['the attribute port cannot be changed']);
    expect(attributeProblems('tcpListener', { nope: '1' }, 'update')).toEqual(['there is no attribute "nope"']);
  });

  test('about a profile keeps the order of its ordinals', () => {
    expect(attributeProblems('sslProfile', { ordinal: 1, oldestValidOrdinal: 2 }, 'create')).toHaveLength(1);
  });
});

test('each entity has the name that management knows', () => {
  expect(typeOfKind('tcpListener')).toBe('io.skupper.router.tcpListener');
  expect(typeOfKind('address')).toBe('io.skupper.router.router.config.address');
  expect(Object.keys(ROUTER_SCHEMA)).toHaveLength(12);
});
