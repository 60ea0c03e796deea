import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../hack/ports.ts';
import {
  type ControllerProcess,
  createStack,
  get,
  readyOf,
  type Stack,
  until,
  untilReady,
  webApplication,
} from './_stack.ts';

/** Two replicas of the controller: one reconciles, both serve; when the leader dies, the other one reconciles. */
let stack: Stack;
const replicas: Record<string, ControllerProcess> = {};

interface Lease {
  spec?: { holderIdentity?: string };
}
const leaderName = async () =>
  (await stack.kube.get<Lease>(`/apis/coordination.k8s.io/v1/namespaces/${stack.namespace}/leases/skerry-controller`))
    ?.spec?.holderIdentity;

beforeAll(async () => {
  stack = await createStack();
  for (const name of ['a', 'b']) replicas[name] = await stack.startController({ env: { CONTROLLER_NAME: name } });
}, 240_000);
afterAll(() => stack?.[Symbol.asyncDispose](), 60_000);

test('a report sent to the replica that does not lead reaches the status, and after the leader is killed the other replica reconciles', async () => {
  const leader = (await until('a leader', leaderName)) as 'a' | 'b';
  const follower = leader === 'a' ? 'b' : 'a';
  const serving = replicas[follower] as ControllerProcess;
  await stack.startAgent('gw-2', serving);

  const port = await freePort();
  await stack.apply(webApplication('before', 'gw-2', await stack.image('r1', { GREETING: 'r1' }), port));
  await untilReady(stack, 'before');
  expect(await get(`http://127.0.0.1:${port}/`)).toBe('r1\n');
  // Live values come from the leader, whichever replica is asked.
  for (const replica of Object.values(replicas)) {
    const uuid = (await stack.node('gw-2'))?.status?.uuid;
    const { status, body } = await stack.rest(replica)('GET', `/node/${uuid}`);
    expect({ status, daemonStatus: body.daemonStatus }).toEqual({ status: 200, daemonStatus: 'RUNNING' });
  }

  await replicas[leader]?.kill();
  await stack.apply(webApplication('before', 'gw-2', await stack.image('r2', { GREETING: 'r2' }), port));
  // The change is sent to agents at once: that needs no leader.
  await until(
    'the new image to answer while nobody leads',
    async () => (await get(`http://127.0.0.1:${port}/`)) === 'r2\n',
  );
  await until('the other replica to lead', async () => (await leaderName()) === follower);
  await untilReady(stack, 'before', 90_000);
  expect(readyOf(await stack.node('gw-2'))?.status).toBe('True');
}, 240_000);
