import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { pushImage } from '../../../hack/image.ts';
import { shellImage } from '../../../hack/shell-image.ts';
import type {} from '../../../hack/testing/provided.ts';
import { CONTAINER_LABELS } from '../../../src/api/names.ts';
import { OtherContainer } from '../_home.ts';
import { until } from '../engines/_contract.ts';
import { type ForeignContainer, outsideOf } from '../engines/_outside.ts';
import { controlPlaneManifest } from '../local/_control-plane.ts';
import type { CliError } from '../local-api/client.ts';
import { ANSWER, KEPT, Killable, type Moment, type Victim } from './_killable.ts';

/**
 * The control plane of a machine whose agent or engine is killed at each stage of an apply, a restart and a removal. What ran or what was
 * asked for runs afterwards, with its data, in one container, and the next apply works. Its image has a shell in place of a controller, which
 * counts as ready. A control plane becomes ready at its first health check, after 10 s, so this runs by night only.
 */
const READY = 'when it is ready';
const PROGRAM = "trap 'exit 0' TERM; while :; do sleep 0.2; done";
const CONTROL_PLANE = '/v1/system/controlplane';

let serial = 0;

/** Pushes an image that no engine has; answers its tag. */
async function pushHub(): Promise<string> {
  const tag = `${++serial}`;
  const image = shellImage({
    cmd: ['sh', '-c', PROGRAM],
    env: { PATH: '/bin', TAG: tag },
    files: [
      { path: '/usr/bin/node', content: Buffer.from('#!/bin/sh\nexit 0\n'), mode: 0o755 },
      { path: '/var/lib/skerry' },
    ],
  });
  await pushImage(inject('registryUrl'), 'engine-killed/hub', tag, image);
  return tag;
}

interface Status {
  controllerUuid: string;
  image: string;
  state: string;
  health?: string;
  generation: number;
  observedGeneration?: number;
}

const isCode =
  <T>(code: string, value: T) =>
  (error: CliError): T => {
    if (error.code !== code) throw error;
    return value;
  };

const statusOf = (machine: Killable): Promise<Status | undefined> =>
  machine.call<Status>('GET', CONTROL_PLANE).catch(isCode('NOT_FOUND', undefined));

const isReady = (status: Status | undefined): status is Status =>
  status?.state === 'running' &&
  status.observedGeneration === status.generation &&
  status.health?.toLowerCase() === 'healthy';

const tagOf = (status: Status | undefined) => status?.image.split(':').at(-1);

const apply = (machine: Killable, tag: string) =>
  machine.apply(
    'controlplane',
    controlPlaneManifest({ controller: { image: machine.image(`hub:${tag}`), registry: 1, port: machine.port } }),
  );

const containersOf = async (machine: Killable) =>
  (await machine.home.containers()).filter(({ microservice }) => microservice === 'controller');

interface Change {
  act(machine: Killable, to: string): Promise<unknown>;
  /** whether there is no control plane before */
  isFirst?: true;
  moments: readonly (Moment | typeof READY)[];
  /** what may run at the end; undefined: nothing */
  ends(from: string | undefined, to: string): readonly (string | undefined)[];
}

const remove = (machine: Killable) => machine.call('DELETE', CONTROL_PLANE);
const same = (from: string | undefined) => [from];

const CHANGES: Readonly<Record<string, Change>> = {
  'a first apply': {
    act: apply,
    isFirst: true,
    moments: ['at a layer', 'after pull', 'during create', 'after create', 'during start', 'after start', READY],
    ends: (_, to) => [undefined, to],
  },
  'an apply of another image': {
    act: apply,
    moments: ['before pull', 'after pull', 'after create', 'after stop', 'during start', 'after start', READY],
    ends: (from, to) => [from, to],
  },
  'a restart': {
    act: (machine) => machine.call('POST', `${CONTROL_PLANE}/restart`),
    moments: ['before stop', 'after stop', 'after start'],
    ends: same,
  },
  'a restart with pull': {
    act: (machine) => machine.call('POST', `${CONTROL_PLANE}/restart?pull=true`),
    moments: ['before pull', 'after pull', 'after create', 'after stop', 'after start'],
    ends: same,
  },
  'a removal': {
    act: remove,
    moments: ['before stop', 'after stop', 'during remove', 'after remove'],
    ends: () => [undefined],
  },
};

const CASES = Object.entries(CHANGES).flatMap(([name, { moments }]) =>
  moments.flatMap((moment) => (['agent', 'engine'] as const).map((victim) => [name, victim, moment] as const)),
);

/** Waits until what a machine has is ready, or nothing is left of it. */
async function settled(machine: Killable): Promise<Status | undefined> {
  const { status } = await until(
    'a control plane that is ready, or none',
    async () => {
      const now = await statusOf(machine);
      return (isReady(now) || now === undefined) && { status: now };
    },
    2 * ANSWER,
  );
  const count = status ? 1 : 0;
  await until('no other container of it', async () => (await containersOf(machine)).length === count, ANSWER);
  return status;
}

/** Applies an image once no apply is under way. */
const applyNext = (machine: Killable, tag: string) =>
  until(
    'an apply',
    () => apply(machine, tag).then(() => true, isCode<boolean>('APPLY_IN_PROGRESS', false)),
    2 * ANSWER,
  );

/** Makes a change during which the agent or the engine is killed, and brings it back. */
async function changeAndKill(
  machine: Killable,
  { act }: Change,
  victim: Victim,
  moment: Change['moments'][number],
  to: string,
): Promise<void> {
  const kill = moment === READY ? undefined : await machine.killAt(moment, victim);
  const acting = act(machine, to).catch((error: CliError) => error);
  if (kill) {
    const inTime = await Promise.race([kill.begun.then(() => true), sleep(ANSWER, false, { ref: false })]);
    expect(inTime, 'the moment has come').toBe(true);
    await kill.killed;
  } else {
    const isTo = async () => {
      const status = await statusOf(machine);
      return isReady(status) && tagOf(status) === to;
    };
    await until('it to be ready', isTo, ANSWER);
    await machine.kill(victim);
  }
  if (victim === 'engine') await Promise.race([machine.lost(), acting]);
  await machine.revive();
  await acting;
}

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  const cmd = ['sh', '-c', 'while :; do echo line; sleep 1; done'];
  await pushImage(inject('registryUrl'), 'engine-killed/keep', '1', shellImage({ cmd }));
});

describe.runIf(process.env.SKERRY_NIGHTLY).each(inject('everyEngine'))('a control plane on $kind', ({ kind }) => {
  let machine: Killable;
  beforeAll(async () => {
    machine = await Killable.start(kind);
  }, 120_000);
  afterAll(() => machine?.[Symbol.asyncDispose](), 60_000);

  test.each(CASES)('outlasts, in %s, the %s killed %s', { timeout: 300_000 }, async (name, victim, moment) => {
    const change = CHANGES[name] as Change;
    onTestFinished(() => machine.revive());
    const present = await statusOf(machine);
    if (change.isFirst && present) await remove(machine);
    if (!change.isFirst && !present) await applyNext(machine, await pushHub());
    const before = change.isFirst ? undefined : await settled(machine);
    const volume = before && (await machine.volumeOf('controller'));
    if (volume) writeFileSync(join(volume, 'kept'), KEPT);
    const from = tagOf(before);
    const [to, next] = [await pushHub(), await pushHub()];

    await changeAndKill(machine, change, victim, moment, to);

    const after = await settled(machine);
    expect(change.ends(from, to)).toContain(tagOf(after));
    if (volume) expect(existsSync(volume)).toBe(after !== undefined);
    await applyNext(machine, next);
    const last = await settled(machine);
    expect(tagOf(last)).toBe(next);
    if (volume && after) {
      expect(last?.controllerUuid).toBe(before?.controllerUuid);
      expect(readFileSync(join(volume, 'kept'), 'utf8')).toBe(KEPT);
    }
    await machine.holds();
  });

  test('leaves foreign containers with its labels or its name alone, and runs beside them', {
    timeout: 300_000,
  }, async () => {
    const on = { kind, url: machine.home.engineUrl };
    const foreign: OtherContainer[] = [];
    onTestFinished(async () => {
      for (const each of foreign) await each.remove();
    });
    const place = async (container: Omit<ForeignContainer, 'image'>) => {
      foreign.push(await OtherContainer.start(on, { ...container, image: machine.image('keep:1') }));
    };
    onTestFinished(() => machine.revive());
    await applyNext(machine, await pushHub());
    const { controllerUuid = '' } = (await settled(machine)) ?? {};
    const [own] = await containersOf(machine);
    const { [CONTAINER_LABELS.agent]: instance, ...labels } = await outsideOf(on).labelsOf(own?.id ?? '');
    expect(instance).toBe(machine.home.instance);
    await place({ name: 'controller', labels });
    await place({ name: 'hub', labels: { ...labels, [CONTAINER_LABELS.agent]: 'e'.repeat(32) } });

    // Another program takes its name while the agent is away.
    await machine.kill('agent');
    await outsideOf(on).remove(own?.id ?? '');
    await place({ name: `skerry-${controllerUuid}`, labels });
    await machine.revive();
    expect((await settled(machine))?.controllerUuid).toBe(controllerUuid);
    const next = await pushHub();
    await applyNext(machine, next);
    expect(tagOf(await settled(machine))).toBe(next);
    await remove(machine);
    expect(await settled(machine)).toBeUndefined();
    for (const each of foreign) expect(await each.untouched()).toBe(true);
  });
});
