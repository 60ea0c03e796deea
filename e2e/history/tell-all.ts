import { check } from './check.ts';
import type { Story } from './generate.ts';
import type { History, Violation } from './history.ts';
import { type Foundations, startLane } from './lane.ts';
import { tell } from './run.ts';

export interface Told {
  story: Story;
  history: History;
  violations: Violation[];
  ms: number;
}

export interface TellOptions {
  /** installations in parallel; a story mostly waits, so there may be more of them than cores */
  lanes?: number;
  onTold(told: Told): void;
  onFailed(story: Story, error: Error): void;
}

const LANES = 5;

/** Runs stories, several in parallel, each in an installation of its own. */
export async function tellAll(
  stories: readonly Story[],
  foundations: Foundations,
  options: TellOptions,
): Promise<void> {
  // The longest stories first: those with mass silence wait for the silence limit.
  const waiting = [...stories].sort((a, b) => weight(b) - weight(a));
  const lanes = Math.min(options.lanes ?? LANES, stories.length);
  let opened = 0;
  const work = async () => {
    while (waiting.length > 0) {
      const replicas = (waiting[0] as Story).replicas;
      await using lane = await startLane(foundations, `history-${process.pid}-${++opened}`, replicas);
      // The installation is used again while there are stories that need as many controllers.
      for (;;) {
        const next = waiting.findIndex((story) => story.replicas === replicas);
        if (next < 0) break;
        const [story] = waiting.splice(next, 1) as [Story];
        const began = performance.now();
        try {
          const history = await tell(story, lane);
          options.onTold({ story, history, violations: check(history), ms: performance.now() - began });
        } catch (error) {
          options.onFailed(story, error as Error);
          break;
        }
      }
    }
  };
  await Promise.all(Array.from({ length: lanes }, work));
}

const weight = ({ profile, replicas, engine }: Story) =>
  (profile === 'mass silence' ? 10 : 0) + (replicas > 1 ? 5 : 0) + (engine === 'real' ? 1 : 0);
