import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { testDependencies } from '../agent/src/_agent.ts';
import { createAgent } from '../agent/src/app.ts';
import { parseConfig } from '../agent/src/domain/config.ts';
import type { Engine } from '../agent/src/engine-port/engine.ts';
import { systemClock } from '../agent/src/machine/clock.ts';
import { localMachine } from '../agent/src/machine/machine.ts';
import { filesOnDisk } from '../agent/src/machine/mounted-files.ts';
import { identityFile } from '../agent/src/state/identity.ts';
import { openSqliteDatabase } from '../agent/src/state/sqlite-database.ts';
import { prepareMounts } from '../agent/src/supervise/executors/mounts.ts';
import type { Clock } from '../src/lib/clock.ts';

export interface LocalAgentOptions {
  /** the folder that `data` is in, as of an agent process */
  home: string;
  engine(instance: string): Engine;
  clock?: Clock;
}

/** An agent in this process, with real files, and with a clock and an engine that a test may choose. */
export function startLocalAgent({ home, engine, clock = systemClock() }: LocalAgentOptions) {
  const data = join(home, 'data');
  mkdirSync(data, { recursive: true });
  const config = join(home, 'config.yaml');
  const { database } = openSqliteDatabase(join(data, 'agent.db'), clock.wall());
  const deps = testDependencies({
    clock,
    engine,
    database,
    identity: identityFile(join(data, 'identity.json'), clock.wall, (path) => {
      throw new Error(`the identity was damaged: ${path}`);
    }),
    machine: localMachine(data),
    mountedFiles: filesOnDisk(join(data, 'volumes')),
    prepareMounts: (spec, group) => prepareMounts(spec, group, join(data, 'volumes')),
  });
  const agent = createAgent(parseConfig('{diskDirectory: data, statusFrequency: 5}', config), deps);
  const stop = new AbortController();
  const done = agent.run(stop.signal);
  return {
    agent,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
      database[Symbol.dispose]();
    },
  };
}
