import { expect, test } from 'vitest';
import type { Digests } from '../../wire/sections.ts';
import { makeClock } from '../_util.ts';
import { differ } from './long-polls.ts';
import { createSentResponses } from './sent-responses.ts';

const SECOND = 1_000;
/** The longest time that a replica lags behind. */
const LAG_MS = 150 * SECOND;
const SECTIONS = ['config', 'microserviceList'] as const;

/** Numbers from 0 to 1, the same for one seed. */
function random(seed: number) {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

/**
 * Replicas that serve one third-party agent, each as far as it follows the API server. The agent keeps what it reads, and
 * any request may reach any replica.
 */
function makeScene(replicaCount: number) {
  const clock = makeClock();
  const history: Digests[] = [{ config: 'a', microserviceList: 'a' }];
  const makeReplica = () => ({ sent: createSentResponses(clock), seen: history.length - 1, readCount: 0 });
  const replicas = Array.from({ length: replicaCount }, makeReplica);
  const changedAt: number[] = [0];
  const held: Digests = {};
  type Replica = (typeof replicas)[number];
  const due = ({ seen }: Replica): Digests => history[seen] ?? {};

  return {
    clock,
    replicas,
    held,
    truth: () => history.at(-1) ?? {},
    edit(change: Digests) {
      history.push({ ...history.at(-1), ...change });
      changedAt.push(clock.now());
    },
    follow(replica: Replica) {
      while (replica.seen < history.length - 1) {
        replica.seen++;
        replica.sent.noteChange(['n']);
      }
    },
    restart: (at: number) => replicas.splice(at, 1, makeReplica()),
    /** Time passes, and no replica lags for longer than it may. */
    async pass(ms: number) {
      for (const replica of replicas)
        if ((changedAt[replica.seen + 1] ?? Number.POSITIVE_INFINITY) + LAG_MS <= clock.now() + ms)
          this.follow(replica);
      await clock.advance(ms);
    },
    /** One cycle of the agent: poll, read what is flagged, acknowledge; each request at the next replica. */
    cycle(next: () => Replica, isLost: () => boolean = () => false): number {
      const polled = next();
      const now = due(polled);
      const has = polled.sent.acknowledged('n');
      const flagged = SECTIONS.filter((section) => differ({ [section]: now[section] }, { [section]: has[section] }));
      const stamp = polled.sent.add('n', now, {});
      for (const section of flagged) {
        const read = next();
        read.readCount++;
        read.sent.addSections('n', due(read), [section]);
        if (isLost()) return flagged.length;
        held[section] = due(read)[section];
      }
      if (isLost()) return flagged.length;
      const told = next();
      told.sent.acknowledge('n', stamp, { due: due(told), actions: {} });
      return flagged.length;
    },
  };
}

test('a section that was read at a replica that lags behind is read again there when the next poll finds it', () => {
  const scene = makeScene(2);
  const [a, b] = scene.replicas as [(typeof scene.replicas)[0], (typeof scene.replicas)[0]];
  let turn = 0;
  const alternating = () => (turn++ % 2 === 0 ? a : b);
  // Four requests, then two without a flag, and one report each.
  for (let i = 0; i < 6; i++) {
    scene.cycle(alternating);
    turn++;
  }
  expect(scene.cycle(() => a) + scene.cycle(() => b)).toBe(0);
  scene.edit({ microserviceList: 'b' });
  scene.follow(a);
  turn = 0;
  scene.cycle(alternating);
  turn++;
  expect(scene.held.microserviceList).toBe('a');
  scene.follow(b);
  for (let i = 0; i < 3; i++) {
    scene.cycle(alternating);
    turn++;
  }
  expect(scene.held.microserviceList).toBe('b');
});

test.each([1, 2, 3])(
  'an agent whose requests reach any of %i replicas, which lag, restart and lose responses, has what is due soon after',
  async (replicaCount) => {
    for (let seed = 1; seed <= 100; seed++) {
      const chance = random(seed * 7919);
      const scene = makeScene(replicaCount);
      const pick = <T>(items: readonly T[]) => items[Math.floor(chance() * items.length)] as T;
      const actions = {
        edit: () => scene.edit({ [pick(SECTIONS)]: pick(['a', 'b', 'c']) }),
        follow: () => scene.follow(pick(scene.replicas)),
        restart: () => scene.restart(Math.floor(chance() * replicaCount)),
        pass: () => scene.pass(pick([0, 1, 30]) * SECOND),
        cycle: () =>
          scene.cycle(
            () => pick(scene.replicas),
            () => chance() < 0.1,
          ),
      };
      const steps: (keyof typeof actions)[] = [];
      for (let i = 0; i < 40; i++) {
        const step = pick(['edit', 'follow', 'restart', 'pass', 'cycle', 'cycle', 'cycle'] as const);
        steps.push(step);
        await actions[step]();
      }
      // From now on all requests reach one replica.
      const stays = pick(scene.replicas);
      scene.follow(stays);
      for (let i = 0; i < 16; i++) {
        scene.cycle(() => stays);
        await scene.pass(20 * SECOND);
      }
      expect({ seed, steps, held: scene.held }).toEqual({ seed, steps, held: scene.truth() });
    }
  },
  60_000,
);

test('an agent whose lists always come from the other replica reads each change three times at most', async () => {
  const scene = makeScene(2);
  const [a, b] = scene.replicas as [(typeof scene.replicas)[0], (typeof scene.replicas)[0]];
  const inTurn = () => {
    let turn = 0;
    return () => (turn++ % 2 === 0 ? a : b);
  };
  for (let i = 0; i < 3; i++) {
    scene.cycle(() => a);
    await scene.pass(100 * SECOND);
  }
  scene.edit({ microserviceList: 'b' });
  for (const replica of [a, b]) scene.follow(replica);
  for (let i = 0; i < 100; i++) {
    scene.cycle(inTurn());
    await scene.pass(10 * SECOND);
  }
  expect(b.readCount).toBeLessThanOrEqual(3);
  expect(scene.held).toEqual(scene.truth());
});

test.each([
  ['tunnel', undefined],
  ['config', undefined],
  ['reboot', 'a'],
] as const)(
  'an acknowledgement of %s soon after a change counts for good only where nothing is read',
  async (section, want) => {
    const clock = makeClock();
    const sent = createSentResponses(clock);
    const now = { due: { [section]: 'a' }, actions: {} };
    sent.acknowledge('n', sent.add('n', now.due, {}), now);
    expect(sent.acknowledged('n')[section]).toBe('a');
    await clock.advance(LAG_MS, { timers: 0 });
    expect(sent.acknowledged('n')[section]).toBe(want);
  },
);
