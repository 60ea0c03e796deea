import type { Config, SettingName } from './config.ts';
import { NO_DEVICE, NO_LOOKUP } from './settings.ts';

type Judge = (config: Config) => string | undefined;

const unless =
  (fallback: Config[SettingName], name: SettingName, reason: string): Judge =>
  (config) =>
    config[name] === fallback ? undefined : reason;
const needsLogFiles =
  (fallback: number, name: 'logLimit' | 'logFileCount'): Judge =>
  (config) =>
    config.logDirectory || config[name] === fallback ? undefined : 'without logDirectory there are no log files';

/**
 * Settings that are accepted because files of v3 have them, and that do nothing (docs/spec/agent-local-api.md#settings-without-effect):
 * why a value other than the default has no effect.
 */
export const WITHOUT_EFFECT: Partial<Record<SettingName, Judge>> = {
  arch: unless('auto', 'arch', 'the agent reports the architecture of its machine'),
  devMode: unless(false, 'devMode', 'it was for the development of v3 agents'),
  gpsMode: ({ gpsMode, gpsLookupUrl, gpsDevice }) => {
    if (gpsMode === 'auto') return gpsLookupUrl ? undefined : NO_LOOKUP;
    return gpsMode === 'dynamic' && !gpsDevice ? NO_DEVICE : undefined;
  },
  logFileCount: needsLogFiles(10, 'logFileCount'),
  logLimit: needsLogFiles(10, 'logLimit'),
  upgradeScanFrequency: unless(24, 'upgradeScanFrequency', 'the controller says when the agent updates itself'),
};

/** So many unknown names are shown, each cut to so many characters. */
const SHOWN_NAMES = 20;
const SHOWN_LENGTH = 50;

/** Why each of these settings has no effect; empty where all act. */
export function idleSettings(
  config: Config,
  names: readonly string[] = Object.keys(WITHOUT_EFFECT),
): Partial<Record<SettingName, string>> {
  const idle = (names as SettingName[]).flatMap((name): [SettingName, string][] => {
    const reason = WITHOUT_EFFECT[name]?.(config);
    return reason === undefined ? [] : [[name, `has no effect: ${reason}`]];
  });
  return Object.fromEntries(idle);
}

/** What the file of settings says in vain, for people; empty where all of it acts. */
export function settingsWithoutEffect(config: Config): string[] {
  const idle = Object.entries(idleSettings(config)).map(([name, reason]) => `${name} ${reason}`);
  return [...idle, ...unknownSettings(config)];
}

/** The names in the file that no setting has, for people. */
export const unknownSettings = ({ unknownNames }: Config): string[] =>
  unknownNames.slice(0, SHOWN_NAMES).map((name) => `${name.slice(0, SHOWN_LENGTH)}: no such setting`);
