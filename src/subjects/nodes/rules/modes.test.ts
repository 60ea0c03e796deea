import { describe, expect, test } from 'vitest';
import { platformFacts } from '../../../rules/part.ts';
import { makeNode } from '../_make.ts';
import { modesOf } from './modes.ts';

const NOTHING = { hasDefaultRouter: false, isBusEnabled: false };

describe('the modes that a node acts in', () => {
  test.each([
    ['absent settings start nothing', {}, NOTHING, 'none', 'none'],
    [
      'an absent router mode is edge where a default router exists',
      {},
      { ...NOTHING, hasDefaultRouter: true },
      'edge',
      'none',
    ],
    ['an absent bus mode is leaf where the bus is on', {}, { ...NOTHING, isBusEnabled: true }, 'none', 'leaf'],
    ['a node of the system is the hub of both', { isSystem: true }, NOTHING, 'interior', 'server'],
    [
      'a node of the system with other modes from kubectl is the hub of both',
      { isSystem: true, routerMode: 'edge', busMode: 'none' },
      NOTHING,
      'interior',
      'server',
    ],
    [
      'a mode that is set counts',
      { routerMode: 'interior', busMode: 'none' },
      { hasDefaultRouter: true, isBusEnabled: true },
      'interior',
      'none',
    ],
  ] as const)('%s', (_, spec, facts, router, bus) => {
    expect(modesOf(makeNode({ spec }), facts)).toEqual({ router, bus });
  });
});

test.each([
  ['remote', true, true],
  ['kubernetes', false, false],
])('a node of the system makes a default router on the control plane %s alone', (_, isRemote, hasDefaultRouter) => {
  const facts = platformFacts({ parts: [], isBusEnabled: false, isRemote }, { hasSystemNode: () => true });
  expect(facts.hasDefaultRouter).toBe(hasDefaultRouter);
});
