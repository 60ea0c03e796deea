import { type Config, parseConfig, type SettingName } from './config.ts';

/** Settings that take effect only when the agent starts. */
export const NEEDS_RESTART: ReadonlySet<SettingName> = new Set([
  'diskDirectory',
  'runDirectory',
  'configDirectory',
  'logDirectory',
  'localApiPort',
  'containerEngine',
  'containerEngineUrl',
  'controllerCert',
  'releaseKeyFile',
]);

/** What of a file of settings is not in force in an agent that started with others, for people. */
export function settingsNotInForce(read: () => string | undefined, started: Config): string[] {
  let config: Config;
  try {
    config = parseConfig(read(), started.file);
  } catch (error) {
    return [`settings: ${(error as Error).message}; the former ones stay, and the agent does not start with it`];
  }
  const waiting = [...NEEDS_RESTART].filter((name) => config[name] !== started[name]);
  const verb = waiting.length > 1 ? 'take' : 'takes';
  return waiting.length === 0
    ? []
    : [`settings: ${waiting.join(', ')} of the file ${verb} effect when the agent starts again`];
}
