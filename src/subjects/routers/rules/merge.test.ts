import { describe, expect, test } from 'vitest';
import type { RouterPair } from '../../../wire/router.ts';
import { SHAPES } from '../_shapes.ts';
import { type RouterConfigInput, routerConfigText, routerPairs } from './config.ts';
import { mergePairs } from './merge.ts';

const own = routerPairs(SHAPES['hub-with-services'] as RouterConfigInput);
const foreign: RouterPair[] = [
  ['listener', { name: 'mine', port: 5_680, host: '127.0.0.1' }],
  ['tcpListener', { name: 'old-way', port: '9999', address: 'old-way' }],
  ['address', { prefix: 'queue', distribution: 'balanced' }],
  ['log', { module: 'SERVER', enable: 'warning+' }],
];

describe('the configuration of the hub', () => {
  test('is ours where there is none', () => {
    expect(mergePairs(undefined, own)).toEqual({ text: routerConfigText(own), pairs: own, leftOut: [] });
  });

  test('keeps the pairs of others, and is the same text when nothing changes', () => {
    const merged = mergePairs(routerConfigText([...foreign, ...own]), own);
    expect(merged).toMatchObject({ text: routerConfigText([...foreign, ...own]), leftOut: [] });
    expect(merged.pairs).toEqual([...own, ...foreign]);
    expect(mergePairs(merged.text, own).text).toBe(merged.text);
  });

  test('is the same text however it is spaced and ordered', () => {
    const text = JSON.stringify(
      [...own, ...foreign].toReversed().map(([kind, of]) => [kind, Object.fromEntries(Object.entries(of).reverse())]),
      null,
      4,
    );
    expect(mergePairs(text, own).text).toBe(text);
  });

  test('loses the bridges of services that ended, and has those that are new', () => {
    const former: RouterPair[] = [
      ['tcpListener', { name: 'gone-listener', port: '10100', address: 'gone' }],
      ['tcpConnector', { name: 'gone-connector', host: 'x', port: '1', address: 'gone', processId: 'x' }],
    ];
    const { pairs } = mergePairs(routerConfigText([...own.slice(0, -1), ...former, ...foreign]), own);
    expect(pairs).toEqual([...own, ...foreign]);
  });

  test('has our pairs as they are to be when somebody has edited them', () => {
    const edited = own.map(
      ([kind, of]): RouterPair => [kind, kind === 'listener' ? { ...of, authenticatePeer: false } : of],
    );
    expect(mergePairs(routerConfigText(edited), own).pairs).toEqual(own);
  });

  test.each<[string, RouterPair, string]>([
    [
      'an attribute that routers do not have',
      ['listener', { name: 'x', port: 1_234, routeContainer: true }],
      'there is no attribute "routeContainer"',
    ],
    [
      'a port of ours',
      ['tcpListener', { name: 'x', port: '10024', address: 'x' }],
      'port 10024 is the port of tcpListener "web-listener"',
    ],
    [
      'a profile that does not exist',
      ['listener', { name: 'x', port: 1_234, sslProfile: 'nix' }],
      'there is no sslProfile "nix"',
    ],
    ['a name of ours under another kind', ['connector', { name: 'amqps', port: '1' }], 'has the same name'],
  ])('leaves out a pair of somebody with %s, says why, and keeps the others', (_, pair, why) => {
    const merged = mergePairs(routerConfigText([...own, pair, ...foreign]), own);
    expect(merged.leftOut).toEqual([expect.stringContaining(why)]);
    expect(merged.pairs).toEqual([...own, ...foreign]);
  });

  test.each(['', 'no JSON', '{"a":1}', '[["router"]]', '[1]', 'null'])(
    'replaces %j, which is no list of pairs',
    (text) => {
      expect(mergePairs(text, own)).toEqual({
        text: routerConfigText(own),
        pairs: own,
        leftOut: ['it was no list of pairs, and was replaced'],
      });
    },
  );

  test('keeps no more than 256 pairs of others', () => {
    const many = Array.from({ length: 257 }, (_, i): RouterPair => ['address', { prefix: `p${i}` }]);
    expect(mergePairs(routerConfigText([...own, ...many]), own)).toMatchObject({
      pairs: own,
      leftOut: [expect.stringContaining('256')],
    });
  });
});
