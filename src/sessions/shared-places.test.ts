import { expect, onTestFinished, test } from 'vitest';
import { createVirtualClock } from '../kube/_util.ts';
import { silentLog } from '../lib/log.ts';
import { PLACE_TIMES } from './leader-places.ts';
import type { SessionTarget } from './rules/session.ts';
import { createSharedPlaces } from './shared-places.ts';

const EXEC: SessionTarget = { kind: 'exec', node: 'n', microservice: 'm' };

/** A replica and its leader, which can be cut off from each other. */
async function startTwo() {
  const clock = createVirtualClock();
  const given = { clock, log: silentLog, random: () => 0 };
  const leader = createSharedPlaces({ ...given, leadership: { isLeading: true, leaderAddress: undefined } });
  const replica = createSharedPlaces({ ...given, leadership: { isLeading: false, leaderAddress: '192.0.2.1:1' } });
  let isCut = false;
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const call = async <T>(path: string, body: unknown) => {
    if (isCut) throw new Error('the leader does not answer');
    // As over the network.
    const answer = await leader.handlers[path]?.(JSON.parse(JSON.stringify(body)));
    return answer as T;
  };
  void leader.run({ call, address: '192.0.2.1:1' }, stop.signal);
  void replica.run({ call, address: '192.0.2.2:1' }, stop.signal);
  await clock.advance(2 * PLACE_TIMES.settle);
  const cut = (value: boolean) => {
    isCut = value;
  };
  return { clock, leader, replica, cut };
}

test('a replica that could not reach its leader is heard again, however many users were refused meanwhile', async () => {
  const { clock, leader, replica, cut } = await startTwo();
  cut(true);
  for (let i = 0; i < 10_500; i++) await expect(replica.take(EXEC)).rejects.toMatchObject({ status: 503 });
  cut(false);
  await clock.advance(PLACE_TIMES.hold);
  replica.put({ id: 's', target: EXEC, phase: 'pending', attempt: 1 });
  await clock.advance(PLACE_TIMES.hold);
  expect(leader.lists('n').exec).toMatchObject([{ sessionId: 's' }]);
});
