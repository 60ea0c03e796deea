import { describe, expect, test } from 'vitest';
import type { EdgeNode, EdgeNodeSpec } from '../../../api/v3/index.ts';
import { makeNode } from '../_make.ts';
import { concernsDownstream, upstreamsOf, upstreamVerdicts } from './upstreams.ts';

const node = (name: string, spec: EdgeNodeSpec = {}, metadata: Partial<EdgeNode['metadata']> = {}) =>
  makeNode({ spec: { uuid: `uuid-${name}`, ...spec }, name, uid: name, ...metadata });
const NODES = [
  node('core', { routerMode: 'interior', busMode: 'server' }),
  node('edge', { routerMode: 'edge', busMode: 'leaf' }),
  node('plain'),
  node('off', { routerMode: 'none' }),
  node('going', { routerMode: 'interior' }, { deletionTimestamp: '2026-01-01T00:00:00Z' }),
];
const lookups = {
  nodeByName: (name: string) => NODES.find(({ metadata }) => metadata.name === name),
  nodeByUuid: (uuid: string) => NODES.find(({ spec }) => spec.uuid === uuid),
};
const judge = (spec: EdgeNodeSpec, before?: EdgeNodeSpec) =>
  upstreamVerdicts(node('one', spec), lookups, before && node('one', before));

describe('what a node connects to', () => {
  test.each<[string, EdgeNodeSpec]>([
    ['an interior router, by name and by uuid', { upstreamRouters: ['core', 'uuid-core'] }],
    ['the router of the control plane', { upstreamRouters: ['default-router'], networkRouter: 'default-router' }],
    ['the hub of the control plane', { upstreamBusServers: ['default-bus-hub'] }],
    ['a bus server', { upstreamBusServers: ['core'] }],
    ['any router, without one of its own', { routerMode: 'none', networkRouter: 'plain' }],
    ['nothing', { upstreamRouters: [], networkRouter: '' }],
  ])('may be %s', (_, spec) => expect(judge(spec)).toEqual([]));

  test.each<[string, EdgeNodeSpec, object]>([
    [
      'a router that does not exist',
      { upstreamRouters: ['core', 'nowhere'] },
      { reason: 'NodeNotFound', status: 404, message: 'upstreamRouters: there is no node "nowhere"' },
    ],
    ['a node that is being deleted', { upstreamRouters: ['going'] }, { reason: 'NodeNotFound', status: 404 }],
    [
      'an edge router as upstream',
      { upstreamRouters: ['edge'] },
      {
        reason: 'RouterWrongMode',
        status: 400,
        code: 'INVALID_ROUTER',
        message: 'upstreamRouters: the router of "edge" is of mode edge; others connect to those of mode interior',
      },
    ],
    ['a node without a router', { networkRouter: 'off' }, { reason: 'RouterWrongMode', field: 'networkRouter' }],
    [
      'a bus server that does not exist',
      { upstreamBusServers: ['core-2'] },
      { status: 404, code: 'INVALID_BUS_SERVER' },
    ],
    ['a leaf as bus server', { upstreamBusServers: ['edge'] }, { reason: 'BusServerWrongMode', status: 400 }],
  ])('is not %s', (_, spec, expected) => {
    expect(judge(spec)).toMatchObject([expected]);
  });

  test('is not the node itself', () => {
    expect(upstreamVerdicts(node('core', { upstreamRouters: ['uuid-core'] }), lookups)).toMatchObject([
      { status: 400, message: 'upstreamRouters: "uuid-core" is this node, which cannot connect to itself' },
    ]);
  });

  test('is judged in every field, and a write only for what it adds', () => {
    const wrong = { upstreamRouters: ['edge'], networkRouter: 'nowhere', upstreamBusServers: ['nowhere'] };
    expect(judge(wrong).map(({ field }) => field)).toEqual(['upstreamRouters', 'networkRouter', 'upstreamBusServers']);
    expect(judge(wrong, wrong)).toEqual([]);
    expect(judge({ upstreamRouters: ['edge', 'plain'] }, wrong).map(({ message }) => message)).toEqual([
      expect.stringContaining('"plain"'),
    ]);
  });
});

test('a node is found by everything that it names', () => {
  const spec = {
    upstreamRouters: ['core', 'default-router'],
    networkRouter: 'plain',
    upstreamBusServers: ['core', 'b'],
  };
  expect([...upstreamsOf(spec)]).toEqual(['core', 'plain', 'b']);
});

test.each<[string, EdgeNode, boolean]>([
  ['a description', node('core', { routerMode: 'interior', busMode: 'server', description: 'x' }), false],
  ['another router mode', node('core', { routerMode: 'edge', busMode: 'server' }), true],
  ['another bus mode', node('core', { routerMode: 'interior' }), true],
  ['its deletion', node('core', { routerMode: 'interior', busMode: 'server' }, { deletionTimestamp: 'x' }), true],
])('of the changes of a node, %s concerns those that name it: %#', (_, after, expected) => {
  expect(concernsDownstream(after, NODES[0] as EdgeNode)).toBe(expected);
});
