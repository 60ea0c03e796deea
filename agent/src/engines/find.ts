import { join } from 'node:path';
import type { Config } from '../domain/config.ts';
import { jsonOr } from '../domain/json.ts';
import { exists, readText, writeDurably } from '../machine/disk.ts';
import { runsSystemd } from '../machine/service-manager.ts';
import { chooseEngine, type EngineChoice } from './choose.ts';
import { containerdParts } from './embedded/machine/parts.ts';
import { EMBEDDED } from './embedded/machine/places.ts';
import { foundPrograms } from './embedded/machine/prepare.ts';

/** The engine of the last start, and an engine before it whose containers may still run. */
export interface EngineRecord {
  /** absent where the machine had none */
  choice?: EngineChoice;
  left?: EngineChoice;
}

/** The engine of this machine: see chooseEngine. */
export function engineOf(config: Config): EngineChoice {
  const record = readEngineRecord(config);
  return chooseEngine(config, {
    isThere: exists,
    former: record?.choice,
    isOld: !record && exists(join(config.diskDirectory, 'agent.db')),
    canEmbed,
  });
}

export const findEngineUrl = (config: Config): string => engineOf(config).url;

/** The record of the last start; undefined before the first one, and where it cannot be understood. */
export function readEngineRecord({ diskDirectory }: Pick<Config, 'diskDirectory'>): EngineRecord | undefined {
  const text = readText(recordIn(diskDirectory));
  return text === undefined ? undefined : (jsonOr(text, undefined) as EngineRecord | undefined);
}

export const writeEngineRecord = ({ diskDirectory }: Pick<Config, 'diskDirectory'>, record: EngineRecord): void =>
  writeDurably(recordIn(diskDirectory), JSON.stringify(record));

const recordIn = (diskDirectory: string) => join(diskDirectory, 'engine.json');

/** Whether this machine has the unit of the agent's own engine, a service manager for it, and its programs. */
const canEmbed = () => runsSystemd() && exists(EMBEDDED.unit) && !('missing' in containerdParts(foundPrograms()));

/** The socket of an engine on this machine; undefined of an engine elsewhere. */
export function socketOf(url: string): string | undefined {
  return url.startsWith('unix://') ? url.slice('unix://'.length) : undefined;
}
