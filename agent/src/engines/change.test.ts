import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { parseConfig } from '../domain/config.ts';
import { createLog } from '../machine/log.ts';
import { cleanFormerEngine, nextRecord, startWithEngine } from './change.ts';
import { readEngineRecord } from './find.ts';

const docker = { kind: 'docker' as const, url: 'unix:///var/run/docker.sock' };
const embedded = { kind: 'embedded' as const, url: 'unix:///run/skerry-containerd/containerd.sock' };
const log = createLog({ level: 'ERROR', write: () => {} });
const configOf = (containerEngine: string) => {
  const folder = temporaryFolder();
  return parseConfig(`containerEngine: ${containerEngine}\ndiskDirectory: ${folder}\n`, join(folder, 'config.yaml'));
};

describe('the record of a start', () => {
  test('has the former engine until it is clean', () => {
    expect(nextRecord(undefined, docker)).toEqual({ choice: docker });
    expect(nextRecord({ choice: docker }, embedded)).toEqual({ choice: embedded, left: docker });
    expect(nextRecord({ choice: embedded, left: docker }, embedded)).toEqual({ choice: embedded, left: docker });
    // Back again: its containers are wanted.
    expect(nextRecord({ choice: embedded, left: docker }, docker)).toEqual({ choice: docker, left: embedded });
  });

  test('is empty where nothing spoke for an engine', () => {
    expect(nextRecord(undefined, { ...docker, isGuess: true })).toEqual({});
  });

  test('keeps an engine that is known by its address alone apart from none', () => {
    expect(nextRecord({ choice: docker }, { url: 'tcp://10.0.0.1:2375' })).toEqual({
      choice: { url: 'tcp://10.0.0.1:2375' },
    });
  });
});

describe('a changed engine', () => {
  const containers = [
    { id: 'a', name: 'skerry-a', state: 'running' },
    { id: 'b', name: 'skerry-b', state: 'exited' },
  ];
  const engineOf = (failing?: string) => {
    const done: string[] = [];
    const act = (what: string) => async (id?: unknown) => {
      if (what === failing) throw new Error('it does not answer');
      done.push(typeof id === 'string' ? `${what} ${id}` : what);
    };
    const engine = {
      containers: async () => containers,
      connect: act('connect'),
      stop: act('stop'),
      remove: act('remove'),
      removeNetwork: act('network'),
    };
    return { done, engine: engine as unknown as Parameters<Parameters<typeof cleanFormerEngine>[1]['open']> & never };
  };
  const clean = (config: ReturnType<typeof configOf>, engine: never) =>
    cleanFormerEngine(docker, { config, log, open: () => engine, signal: AbortSignal.timeout(5_000) });

  test('loses the containers of the former one, once', async () => {
    const config = configOf('docker');
    expect(startWithEngine(config, log).left).toBeUndefined();
    const changed = { ...config, containerEngine: 'embedded' as const };
    expect(startWithEngine(changed, log).left).toMatchObject({ kind: 'docker' });
    const { done, engine } = engineOf();
    expect(await clean(changed, engine)).toBeUndefined();
    expect(done).toEqual(['connect', 'stop a', 'remove b', 'remove a', 'network']);
    expect(startWithEngine(changed, log).left).toBeUndefined();
  });

  test('says what may still run where the former one does not answer, and tries again', async () => {
    const config = configOf('docker');
    startWithEngine(config, log);
    const changed = { ...config, containerEngine: 'embedded' as const };
    startWithEngine(changed, log);
    expect(await clean(changed, engineOf('connect').engine)).toMatch(
      /^former engine: .* docker .*may still run: it does not answer/,
    );
    expect(readEngineRecord(changed)?.left).toMatchObject({ kind: 'docker' });
  });
});
