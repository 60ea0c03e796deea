import { waitFor } from '../../hack/wait.ts';
import { type Benchmark, by } from '../benchmark.ts';

/** A controller that crashes and restarts: the time until every agent is connected, and the responses meanwhile. */
export const reconnect: Benchmark = {
  name: 'reconnect',
  about: 'the controller restarts, until all agents hold a poll again',
  rows: {
    ready: { what: 'start of the controller to ready', unit: 's' },
    reconnected: {
      what: 'start of the controller to all agents connected',
      unit: 's',
      budget: { atMost: 6 },
      baseline: '18 with 1,000',
    },
    storm: { what: 'controller ready to all agents connected', unit: 's' },
    wrong: { what: 'answers meanwhile other than 200 and 503 with Retry-After', unit: '', budget: { exactly: 0 } },
  },
  async run(context) {
    const stack = await context.stack();
    const count = by(context, { short: 200, usual: 200, long: 1_000 });
    await stack.settled(count);
    const { agents } = stack.fleet;
    const answers = new Map<string, number>();
    for (const agent of agents) {
      agent.onAnswer = (answer) => {
        if (answer instanceof Error) return;
        const kind = `${answer.status}${answer.headers['retry-after'] === undefined ? '' : ' with Retry-After'}`;
        answers.set(kind, (answers.get(kind) ?? 0) + 1);
      };
    }
    const { readyMs, beganAt } = await stack.restartController();
    await waitFor(async () => (await stack.metric('skerry_agent_long_polls')) >= agents.length, {
      what: 'all agents to hold a poll',
      timeoutMs: 120_000,
      intervalMs: 20,
    });
    const reconnectedMs = performance.now() - beganAt;
    for (const agent of agents) agent.onAnswer = undefined;
    const right = new Set(['200', '503 with Retry-After']);
    const wrong = [...answers].filter(([kind]) => !right.has(kind)).reduce((sum, [, n]) => sum + n, 0);
    return {
      figures: {
        ready: readyMs / 1_000,
        reconnected: reconnectedMs / 1_000,
        storm: (reconnectedMs - readyMs) / 1_000,
        wrong,
      },
      notes: [
        `${agents.length} agents that back off as ours do; answers: ${[...answers].map(([kind, n]) => `${n} x ${kind}`).join(', ') || 'none but long polls'}`,
      ],
    };
  },
};
