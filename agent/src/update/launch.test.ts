import { chmodSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readText } from '../machine/disk.ts';
import { makeProgram } from './_program.ts';
import { launch } from './launch.ts';
import type { Program, Trial } from './program.ts';
import { MAX_STARTS, TRIAL_MS } from './trial.ts';

/** The launcher with real files and real processes; only its clock is the test's. */

const LOG = 'starts.log';
/** Programs of releases: they log their start and then do one thing. */
const logs = (version: string) =>
  `const fs = require('node:fs'); fs.appendFileSync(process.env.SKERRY_AGENT_PROGRAM + '/${LOG}', '${version}\\n');`;
const CONFIRMS = `const file = process.env.SKERRY_AGENT_PROGRAM + '/update.json';
  const { trial, ...state } = JSON.parse(fs.readFileSync(file));
  fs.writeFileSync(file + '.new', JSON.stringify({ ...state, previous: trial.from, finished: trial.action }));
  fs.renameSync(file + '.new', file);`;
const STAYS = 'setInterval(() => {}, 1000);';
const CRASHES = 'process.exit(3);';

const trial = (change: Partial<Trial> = {}): Trial => ({
  version: '2.0.0',
  from: '1.0.0',
  digest: 'd2',
  action: 'a1',
  starts: 0,
  ...change,
});

/** A program directory where 2.0.0 is on trial. */
function onTrial(agent: string): Program {
  const program = makeProgram({ '2.0.0': `${logs('2.0.0')}${agent}`, '1.0.0': `${logs('1.0.0')}${STAYS}` });
  program.save({ bad: {}, trial: trial() });
  return program;
}

class Replaced extends Error {}

/** Runs the launcher until it becomes a release; returns which. `hurry`: how much faster its clock is; `longest`: it sleeps no longer. */
async function launched(
  program: Program,
  options: { hurry?: number; onStop?: (stop: () => void) => void; longest?: number } = {},
) {
  const { hurry = 1, onStop, longest = 200 } = options;
  let becomes: string | undefined;
  const said: string[] = [];
  const code = await launch({
    program,
    args: ['start'],
    env: process.env,
    now: () => performance.now() * hurry,
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, Math.min(ms / hurry, longest))),
    replace: (file) => {
      becomes = file.slice(program.releases.length + 1).split('/')[0];
      throw new Replaced();
    },
    onSignal: (listener) => onStop?.(() => listener('SIGTERM')),
    say: (message) => said.push(message),
  }).catch((error: unknown) => {
    if (!(error instanceof Replaced)) throw error;
    return undefined;
  });
  const starts = (readText(join(program.directory, LOG)) ?? '').trim().split('\n').filter(Boolean);
  return { becomes, code, starts, said };
}

test('a confirmed release takes the place of the launcher', async () => {
  const program = makeProgram({ '1.0.0': STAYS });
  expect(await launched(program)).toMatchObject({ becomes: '1.0.0', starts: [] });
});

test('a release on trial whose report is confirmed stays', async () => {
  const program = onTrial(`${CONFIRMS}${STAYS}`);
  expect(await launched(program)).toMatchObject({ becomes: '2.0.0', starts: ['2.0.0'] });
  expect(program.state).toEqual({ bad: {}, previous: '1.0.0', finished: 'a1' });
});

test('a release that ends three times is given up for the former one', async () => {
  const program = onTrial(CRASHES);
  expect(await launched(program)).toMatchObject({ becomes: '1.0.0', starts: Array(MAX_STARTS).fill('2.0.0') });
  expect(program.current).toBe('1.0.0');
  expect(program.state).toMatchObject({ bad: { '2.0.0': { digest: 'd2' } }, finished: 'a1' });
  expect(program.state.failure?.reason).toMatch(/ended 3 times/);
});

test('a release whose file cannot be run is given up for the former one', async () => {
  const program = onTrial(CRASHES);
  chmodSync(join(program.release('2.0.0'), 'node'), 0o644);
  expect(await launched(program)).toMatchObject({ becomes: '1.0.0', starts: [] });
});

test('a release that runs without a confirmed report is given up after ten minutes', async () => {
  const program = onTrial(STAYS);
  const began = performance.now();
  // Five seconds: the program of the release takes more than one to start on a busy machine.
  const { becomes, starts } = await launched(program, { hurry: TRIAL_MS / 5000 });
  expect({ becomes, starts }).toEqual({ becomes: '1.0.0', starts: ['2.0.0'] });
  expect(performance.now() - began).toBeGreaterThan(4_900);
  const reason = 'no report of it was confirmed within 10 minutes';
  expect(program.state).toEqual({ bad: {}, failure: { version: '2.0.0', reason, runs: '1.0.0' }, finished: 'a1' });
});

/** A launcher that is stopped while a release on trial runs, and what it ended with. */
async function stoppedDuringTrial(before: (program: Program) => void = () => {}) {
  const program = onTrial(STAYS);
  let stop = () => {};
  const running = launched(program, {
    onStop: (listener) => {
      stop = listener;
    },
  });
  await expect.poll(() => readText(join(program.directory, LOG))).toBe('2.0.0\n');
  before(program);
  stop();
  return { program, ended: await running };
}

test('a launcher that is stopped during a trial ends its agent and does not count the start', async () => {
  const { program, ended } = await stoppedDuringTrial();
  expect(ended).toMatchObject({ becomes: undefined, code: 0 });
  expect(program.state.trial).toEqual(trial());
});

test('a launcher that is stopped while a confirmed release ends sends it one signal and ends without a failure', async () => {
  const ends = "process.on('SIGTERM', () => { fs.appendFileSync(process.env.SKERRY_AGENT_PROGRAM + '/TERM', 'x'); });";
  const free = "setInterval(() => fs.existsSync(process.env.SKERRY_AGENT_PROGRAM + '/free') && process.exit(0), 20);";
  const program = onTrial(`${ends}${CONFIRMS}${free}`);
  let stop = () => {};
  const onStop = (listener: () => void) => {
    stop = listener;
  };
  const running = launched(program, { onStop, longest: 20_000 });
  const signals = () => readText(join(program.directory, 'TERM'));
  await expect.poll(signals, { timeout: 20_000 }).toBe('x');
  stop();
  writeFileSync(join(program.directory, 'free'), '');
  expect(await running).toMatchObject({ becomes: undefined, code: 0 });
  expect(signals()).toBe('x');
});

describe('while update.json cannot be written', () => {
  /** As on a full disk. */
  const block = (program: Program) => mkdirSync(join(program.directory, `update.json.${process.pid}.tmp`));
  const free = (program: Program) => rmdirSync(join(program.directory, `update.json.${process.pid}.tmp`));

  test('the former release is started instead of one on trial, which is tried once it can be', async () => {
    const program = onTrial(`${CONFIRMS}${STAYS}`);
    block(program);
    const { becomes, starts, said } = await launched(program);
    expect({ becomes, starts }).toEqual({ becomes: '1.0.0', starts: [] });
    expect(said).toEqual([expect.stringContaining(`${program.directory} cannot be written: `)]);
    expect(program.state.trial).toEqual(trial());
    free(program);
    expect(await launched(program)).toMatchObject({ becomes: '2.0.0', starts: ['2.0.0'] });
  });

  test('a release that is out of starts gives way to the former one', async () => {
    const program = onTrial(CRASHES);
    program.save({ bad: {}, trial: trial({ starts: MAX_STARTS }) });
    block(program);
    expect(await launched(program)).toMatchObject({ becomes: '1.0.0', starts: [] });
  });

  test('a release that took too long gives way to the former one', async () => {
    const program = onTrial(
      `fs.mkdirSync(process.env.SKERRY_AGENT_PROGRAM + '/update.json.${process.pid}.tmp');${STAYS}`,
    );
    const { becomes, starts } = await launched(program, { hurry: TRIAL_MS / 1000 });
    expect({ becomes, starts }).toEqual({ becomes: '1.0.0', starts: ['2.0.0'] });
  });

  test('a launcher that is stopped during a trial ends', async () => {
    expect((await stoppedDuringTrial(block)).ended).toMatchObject({ becomes: undefined, code: 0 });
  });
});

test('without any release the launcher says where it looked', async () => {
  const program = makeProgram({ '1.0.0': STAYS });
  program.keepOnly([]);
  await expect(launched(program)).rejects.toThrow(`there is no release of the agent in ${program.releases}`);
});
