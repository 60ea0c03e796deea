import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { pushImage, saveImage } from '../../../hack/image.ts';
import { sampleImage } from '../../../hack/sample.ts';
import { shellImage } from '../../../hack/shell-image.ts';
import type {} from '../../../hack/testing/provided.ts';
import { pushVersions } from '../_web.ts';
import { until } from '../engines/_contract.ts';
import type { TestEngine } from '../engines/_outside.ts';
import { CliError } from '../local-api/client.ts';
import { ANSWER, API, at, KEPT, Killable, type Moment, VOLUME } from './_killable.ts';

/**
 * The engine is killed while it carries out what a person asks of a machine without a controller. Whatever the answer was, nothing that is
 * wanted is lost, and the wish comes true once the engine is back: by itself where the answer was yes, else when it is asked again. By day
 * an engine dies in one row of the table; by night in every row.
 */

const LONG = Boolean(process.env.SKERRY_NIGHTLY);

interface Row {
  /** Makes the state before. */
  prepare?(machine: Killable): Promise<unknown>;
  /** Asks for something; throws where the answer is no. */
  act(machine: Killable): Promise<unknown>;
  moments: readonly Moment[];
  /** Throws unless the wish has come true. */
  settled(machine: Killable): Promise<unknown>;
}

const pull = (machine: Killable) => machine.pull();
const imageIs = (isThere: boolean) => async (machine: Killable) =>
  expect(await machine.hasImage(machine.fresh)).toBe(isThere);
const loadedName = ({ fresh }: Killable) => fresh.replace(/^[^/]*/, 'registry.example');
const prune = (path: string) => async (machine: Killable) => {
  const { errors } = await machine.call<{ errors?: object }>('POST', path);
  if (errors) throw new CliError('PARTIAL', JSON.stringify(errors));
};
/** A microservice that was removed, and whose volume stays. */
const leaveVolume = async (machine: Killable) => {
  await machine.deploy('gone', 'web:1', { volumes: [VOLUME] });
  await machine.call('DELETE', '/v1/ms/gone');
};
const noVolumeIsLeft = async (machine: Killable) => expect(await machine.leftClaims()).toEqual([]);
const deployWeb = (version: 1 | 2) => (machine: Killable) => machine.web(version);
const removeWeb = (machine: Killable) => machine.call('DELETE', '/v1/ms/web');
const order = (word: 'start' | 'stop' | 'restart') => (machine: Killable) => machine.call('POST', `/v1/ms/web/${word}`);
const answers = (version: 1 | 2) => async (machine: Killable) => {
  const said = async () => (await (await fetch(`http://127.0.0.1:${machine.port}/`)).text()).trim();
  await until('the answer', async () => (await said()) === `${version}`, ANSWER);
  await containersAre(2)(machine);
};
const containersAre = (count: number) => (machine: Killable) =>
  until('the containers', async () => (await machine.home.containers()).length === count, ANSWER);

const artifact = (kind: 'Model' | 'Knowledge', path: 'models' | 'knowledge', folder: string): Row => ({
  prepare: async (machine) => machine.hub.commit(`${folder}/team/tiny`, { 'a.txt': machine.fresh }),
  act: async (machine) => {
    const spec = { repo: 'team/tiny', registry: 4, revision: 'main' };
    const manifest = JSON.stringify({ apiVersion: API, kind, metadata: { name: 'tiny' }, spec });
    await machine.call('POST', `/v1/deploy/${path}:apply`, { form: { manifest } });
    await until('the end of the pull', async () => (await machine.artifact(path)).state !== 'Pulling', ANSWER);
  },
  moments: ['at a file'],
  settled: async (machine) => expect(await machine.artifact(path)).toMatchObject({ name: 'tiny', state: 'Ready' }),
});

const ROWS: Readonly<Record<string, Row>> = {
  'the pull of an image': { act: pull, moments: [...at('pull'), 'at a layer'], settled: imageIs(true) },
  'the load of an archive': {
    act: async (machine) => {
      const path = join(machine.folder, 'image.tar');
      writeFileSync(path, saveImage(await sampleImage({ env: { GREETING: machine.fresh } }), loadedName(machine)));
      await machine.carryOut('/v1/images:load', { body: { path } });
    },
    moments: at('loadImages'),
    settled: async (machine) => expect(await machine.hasImage(loadedName(machine))).toBe(true),
  },
  'a prune of images': {
    prepare: pull,
    act: prune('/v1/images:prune'),
    moments: at('imageUses', 'imageBytes', 'removeImage'),
    settled: imageIs(false),
  },
  'a prune of all': {
    prepare: pull,
    act: prune('/v1/system/prune?mode=all'),
    moments: at('imageUses', 'removeImage'),
    settled: imageIs(false),
  },
  'the removal of an image': {
    prepare: pull,
    act: (machine) => machine.call('POST', '/v1/images:remove', { body: { selector: machine.fresh } }),
    moments: at('imageUses', 'listImages', 'removeImage'),
    settled: imageIs(false),
  },
  'a prune of volumes': {
    prepare: leaveVolume,
    act: (machine) => machine.call('POST', '/v1/volumes:prune', { body: { yes: true, force: true } }),
    moments: at('allBinds'),
    settled: noVolumeIsLeft,
  },
  'the removal of volumes': {
    prepare: leaveVolume,
    act: async (machine) => machine.call('DELETE', `/v1/volumes/${(await machine.leftClaims())[0]?.uuid}`),
    moments: at('allBinds'),
    settled: noVolumeIsLeft,
  },
  'a first apply': {
    prepare: async (machine) => (await machine.stateOf('web')) && removeWeb(machine),
    act: deployWeb(1),
    moments: at('create', 'start'),
    settled: answers(1),
  },
  'an apply of another manifest': {
    prepare: deployWeb(1),
    act: deployWeb(2),
    moments: at('create', 'stop', 'start', 'remove'),
    settled: answers(2),
  },
  'the removal of a microservice': {
    prepare: deployWeb(1),
    act: removeWeb,
    moments: at('stop', 'remove'),
    settled: containersAre(1),
  },
  'the stop of a microservice': {
    prepare: deployWeb(1),
    act: order('stop'),
    moments: at('stop'),
    settled: (machine) => until('STOPPED', async () => (await machine.stateOf('web')) === 'STOPPED', ANSWER),
  },
  'the start of a microservice': {
    prepare: async (machine) => {
      await machine.web(1);
      await order('stop')(machine);
    },
    act: order('start'),
    moments: at('start'),
    settled: answers(1),
  },
  'the restart of a microservice': {
    prepare: deployWeb(1),
    act: order('restart'),
    moments: at('stop', 'start'),
    settled: answers(1),
  },
  'the pull of a model': artifact('Model', 'models', 'models'),
  'the pull of knowledge': artifact('Knowledge', 'knowledge', 'datasets'),
};

/** The rows of the day; docker, which takes long to start again, dies by day in the tests of images. */
const DAY: Partial<Record<TestEngine['kind'], readonly [string, Moment][]>> = {
  embedded: [
    ['a prune of images', 'during removeImage'],
    ['an apply of another manifest', 'after create'],
  ],
};

const casesOf = (kind: TestEngine['kind']): (readonly [string, Moment])[] =>
  LONG
    ? Object.entries(ROWS).flatMap(([name, { moments }]) => moments.map((moment) => [name, moment] as const))
    : [...(DAY[kind] ?? [])];

beforeAll(async () => {
  await pushVersions(inject('registryUrl'), 'engine-killed/web', '1', '2');
  const cmd = ['sh', '-c', 'i=0; while :; do i=$((i+1)); echo line $i; sleep 0.2; done'];
  await pushImage(inject('registryUrl'), 'engine-killed/keep', '1', shellImage({ cmd }));
});

describe.each(inject('everyEngine').filter(({ kind }) => casesOf(kind).length > 0))('$kind is killed', ({ kind }) => {
  let machine: Killable;
  beforeAll(async () => {
    machine = await Killable.start(kind);
  }, 120_000);
  afterAll(() => machine?.[Symbol.asyncDispose](), 60_000);

  test.each(casesOf(kind))('in "%s" %s', { timeout: 240_000 }, async (name, moment) => {
    const { prepare, act, settled } = ROWS[name] as Row;
    onTestFinished(() => machine.revive());
    await machine.pushFresh();
    await prepare?.(machine);
    const { begun, killed } = await machine.killAt(moment);
    const attempt = () =>
      act(machine).then(
        () => undefined,
        (error: CliError) => error,
      );
    const acting = attempt();
    // An answer may come before its last call is over.
    const inTime = await Promise.race([begun.then(() => true), sleep(ANSWER, false)]);
    expect(inTime, 'the moment has come').toBe(true);
    await killed;
    await Promise.race([machine.lost(), acting]);
    await machine.revive();
    const refused = await acting;
    if (process.env.SKERRY_SHOW)
      process.stderr.write(`${kind} ${name} ${moment}: ${refused?.code} ${refused?.message}\n`);
    if (refused) {
      expect(refused.code).toMatch(/^(UNAVAILABLE|INTERNAL|PARTIAL)$/);
      expect(refused.message).toMatch(/engine/i);
      expect([undefined, 'NOT_FOUND']).toContain((await attempt())?.code);
    }
    await settled(machine);
    await machine.holds();
  });

  describe.runIf(LONG)('beside a stream', () => {
    /** A command that continues, and what it has printed. */
    function begin(...words: string[]) {
      const main = join(import.meta.dirname, '..', 'main.ts');
      const child = spawn(process.execPath, [main, ...words, '--config', machine.home.config]);
      const said = { out: '', err: '' };
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said.out += text;
      });
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        said.err += text;
      });
      return { child, said, ended: once(child, 'exit') };
    }

    test('the stream of a log continues', async () => {
      const { child, said, ended } = begin('ms', 'logs', '--follow', 'keep');
      await until('lines', () => said.out.includes('line'));
      await machine.kill();
      await machine.lost();
      await machine.revive();
      await machine.holds();
      const before = said.out.length;
      await until(`further lines: ${said.err}`, () => said.out.length > before + 20, 60_000);
      child.kill('SIGINT');
      expect(await ended).toEqual([0, null]);
    }, 120_000);

    test('a session continues with an engine that does not carry its bytes, and else ends in words', async () => {
      const { child, said, ended } = begin('ms', 'exec', '-i', 'keep', 'cat');
      child.stdin.write('typed\n');
      await until('the program', () => said.out.includes('typed'));
      await machine.kill();
      await machine.lost();
      await machine.revive();
      await machine.holds();
      if (kind === 'embedded') {
        // Its pipes do not go through containerd.
        child.stdin.end('more\n');
        expect(await ended).toEqual([0, null]);
        expect(said.out).toContain('more');
      } else {
        expect((await ended)[0]).not.toBe(0);
        expect(said.err).not.toBe('');
      }
      expect(await machine.home.cli('ms', 'exec', 'keep', 'cat', '/data/file')).toMatchObject({ out: KEPT });
    }, 120_000);
  });
});
