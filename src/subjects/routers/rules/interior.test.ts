import { expect, test } from 'vitest';
import { withoutRoom } from './interior.ts';

const router = (uuid: string, creationTimestamp: string, more: { isSystem?: boolean; isThere?: boolean } = {}) => ({
  ...{ uuid, isSystem: false, isThere: false, of: { metadata: { name: uuid, uid: uuid, creationTimestamp } } },
  ...more,
});
const ALL = [
  router('young', '2026-03-01T00:00:00Z'),
  router('old', '2026-01-01T00:00:00Z'),
  router('there', '2026-04-01T00:00:00Z', { isThere: true }),
  router('system', '2026-05-01T00:00:00Z', { isSystem: true }),
];

test.each([
  [4, []],
  [3, ['young']],
  [2, ['old', 'young']],
  [1, ['old', 'there', 'young']],
  [0, ['old', 'system', 'there', 'young']],
])(
  'with room for %i interior routers, routers of the system come first, then routers that are there, then the oldest: %j have none',
  (room, leftOut) => {
    expect([...withoutRoom(ALL, room)].sort()).toEqual(leftOut);
  },
);
