import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../hack/ports.ts';
import {
  type ControllerProcess,
  createWorld,
  get,
  readyOf,
  until,
  untilReady,
  type World,
  webApplication,
} from './_world.ts';

/** Two replicas of the controller: one reconciles, both serve; when the leader dies, reconcile goes on. */
let world: World;
const replicas: Record<string, ControllerProcess> = {};

interface Lease {
  spec?: { holderIdentity?: string };
}
const leaderName = async () =>
  (await world.kube.get<Lease>(`/apis/coordination.k8s.io/v1/namespaces/${world.namespace}/leases/skerry-controller`))
    ?.spec?.holderIdentity;

beforeAll(async () => {
  world = await createWorld();
  for (const name of ['a', 'b']) replicas[name] = await world.startController({ env: { CONTROLLER_NAME: name } });
}, 240_000);
afterAll(() => world?.[Symbol.asyncDispose](), 60_000);

test('an agent of the replica that does not lead is seen; after the leader was killed the other goes on', async () => {
  const leader = (await until('a leader', leaderName)) as 'a' | 'b';
  const follower = leader === 'a' ? 'b' : 'a';
  const serving = replicas[follower] as ControllerProcess;
  await world.startAgent('gw-2', serving);

  const port = await freePort();
  await world.apply(webApplication('before', 'gw-2', await world.image('r1', { GREETING: 'r1' }), port));
  await untilReady(world, 'before');
  expect(await get(`http://127.0.0.1:${port}/`)).toBe('r1\n');
  // Live values come from the leader, whichever replica is asked.
  for (const replica of Object.values(replicas)) {
    const uuid = (await world.node('gw-2'))?.status?.uuid;
    const { status, body } = await world.rest(replica)('GET', `/node/${uuid}`);
    expect({ status, daemonStatus: body.daemonStatus }).toEqual({ status: 200, daemonStatus: 'RUNNING' });
  }

  await replicas[leader]?.kill();
  await world.apply(webApplication('before', 'gw-2', await world.image('r2', { GREETING: 'r2' }), port));
  // Agents are told at once: that needs no leader.
  await until(
    'the new image to answer while nobody leads',
    async () => (await get(`http://127.0.0.1:${port}/`)) === 'r2\n',
  );
  await until('the other replica to lead', async () => (await leaderName()) === follower);
  await untilReady(world, 'before', 90_000);
  expect(readyOf(await world.node('gw-2'))?.status).toBe('True');
}, 240_000);
