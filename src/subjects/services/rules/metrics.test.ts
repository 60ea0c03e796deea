import { expect, test } from 'vitest';
import { defaultRouter, routerOfNode, serviceByReady, serviceListeners } from './metrics.ts';

// biome-ignore lint/suspicious/noExplicitAny: objects of four kinds
const having = (type: string, status: string, reason = 'X'): any => ({
  status: { conditions: [{ type, status, reason }] },
});

test.each([
  ['a node without a router', routerOfNode, {}, []],
  ['a node whose router has its configuration', routerOfNode, having('RouterReady', 'True'), [['current', 1]]],
  ['a node whose router lacks some', routerOfNode, having('RouterReady', 'False'), [['behind', 1]]],
  ['a silent node with a router', routerOfNode, having('RouterReady', 'Unknown'), [['unknown', 1]]],
  ['a default router that is ready', defaultRouter, having('Ready', 'True'), [['current', 1]]],
  ['a default router that nobody has looked at', defaultRouter, {}, [['behind', 1]]],
  ['a service that is refused', serviceByReady, having('Ready', 'False', 'RouterNone'), [['False RouterNone', 1]]],
  ['a service that nobody has looked at', serviceByReady, {}, [['Unknown Pending', 1]]],
  [
    'the listeners of a service',
    serviceListeners,
    { status: { listeners: { up: 2, of: 5 } } },
    [
      ['up', 2],
      ['down', 3],
    ],
  ],
] as const)('figures count %s', (_, amounts, object, expected) => {
  expect(amounts(object as never)).toEqual(expected);
});
