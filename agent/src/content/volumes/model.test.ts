import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Entry } from '../../domain/entry.ts';
import { type VolumeKey, volumeSubpath } from '../../domain/volume.ts';
import { generator } from '../../faults/_random.ts';
import { makeHold } from '../../supervise/plan/_util.ts';
import { HOUR, having, VolumeMachine } from './_machine.ts';

const SEEDS = process.env.SKERRY_NIGHTLY ? 200 : 20;
const STEPS = 120;
const GRACE = 24 * HOUR;
const UUIDS = ['a', 'b', 'c'].map((letter) => letter.repeat(8));
const NAMES = ['x', 'y'];
const KEYS: VolumeKey[] = [...UUIDS, null].flatMap((uuid) => NAMES.map((name) => ({ uuid, name })));

/** Of these more, so that most volumes wait for their grace instead of going by force. */
const OFTEN = [
  ...['make', 'make', 'make', 'hour', 'hour', 'half', 'wall', 'wall', 'list', 'dry', 'rm', 'rmShared'],
  ...['prune', 'prune', 'prune', 'prune', 'prune', 'pruneForce', 'purge', 'rmForce'],
];

/** What a model knows of a volume: for how long at most it may be said that nothing wants it. */
interface Modelled {
  unwantedFor: number;
  cleanup: boolean;
}

/**
 * Random edits of the desired state, starts of the agent, jumps of both clocks, lost records, mounts, prunes and destructions.
 * A model that knows real time must have allowed each destruction; all other volumes must be there.
 */
test.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
  'nothing that is wanted, mounted or young is destroyed, whatever happens (seed %i)',
  async (seed) => {
    const random = generator(seed);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
    const machine = new VolumeMachine();
    const model = new Map<string, Modelled>();
    const mounted = new Set<string>();
    const story: string[] = [];

    const wantsOf = (key: VolumeKey): boolean => {
      const { desired } = machine;
      if (!desired) return true;
      if (key.uuid !== null) return desired.some(({ uuid }) => uuid === key.uuid);
      return desired.some(
        (entry) =>
          entry.kind === 'hold' ||
          entry.view.volumeMappings.some(
            ({ scope, hostDestination }) => scope === 'shared' && hostDestination === key.name,
          ),
      );
    };
    const there = () => KEYS.filter((key) => model.has(volumeSubpath(key)));
    const noteWants = () => {
      for (const key of there()) {
        const known = model.get(volumeSubpath(key)) as Modelled;
        if (machine.desired && wantsOf(key)) Object.assign(known, { unwantedFor: 0, cleanup: false });
      }
    };
    /** Compares the disk with the model; `mayGo` says which may be missing. */
    const check = (mayGo: (key: VolumeKey, known: Modelled) => boolean) => {
      for (const key of there()) {
        if (existsSync(machine.pathOf(key))) {
          expect(machine.has(key.uuid, key.name), `${volumeSubpath(key)} is whole: ${story.join('; ')}`).toBe(true);
          continue;
        }
        const known = model.get(volumeSubpath(key)) as Modelled;
        expect(mayGo(key, known), `${volumeSubpath(key)} may go: ${story.slice(-12).join('; ')}`).toBe(true);
        model.delete(volumeSubpath(key));
      }
    };
    const pass = (ms: number) => {
      machine.now += ms;
      machine.wall += ms;
      for (const key of there()) if (!wantsOf(key)) (model.get(volumeSubpath(key)) as Modelled).unwantedFor += ms;
    };
    const entries = (): Entry[] =>
      UUIDS.filter(() => random() < 0.3).map((uuid) =>
        random() < 0.1 ? makeHold(uuid) : having(uuid, pick(NAMES), ...(random() < 0.5 ? [`+${pick(NAMES)}`] : [])),
      );

    const DEEDS: Record<string, () => Promise<void> | void> = {
      make: () => {
        const key = pick(KEYS);
        if (model.has(volumeSubpath(key))) return;
        machine.make(key.uuid, key.name);
        model.set(volumeSubpath(key), { unwantedFor: 0, cleanup: false });
      },
      want: () => machine.want(...entries()),
      forget: () => {
        machine.desired = undefined;
        machine.volumes.look();
      },
      hour: () => pass(HOUR),
      half: () => pass(12 * HOUR),
      day: () => pass(GRACE),
      wall: () => {
        machine.wall = pick([0, machine.wall + GRACE, machine.wall - GRACE, Date.parse('2026-01-01T00:00:00Z')]);
      },
      restart: () => machine.restart(pick([0, machine.now, machine.now + 365 * GRACE])),
      loseRecords: () => {
        machine.database.saveValue('unreferencedVolumes', undefined);
        machine.restart();
      },
      loseTime: () => {
        machine.database.saveValue('countedTime', undefined);
        machine.restart();
      },
      mount: () => {
        const key = pick(KEYS);
        const path = machine.pathOf(key);
        if (mounted.delete(volumeSubpath(key))) machine.binds.delete(path);
        else {
          mounted.add(volumeSubpath(key));
          machine.binds.set(path, path);
        }
      },
      list: async () => void (await machine.volumes.list()),
      cleanup: async () => {
        const uuid = pick(UUIDS);
        if (await machine.volumes.markForCleanup(uuid))
          for (const key of there()) if (key.uuid === uuid) (model.get(volumeSubpath(key)) as Modelled).cleanup = true;
      },
    };
    const destroys = async (name: string, act: () => Promise<unknown>, may: Parameters<typeof check>[0]) => {
      await act().catch((error: { code?: string }) => expect(['CONFLICT', 'NOT_FOUND']).toContain(error.code));
      check((key, known) => !mounted.has(volumeSubpath(key)) && may(key, known));
      story.push(name);
    };

    for (let step = 0; step < STEPS; step++) {
      const name = pick([...Object.keys(DEEDS), ...OFTEN]);
      const prune = (force: boolean, yes: boolean) => () => machine.volumes.prune({ yes, force, dryRun: !yes });
      const key = pick(KEYS);
      if (name === 'prune')
        await destroys(
          name,
          prune(false, true),
          (k, known) => !wantsOf(k) && (known.cleanup || known.unwantedFor >= GRACE),
        );
      else if (name === 'pruneForce') await destroys(name, prune(true, true), (k) => !wantsOf(k));
      else if (name === 'dry') await destroys(name, prune(true, false), () => false);
      else if (name === 'purge')
        await destroys(
          name,
          () => machine.volumes.purge(),
          (k) => !wantsOf(k),
        );
      else if (name === 'rm' || name === 'rmForce')
        await destroys(
          `${name} ${volumeSubpath(key)}`,
          () => machine.volumes.destroyPrivate(key.uuid ?? 'none', key.name, name === 'rmForce'),
          (k) => volumeSubpath(k) === volumeSubpath(key) && (name === 'rmForce' || !wantsOf(k)),
        );
      else if (name === 'rmShared')
        await destroys(
          `${name} ${key.name}`,
          () => machine.volumes.destroyShared(key.name, false),
          (k) => k.uuid === null && k.name === key.name && !wantsOf(k),
        );
      else {
        await DEEDS[name]?.();
        story.push(name);
      }
      noteWants();
      check(() => false);
    }
  },
);

test('what nothing wants does go in the end', async () => {
  const machine = new VolumeMachine();
  for (const { uuid, name } of KEYS) machine.make(uuid, name);
  machine.want(having(UUIDS[0] as string, '+x'));
  await machine.volumes.list();
  machine.now += GRACE;
  await machine.volumes.prune({ yes: true, force: false, dryRun: false });
  expect((await machine.volumes.list()).map(volumeSubpath)).toEqual([
    `data/${UUIDS[0]}/x`,
    `data/${UUIDS[0]}/y`,
    'shared/x',
  ]);
});
