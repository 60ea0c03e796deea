import { describe, expect, test } from 'vitest';
import { type EdgeNode, type EdgeNodeStatus, edgeNodeStatusSchema } from '../../../api/v3/edge-node.ts';
import { makeNode } from '../_make.ts';
import { desiredFrom, isContentAlike, isSeenAlike, isWorkedFromAlike } from './status-change.ts';

const MEMBERS = Object.keys(edgeNodeStatusSchema.shape) as (keyof EdgeNodeStatus)[];
const withStatus = (status: object) =>
  ({ ...makeNode(), status: { observedGeneration: 1, ...status } }) as unknown as EdgeNode;
/** Two nodes that differ in one member of the status. Artifacts are lists of items with a uuid. */
const differingIn = (member: string) => {
  const value = (n: number) => (['models', 'knowledge'].includes(member) ? [{ uuid: `u${n}` }] : n);
  return [withStatus({ [member]: value(1) }), withStatus({ [member]: value(2) })] as const;
};
const isRead = (member: keyof EdgeNodeStatus) => member in (desiredFrom(withStatus({ [member]: 1 })).status ?? {});

describe.each(MEMBERS)('the member %s of the status of a node', (member) => {
  test('is compared when desired states can read it, and cannot be read when it is not compared', () => {
    const [a, b] = differingIn(member);
    const isCompared = !isWorkedFromAlike(a, b);
    expect(isCompared).toBe(isRead(member) && member !== 'observedGeneration');
    if (isCompared) expect(isSeenAlike(a, b)).toBe(false);
  });
});

test('progress of microservices and volume mounts is no content', () => {
  const content = MEMBERS.filter((member) => !isContentAlike(...differingIn(member)));
  expect(content.sort()).toEqual([
    'actions',
    'archId',
    'availableRuntimes',
    'config',
    'containerEngine',
    'ipAddress',
    'tunnel',
    'update',
    // The uuid of a spec without one is the recorded one.
    ...MEMBERS.filter((member) => member === 'uuid' && !isContentAlike(...differingIn('uuid'))),
  ]);
});

test('the same node gives the same object', () => {
  const node = withStatus({ version: '1' });
  expect(desiredFrom(node)).toBe(desiredFrom(node));
  expect(desiredFrom(node).status).toEqual({ observedGeneration: 1 });
});
