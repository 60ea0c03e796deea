import { saving } from '../../../domain/agent-error.ts';
import { changeConfig, parseConfig, type SettingName, settingError, settingName } from '../../../domain/config.ts';
import { NEEDS_RESTART } from '../../../domain/settings-in-force.ts';
import { WITHOUT_EFFECT } from '../../../domain/settings-without-effect.ts';
import { readText, writeDurably } from '../../../machine/disk.ts';

/** What a change of settings did. */
export interface ChangedSettings {
  /** why a setting was not changed, by its name as it was given */
  errorMap: Record<string, string>;
  restartNeeded: string[];
  /** what is wrong with a setting that was changed, for people */
  warning?: string;
}

/** The membership, as settings move it. */
interface MovableAgent {
  readonly identity: { node?: { controllerUrl: string } };
  controllerProblemAt(url: string): Promise<string | undefined>;
  moveController(url: string): void;
}

/**
 * Writes settings to the file and makes the agent take them. What is not valid is left out. Throws AgentError, and changes
 * nothing, when the file or the identity, which has the address of the controller, cannot be saved.
 */
export async function changeSettings(
  file: string,
  set: Record<string, unknown>,
  agent: MovableAgent,
  reload: () => void,
): Promise<ChangedSettings> {
  const errorMap: Record<string, string> = {};
  const changes: Partial<Record<SettingName, unknown>> = {};
  for (const [key, value] of Object.entries(set)) {
    const name = settingName(key);
    const wrong = name ? settingError(name, value) : 'no such setting';
    if (name && wrong === undefined) changes[name] = value;
    else errorMap[key] = wrong ?? '';
  }
  const names = Object.keys(changes) as SettingName[];
  if (names.length === 0) return { errorMap, restartNeeded: [] };
  const asked = parseConfig(changeConfig(readText(file), changes), file);
  const idle = names.flatMap((name) => {
    const reason = WITHOUT_EFFECT[name]?.(asked);
    return reason === undefined ? [] : [`${name} has no effect: ${reason}`];
  });
  const url = changes.controllerUrl === undefined ? undefined : String(changes.controllerUrl);
  const unreachable = url && (await agent.controllerProblemAt(url));
  const warning = [...(unreachable ? [unreachable] : []), ...idle].join('; ');
  // Read after the trial: the file may have been changed meanwhile.
  const text = changeConfig(readText(file), changes);
  parseConfig(text, file);
  const before = agent.identity.node?.controllerUrl;
  if (url) agent.moveController(url);
  try {
    // Such as on a machine whose root is read-only.
    saving(`${file} was not changed`, () => writeDurably(file, text, 0o644));
  } catch (error) {
    if (url && before) agent.moveController(before);
    throw error;
  }
  reload();
  return { errorMap, restartNeeded: names.filter((name) => NEEDS_RESTART.has(name)), ...(warning && { warning }) };
}
