import { expect, test } from 'vitest';
import { createTestAgent, runAgent } from '../_agent.ts';
import { until } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { makeView } from '../supervise/plan/_util.ts';

test('the view of a microservice that waits for its image is the view that was deployed', async () => {
  const agent = createTestAgent({ folder: '/nowhere', engine: () => new MemoryEngine() });
  const end = runAgent(agent);
  try {
    await until('a look', () => agent.supervisor.hasLooked);
    const view = (uuid: string) => makeView({ uuid, application: 'skerry-agent', name: 'web', config: '{"speed":3}' });
    const { row } = agent.own.deploy({ name: 'web', view, manifest: '' });
    expect(agent.view(row.uuid)).toMatchObject({ name: 'web', config: '{"speed":3}' });
    expect(agent.view('nobody')).toBeUndefined();
  } finally {
    await end();
  }
});
