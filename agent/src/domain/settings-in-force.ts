import { type Config, parseConfig, type SettingName } from './config.ts';
import { problemsText, type SettingFacts, settingProblems } from './setting-checks.ts';

/** Settings that take effect only when the agent starts. */
export const NEEDS_RESTART: ReadonlySet<SettingName> = new Set([
  'diskDirectory',
  'runDirectory',
  'configDirectory',
  'logDirectory',
  'localApiPort',
  'containerEngine',
  'containerEngineUrl',
  'releaseKeyFile',
  'bridgeCidr',
]);

/** How the text of a file of settings is read. */
export interface SettingsFile {
  read(): string | undefined;
  /** whether the settings in force came from a file */
  wasThere: boolean;
  facts: SettingFacts;
}

/** What of a file of settings is not in force in an agent that started with others, for people. */
export function settingsNotInForce({ read, wasThere, facts }: SettingsFile, started: Config): string[] {
  let config: Config;
  try {
    const text = read();
    if (text === undefined && wasThere)
      return [
        `settings: ${started.file} is not there any more; the former ones stay, and the next start takes the defaults`,
      ];
    config = parseConfig(text, started.file);
  } catch (error) {
    return [`settings: ${(error as Error).message}; the former ones stay, and the agent does not start with it`];
  }
  const wrong = settingProblems(config, facts);
  if (Object.keys(wrong).length > 0)
    return [`settings: ${problemsText(wrong)}; the agent does not take them while it runs`];
  const waiting = [...NEEDS_RESTART].filter((name) => config[name] !== started[name]);
  const verb = waiting.length > 1 ? 'take' : 'takes';
  return waiting.length === 0
    ? []
    : [`settings: ${waiting.join(', ')} of the file ${verb} effect when the agent starts again`];
}
