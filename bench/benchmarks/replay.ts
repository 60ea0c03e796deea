import { type Benchmark, by } from '../benchmark.ts';

/** Whether an intercepted token can be used again: the same token, many times at the same moment. */
export const replay: Benchmark = {
  name: 'replay',
  about: 'one token, sent ten times at once',
  rows: {
    most: {
      what: 'one token sent 10 times at once: accepted, at most',
      unit: '',
      budget: { exactly: 1 },
      baseline: '2-9',
    },
    least: { what: 'one token sent 10 times at once: accepted, at least', unit: '', budget: { exactly: 1 } },
  },
  async run(context) {
    const { fleet } = await context.stack();
    await fleet.grow(1);
    const [agent] = fleet.agents;
    if (!agent) throw new Error('there is no node');
    const rounds = by(context, { short: 10, usual: FREE_ROUNDS, long: 3 * FREE_ROUNDS });
    // Connections are opened beforehand, so that the ten requests arrive together.
    await Promise.all(Array.from({ length: TIMES }, () => agent.poll()));
    const counts: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const [token] = agent.tokens(1);
      const answers = await Promise.all(Array.from({ length: TIMES }, () => agent.poll(token)));
      const refused = answers.filter(({ status }) => status !== 200 && status !== 401);
      if (refused[0]) throw new Error(`a poll was answered ${refused[0].status} ${refused[0].text}`);
      counts.push(answers.filter(({ status }) => status === 200).length);
      // The requests of a node are rate-limited, and so are the refused tokens of an address.
      await new Promise((resolve) => setTimeout(resolve, round < FREE_ROUNDS ? 60 : 2_000));
    }
    return {
      figures: { most: Math.max(...counts), least: Math.min(...counts) },
      notes: [`${rounds} rounds, one replica`],
    };
  },
};

const TIMES = 10;
/** Rounds whose refused tokens the controller accepts from one address without a pause. */
const FREE_ROUNDS = 30;
