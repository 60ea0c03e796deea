import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { createLeaderKills } from '../../../../testing/leader-kills.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { ECHO } from '../_make.ts';
import { PARTS } from '../rules/parts.ts';
import { platformSecretName } from '../rules/secret.ts';

/** A leader that is killed before or after each of its writes, while a platform is made, changed and deleted. */
let fleet: InMemoryController;
let kills: ReturnType<typeof createLeaderKills>;
beforeAll(async () => {
  fleet = await startInMemoryController(1, { parts: [...PARTS, ECHO] });
  const resources = new Set(['secrets', 'applications', 'certificateauthorities']);
  kills = createLeaderKills(fleet, { resources, deletedByLeader: resources });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

const NAME = 'gateway-9';
const node = () => fleet.stores.nodes.get(NAMESPACE, NAME);
const application = () => fleet.stores.applications.get(NAMESPACE, `system-${NAME}`);

/** What the platform of the node lacks with these sets and this port of its microservice. */
function wrongs(uuid: string, sets: number, port: number | undefined): string[] {
  const state = fleet.desired(uuid);
  const found = application()?.spec.microservices ?? [];
  const external = found[0]?.container?.ports?.[0]?.external;
  return [
    ...(state?.systemFiles.length === sets ? [] : [`${state?.systemFiles.length} of ${sets} sets`]),
    ...(external === port ? [] : [`port ${external} instead of ${port}`]),
    ...(found.length <= 1 ? [] : [`${found.length} microservices`]),
  ];
}

async function story(): Promise<string[]> {
  const amiss: string[] = [];
  const user = async (method: string, path: string, body?: object) => {
    const { status, body: reply } = await fleet.request(method, path, { token: 'admin', body });
    if (status >= 300) amiss.push(`${method} ${path}: ${status}`);
    await kills.settled();
    return reply;
  };
  await user('POST', '/node', { name: NAME, archId: 1, routerMode: 'edge', host: 'gw.example', tags: ['echo'] });
  const uuid = nodeUuid(node() as EdgeNode);
  const path = `/node/${uuid}`;
  amiss.push(...wrongs(uuid, 3, 5671).map((one) => `made: ${one}`));
  await user('PATCH', path, { host: 'gw-2.example', messagingPort: 5699, busMode: 'leaf' });
  amiss.push(...wrongs(uuid, 5, 5699).map((one) => `changed: ${one}`));
  await user('PATCH', path, { tags: [], busMode: 'none' });
  amiss.push(...wrongs(uuid, 3, undefined).map((one) => `part removed: ${one}`));
  await user('PATCH', path, { tags: ['echo'] });
  await user('DELETE', path);
  for (const left of [node(), application(), fleet.stores.secrets.get(NAMESPACE, platformSecretName(uuid))])
    if (left) amiss.push(`${left.kind} ${left.metadata.name} outlived the node`);
  return amiss;
}

test('a leader that is killed before or after any write of a platform leaves the node with what it wants, and nothing after its deletion', async () => {
  const { writes, found } = await kills.everyKill(story);
  expect(found).toEqual([]);
  expect(writes.length).toBeGreaterThan(8);
}, 300_000);
