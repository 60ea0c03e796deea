import type { AgentConfig } from '../../../../../src/wire/agent.ts';
import { saving } from '../../../domain/agent-error.ts';
import {
  type Config,
  ConfigError,
  changeConfig,
  type PROFILES,
  parseConfig,
  type SettingName,
  settingError,
  settingName,
  switchProfile,
} from '../../../domain/config.ts';
import { problemsText, type SettingFacts, settingProblems } from '../../../domain/setting-checks.ts';
import { NEEDS_RESTART } from '../../../domain/settings-in-force.ts';
import { idleSettings } from '../../../domain/settings-without-effect.ts';
import { editText, readText } from '../../../machine/disk.ts';
import { LocalApiError } from '../../server/errors.ts';

/** What a change of settings did. */
export interface ChangedSettings {
  /** why a setting was not changed, by its name as it was given */
  errorMap: Record<string, string>;
  restartNeeded: string[];
  /** why a setting that was changed may not do what was meant, for people */
  warning?: string;
}

/** The membership, as settings move it. */
interface MovableAgent {
  readonly identity: { node?: { controllerUrl: string } };
  controllerProblemAt(url: string): Promise<string | undefined>;
  moveController(url: string): void;
  /** the settings that the controller has set, as far as they are in force */
  controlled(): AgentConfig;
}

/** The needs of changes of the file of settings need. */
export interface SettingsWriter {
  file: string;
  facts: SettingFacts;
  agent: MovableAgent;
  /** Takes the settings of the file. Throws when it cannot. */
  reload(): void;
}

type Changes = Partial<Record<SettingName, unknown>>;

/**
 * Writes settings to the file and makes the agent take them. Settings that are not valid are left out. Throws AgentError, and changes
 * nothing, when the file or the identity, which has the address of the controller, cannot be saved.
 */
export async function changeSettings(set: Record<string, unknown>, writer: SettingsWriter): Promise<ChangedSettings> {
  const { file, agent, reload } = writer;
  const { changes, errorMap } = acceptedOf(set, writer);
  const names = Object.keys(changes) as SettingName[];
  if (names.length === 0) return { errorMap, restartNeeded: [] };
  const url = changes.controllerUrl === undefined ? undefined : String(changes.controllerUrl);
  const unreachable = url && (await agent.controllerProblemAt(url));
  const before = agent.identity.node?.controllerUrl;
  if (url) agent.moveController(url);
  try {
    // Decided with the text that is there after the trial, and once more where another program is faster.
    write(file, (text) => {
      const changed = changeConfig(text, changes);
      parseConfig(changed, file);
      return changed;
    });
  } catch (error) {
    if (url && before) agent.moveController(before);
    throw error;
  }
  reload();
  const warning = [...(unreachable ? [unreachable] : []), ...overruled(names, agent.controlled())].join('; ');
  return { errorMap, restartNeeded: names.filter((name) => NEEDS_RESTART.has(name)), ...(warning && { warning }) };
}

/** What switching to another profile did. */
export interface SwitchedProfile {
  oldProfile: string;
  profile: string;
  restartNeeded: string[];
  warning?: string;
}

/** Takes another profile of the file. Throws INVALID_ARGUMENT, and changes nothing, where it is absent or not valid. */
export function changeProfile(profile: (typeof PROFILES)[number], writer: SettingsWriter): SwitchedProfile {
  const { file, facts, agent, reload } = writer;
  let switched = { oldProfile: '', profile: '' };
  const configs: { before?: Config; after?: Config } = {};
  write(file, (text) => {
    try {
      const { text: next, ...names } = switchProfile(text, file, profile);
      const after = parseConfig(next, file);
      Object.assign(configs, { before: parseConfig(text, file), after });
      switched = names;
      const wrong = settingProblems(after, facts);
      if (Object.keys(wrong).length > 0) throw new ConfigError(`profile ${names.profile}: ${problemsText(wrong)}`);
      return next;
    } catch (error) {
      if (error instanceof ConfigError)
        throw new LocalApiError('INVALID_ARGUMENT', error.message, { field: 'profile' });
      throw error;
    }
  });
  reload();
  const { before, after } = configs;
  const url = agent.identity.node?.controllerUrl;
  const other = after?.controllerUrl !== undefined && url !== undefined && new URL(after.controllerUrl).origin !== url;
  return {
    ...switched,
    restartNeeded: [...NEEDS_RESTART].filter((name) => before?.[name] !== after?.[name]),
    ...(other && {
      warning: `the profile names another controller; this node stays at ${url}. To move it: skerry-agent config controllerUrl=${after?.controllerUrl}`,
    }),
  };
}

function write(file: string, decide: (text: string | undefined) => string): void {
  // An error of the decision is one of the request; any other is of a disk, such as a root that is read-only.
  let refusal: unknown;
  try {
    saving(`${file} was not changed`, () =>
      editText(file, (text) => {
        try {
          return decide(text);
        } catch (error) {
          refusal = error;
          throw error;
        }
      }),
    );
  } catch (error) {
    throw refusal ?? error;
  }
}

/** The settings that can be changed as asked, and why others cannot. */
function acceptedOf(
  set: Record<string, unknown>,
  { file, facts }: SettingsWriter,
): { changes: Changes; errorMap: Record<string, string> } {
  const errorMap: Record<string, string> = {};
  const given = new Map<SettingName, string>();
  const changes: Changes = {};
  for (const [key, value] of Object.entries(set)) {
    const name = settingName(key);
    const wrong = name ? settingError(name, value) : 'no such setting';
    const first = name && given.get(name);
    if (wrong !== undefined || !name) errorMap[key] = wrong ?? '';
    else if (first !== undefined) errorMap[key] = `means the same setting as ${first}`;
    else {
      changes[name] = value;
      given.set(name, key);
    }
  }
  // Each refusal may make another setting impossible, such as a mode whose device was refused.
  for (let refused = true; refused; ) {
    const names = Object.keys(changes) as SettingName[];
    if (names.length === 0) break;
    const asked = parseConfig(changeConfig(readText(file), changes), file);
    const wrong = { ...idleSettings(asked, names), ...settingProblems(asked, facts, { names, isChange: true }) };
    refused = Object.keys(wrong).length > 0;
    for (const [name, problem] of Object.entries(wrong) as [SettingName, string][]) {
      if (name === 'networkInterface')
        throw new LocalApiError('INVALID_ARGUMENT', `networkInterface ${problem}`, { field: name });
      errorMap[given.get(name) ?? name] = problem;
      delete changes[name];
    }
  }
  return { changes, errorMap };
}

/** The members by which a controller sets what these settings are about, where their names differ. */
const OVERRULES: Partial<Record<SettingName, readonly (keyof AgentConfig)[]>> = {
  gpsCoordinates: ['latitude', 'longitude'],
};

/** What was saved and does not hold, because the controller has set another value. */
function overruled(names: readonly SettingName[], controlled: AgentConfig): string[] {
  return names
    .filter((name) =>
      (OVERRULES[name] ?? [name]).some((member) => controlled[member as keyof AgentConfig] !== undefined),
    )
    .map((name) => `${name} is saved, and the value that the controller has set for this node holds`);
}
