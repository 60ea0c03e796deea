import { expect, test } from 'vitest';
import { makeService } from '../_shapes.ts';
import { routerConfigText } from './config.ts';
import { routerHubPairs } from './hub-objects.ts';
import { HUB_ROOM, withinRoom } from './hub-room.ts';

const HUB = { metadata: { name: 'default-router' }, spec: {} } as never;
const services = (count: number) =>
  Array.from({ length: count }, (_, i) =>
    makeService(`${'s'.repeat(57)}${i}`, {
      ...{ type: 'external', resource: `${'h'.repeat(240)}.example`, bridgePort: 10_024 + i },
      since: String(i).padStart(9, '0'),
    }),
  );

test('the default router has the oldest services that a ConfigMap has room for, and all where they are few', () => {
  const few = services(100);
  expect(withinRoom(few)).toEqual({ services: few, leftOut: new Set() });
  const many = services(3_000);
  const { services: kept, leftOut } = withinRoom(many.toReversed());
  expect(kept.length + leftOut.size).toBe(many.length);
  expect(kept).toEqual(many.slice(0, kept.length));
  const bytes = Buffer.byteLength(routerConfigText(routerHubPairs(HUB, 'skerry', kept)));
  expect(bytes).toBeLessThan(HUB_ROOM + 4_096);
  expect(bytes).toBeGreaterThan(HUB_ROOM * 0.9);
});
