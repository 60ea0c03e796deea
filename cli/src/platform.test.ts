import { expect, test } from 'vitest';
import { STATUS_REASONS, VERDICT_REASONS } from '../../src/api/conditions.ts';
import type { KubeClient } from '../../src/kube/mod.ts';
import { PART_CONDITIONS } from '../../src/rules/part.ts';
import { KINDS } from '../../src/subjects/kinds.ts';
import { storedNode } from '../../testing/stored.ts';
import { createPlugin } from './_plugin.ts';
import { platformTodos } from './objects/platform.ts';

/** What the plugin says of the platform of a node. */
const condition = (type: string, status: string, reason: string, message = '') => ({
  ...{ type, status, reason, message, lastTransitionTime: '2026-05-01T12:00:00Z' },
});
const node = (name: string, phase: string, conditions: ReturnType<typeof condition>[], lastError?: string) => ({
  ...storedNode(name),
  status: { platformStatus: { phase, ...(lastError && { lastError }) }, conditions },
});
const TAKEN = 'the microservice "router": the port 5671/tcp is held by shop/web';
const NODES = [
  node(
    'gw-1',
    'Failed',
    [condition('CertificatesReady', 'True', 'OnMachine'), condition('RouterReady', 'False', 'PortTaken', TAKEN)],
    TAKEN,
  ),
  node('gw-2', 'Ready', [condition('CertificatesReady', 'True', 'OnMachine')]),
  node('gw-3', 'Ready', []),
];
const PLURALS = Object.values(KINDS).map(({ definition }) => ({ name: definition.plural }));
const plugin = (nodes: readonly object[]) => {
  const client = {
    list: async ({ plural }: { plural: string }) => ({ items: plural === 'edgenodes' ? nodes : [], metadata: {} }),
    find: async (_: object, { name }: { name: string }) =>
      nodes.find((one) => (one as (typeof NODES)[number]).metadata.name === name),
    request: async () => ({ gitVersion: 'v1.36.3', minor: '36', resources: PLURALS }),
  } as unknown as KubeClient;
  return createPlugin(client, 'skerry');
};
const skerry = plugin(NODES);

test('describe node has the phase of the platform with its cause, and what to do about each part', async () => {
  const { out } = await skerry('describe', 'node', 'gw-1');
  expect(out).toMatch(new RegExp(`^Platform: +Failed: ${TAKEN}$`, 'm'));
  expect(out).toMatch(/Next steps:\n +CONDITION +WHAT TO DO\n +RouterReady +Give the port up in the microservice/);
  expect((await skerry('describe', 'node', 'gw-2')).out).toMatch(/^Platform: +Ready$/m);
  expect((await skerry('describe', 'node', 'gw-3')).out).not.toMatch(/Platform|Next steps/);
});

test('the doctor counts platforms, and names those that need a change', async () => {
  expect((await skerry('doctor')).out).toMatch(/WARNING +platforms +of 2 nodes, 1 failed: gw-1\n.*describe node NAME/);
  expect((await plugin(NODES.slice(1))('doctor')).out).toMatch(/ok +platforms +of 1 node, none failed/);
});

test('get nodes -o wide has the phase of the platform', async () => {
  expect((await skerry('get', 'nodes', '-o', 'wide')).out).toMatch(/PLATFORM[^\n]*\n(.*\n)?gw-1 .*Failed/);
});

test('every reason that a part may have leads to a step that names what to do', () => {
  const reasons = [
    ...['AuthorityNotReady', 'CertificateExpired', 'NotProvisioned', 'NodeUnreachable', 'FilesPending', 'FilesFailed'],
    ...['NameTaken', 'PortTaken', 'PolicyRefused', 'ImageMissing'],
  ];
  for (const reason of reasons) {
    expect({ ...STATUS_REASONS, ...VERDICT_REASONS }).toHaveProperty(reason);
    const of = node(
      'gw-1',
      'Failed',
      PART_CONDITIONS.map((type) => condition(type, 'False', reason)),
    );
    const todos = platformTodos(of as never);
    expect(todos.map((one) => one.condition)).toEqual([...PART_CONDITIONS]);
    for (const { todo } of todos) expect(todo, reason).not.toBe('See its message.');
  }
});
