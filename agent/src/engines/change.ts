import type { Log } from '../../../src/lib/log.ts';
import type { Config } from '../domain/config.ts';
import type { EngineKind } from '../engine-port/facts.ts';
import { errorText } from '../machine/log.ts';
import type { EngineChoice } from './choose.ts';
import { type EngineRecord, engineOf, readEngineRecord, writeEngineRecord } from './find.ts';
import { leaveEngine } from './leave.ts';

/** The record of a start: an engine of another kind than the former one leaves the former one, until that is clean. Pure. */
export function nextRecord(former: EngineRecord | undefined, now: EngineChoice): EngineRecord {
  const { isGuess, ...choice } = now;
  const isOther = (engine: EngineChoice | undefined) =>
    engine?.kind !== undefined && choice.kind !== undefined && engine.kind !== choice.kind;
  const left = [former?.choice, former?.left].find(isOther);
  return { ...(!isGuess && { choice }), ...(left && { left }) };
}

/** Chooses the engine of this start and records it. */
export function startWithEngine(config: Config, log: Log): { url: string; left: EngineChoice | undefined } {
  const choice = engineOf(config);
  const record = nextRecord(readEngineRecord(config), choice);
  try {
    writeEngineRecord(config, record);
  } catch (error) {
    log.warn({ error: errorText(error) }, 'The engine of this machine cannot be recorded');
  }
  return { url: choice.url, left: record.left };
}

type LeftEngine = Parameters<typeof leaveEngine>[0];

/**
 * Removes what this agent left on the former engine. Answers a warning for people where that fails: it is tried again at
 * the next start.
 */
export async function cleanFormerEngine(
  left: EngineChoice,
  { config, log, open, signal }: { config: Config; log: Log; open(url: string): LeftEngine; signal: AbortSignal },
): Promise<string | undefined> {
  const kind: EngineKind | 'former engine' = left.kind ?? 'former engine';
  try {
    const removed = await leaveEngine(open(left.url), signal);
    log.info({ engine: kind, removed: removed.length }, 'Removed the containers on the former engine');
    const { choice } = readEngineRecord(config) ?? {};
    writeEngineRecord(config, choice ? { choice } : {});
    return undefined;
  } catch (error) {
    return `former engine: what this agent made on ${kind} at ${left.url} may still run: ${errorText(error)}. Start it once more, or remove these containers there; the agent tries again when it starts`;
  }
}
