import { FIELD_MANAGERS } from '../src/api/names.ts';
import type { KubeObject } from '../src/kube/mod.ts';
import type { InMemoryController } from './in-memory-controller.ts';

const WHENS = ['before', 'after'] as const;
interface Kill {
  /** which write of the leader, counted from 1 */
  n: number;
  when: (typeof WHENS)[number];
}

interface Story {
  kill: Kill | undefined;
  writes: string[];
  dead: boolean;
}

const VERBS = ['create', 'replace', 'patch', 'delete'] as const;

interface Options {
  /** plural names of the resources whose writes are counted */
  resources: ReadonlySet<string>;
  /** of these, the resources that only the leader deletes */
  deletedByLeader: ReadonlySet<string>;
  /** whether writes of statuses count as well: of kinds whose status has what exists nowhere else */
  countsStatuses?: true;
  /** Called after each write of the leader other than a delete. */
  onWritten?(resource: string, object: KubeObject): void;
}

/** A run of the night says how far it is once in so many kills. */
const PROGRESS = 20;

/** The number of today; a night begins the next one. */
const TODAY = Math.floor(Date.now() / 86_400_000);

/**
 * Both sides of each write in the night, over so many nights that follow each other; by day one side of every fourth write, in turn before
 * and after it.
 */
export function killsOf(writes: number, nights = 1, today = TODAY): Kill[] {
  const all = Array.from({ length: writes }, (_, i) => WHENS.map((when) => ({ n: i + 1, when }))).flat();
  const isChosen = process.env.SKERRY_NIGHTLY
    ? (i: number) => i % nights === today % nights
    : (i: number) => [0, 9].includes(i % 16);
  return all.filter((_, i) => isChosen(i));
}

/**
 * Lets a leader be killed before or after one of its writes: `tell` runs a story, in which `settled` lets the leader work until it
 * is done or dead, and another one take over from a dead one.
 */
export function createLeaderKills(
  fleet: InMemoryController,
  { resources, deletedByLeader, countsStatuses, onWritten }: Options,
) {
  let story: Story | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: four functions with other parameters
  const client = fleet.cluster.client as any;
  for (const verb of VERBS) {
    const write = client[verb].bind(client);
    client[verb] = async (...args: unknown[]) => {
      const [resource, object, ...rest] = args as [{ plural: string }, { name?: string }, { fieldManager?: string }];
      const options = rest.at(-1) as { fieldManager?: string; subresource?: string } | undefined;
      // A status is worked out again from what there is.
      const isStatus = options?.subresource === 'status' && !countsStatuses;
      const isUser =
        options?.fieldManager === FIELD_MANAGERS.rest || (verb === 'delete' && !deletedByLeader.has(resource.plural));
      if (!story || isUser || !resources.has(resource.plural)) return write(...args);
      if (story.dead) throw new Error('the leader is dead');
      if (isStatus) return write(...args);
      story.writes.push(`${verb} ${resource.plural}`);
      const strikes = story.writes.length === story.kill?.n;
      if (strikes) story.dead = true;
      if (strikes && story.kill?.when === 'before') throw new Error('killed before the write');
      const written = await write(...args);
      if (verb !== 'delete') onWritten?.(resource.plural, written);
      if (strikes) throw new Error('killed after the write');
      return written ?? object;
    };
  }

  async function settled(): Promise<void> {
    await fleet.settle();
    if (!story?.dead) return;
    story.dead = false;
    await fleet.nextTerm();
  }

  /** Runs a story with this kill. The story returns the faults at its end. */
  async function tell(act: () => Promise<string[]>, kill?: Kill): Promise<{ writes: string[]; amiss: string[] }> {
    const told: Story = { kill, writes: [], dead: false };
    story = told;
    try {
      const amiss = await act();
      return { writes: told.writes, amiss };
    } finally {
      story = undefined;
    }
  }

  return {
    settled,
    /**
     * Tells the story once whole, and once for every fourth write of the leader, in turn before and after it; nightly for both
     * sides of each write, a long story for a share of them in each of several nights. Returns all that was wrong.
     */
    async everyKill(
      act: () => Promise<string[]>,
      { nights = 1 }: { nights?: number } = {},
    ): Promise<{ writes: string[]; found: unknown[] }> {
      const whole = await tell(act);
      const found: unknown[] = whole.amiss.length > 0 ? [{ amiss: whole.amiss }] : [];
      const kills = killsOf(whole.writes.length, nights);
      for (const [i, { n, when }] of kills.entries()) {
        if (process.env.SKERRY_NIGHTLY && i % PROGRESS === 0) console.log(`kill ${i + 1} of ${kills.length}`);
        await fleet.reset();
        const { amiss } = await tell(act, { n, when });
        if (amiss.length > 0) found.push({ n, when, write: whole.writes[n - 1], amiss });
      }
      return { writes: whole.writes, found };
    },
  };
}
