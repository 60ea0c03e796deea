import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { generator } from '../../faults/_random.ts';
import { having, VolumeMachine } from './_machine.ts';

const ROUNDS = process.env.SKERRY_NIGHTLY ? 1000 : 200;
const A = 'a'.repeat(8);

/**
 * A start, as the executors make one: the directory, then the container at the engine, then what it writes. Each of these
 * takes some turns, while a destruction takes as many. Whoever comes first, a container that exists has a directory, with all
 * that it wrote.
 */
test(`a container that is made while its volume is destroyed has a volume, ${ROUNDS} times`, async () => {
  const machine = new VolumeMachine();
  const random = generator(11);
  const path = machine.pathOf({ uuid: A, name: 'db' });
  const some = async (most = 6) => {
    for (let n = Math.floor(random() * most); n > 0; n--) await turn();
  };
  const outcomes = { destroyed: 0, refused: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    machine.make(A, 'db');
    const start = async () => {
      await some(60);
      machine.want(having(A, 'db'));
      await machine.volumes.whileVolumesStay(async () => {
        mkdirSync(path, { recursive: true });
        await some();
        machine.binds.set('web', path);
      });
      writeFileSync(join(path, 'written'), String(round));
    };
    const destroy = async () => {
      await some();
      const done = await machine.volumes.destroyPrivate(A, undefined, random() < 0.5).then(
        () => 'destroyed' as const,
        () => 'refused' as const,
      );
      outcomes[done]++;
    };
    await Promise.all(random() < 0.5 ? [start(), destroy()] : [destroy(), start()]);
    expect(readFileSync(join(path, 'written'), 'utf8'), `round ${round}`).toBe(String(round));
    // Nobody finds a half of it: it is the volume with its data, or a new one.
    expect(readdirSync(path).sort()).toEqual(existsSync(join(path, 'deep')) ? ['deep', 'written'] : ['written']);
    machine.binds.clear();
    machine.want();
    await machine.volumes.destroyPrivate(A, undefined, false);
  }
  expect(outcomes.destroyed).toBeGreaterThan(ROUNDS / 10);
  expect(outcomes.refused).toBeGreaterThan(ROUNDS / 10);
});
