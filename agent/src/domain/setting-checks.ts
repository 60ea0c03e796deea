import { certificateProblem } from './certificates.ts';
import { type Config, SETTING_NAMES, type SettingName } from './config.ts';
import { coordinatesIn } from './position.ts';
import { lookupUrlProblem, shownUrl } from './position-lookup.ts';
import { isTimeZone } from './time-zone.ts';

/** The machine as values of settings are compared with it. */
export interface SettingFacts {
  /** whether the machine has a network interface with an address */
  hasInterface(name: string): boolean;
  /** a file's text, or undefined when there is none; throws when it cannot be read */
  read(path: string): string | undefined;
  /** what a path leads to */
  kindOf(path: string): PathKind;
}
export type PathKind = 'absent' | 'character device' | 'directory' | 'file' | 'FIFO' | 'socket' | 'block device';

type SettingCheck = (config: Config, facts: SettingFacts) => string | undefined;

/** Why a value of the right form cannot be used. A reload refuses these, and so does a change. */
const CHECKS: Partial<Record<SettingName, SettingCheck>> = {
  timeZone: ({ timeZone }) => (isTimeZone(timeZone) ? undefined : 'must be an IANA time zone such as Europe/Berlin'),
  gpsCoordinates: ({ gpsCoordinates }) =>
    coordinatesIn(gpsCoordinates)
      ? undefined
      : 'must be latitude and longitude such as 47.5,8.7: at most 90 and 180 degrees from zero',
  gpsLookupUrl: ({ gpsLookupUrl }) => (gpsLookupUrl === '' ? undefined : lookupUrlProblem(gpsLookupUrl)),
  gpsDevice: ({ gpsDevice }, { kindOf }) => {
    if (gpsDevice === '') return undefined;
    if (!gpsDevice.startsWith('/')) return 'must be an absolute path such as /dev/ttyUSB0';
    const kind = kindOf(gpsDevice);
    // A receiver may be plugged in later.
    return kind === 'absent' || kind === 'character device'
      ? undefined
      : `must be a character device; this is a ${kind}`;
  },
  controllerCert: ({ controllerCert }, { read }) => {
    const text = controllerCert === undefined ? undefined : read(controllerCert);
    return text === undefined ? undefined : certificateProblem(text);
  },
};

/** Why a value cannot be used at the moment: an interface comes and goes, so that a reload accepts what a change refuses. */
const MOMENTARY: Partial<Record<SettingName, SettingCheck>> = {
  networkInterface: ({ networkInterface }, { hasInterface }) =>
    networkInterface === 'dynamic' || hasInterface(networkInterface)
      ? undefined
      : 'the machine has no such interface with an address',
  controllerCert: ({ controllerCert }, { read }) =>
    controllerCert !== undefined && read(controllerCert) === undefined ? 'there is no such file' : undefined,
};

/** Why settings cannot be used, by name; empty where all can. */
export function settingProblems(
  config: Config,
  facts: SettingFacts,
  { names = SETTING_NAMES, isChange = false }: { names?: readonly SettingName[]; isChange?: boolean } = {},
): Partial<Record<SettingName, string>> {
  const problems: Partial<Record<SettingName, string>> = {};
  for (const name of names) {
    const problem =
      problemOf(CHECKS[name], config, facts) ?? (isChange ? problemOf(MOMENTARY[name], config, facts) : undefined);
    if (problem !== undefined) problems[name] = `${JSON.stringify(shownValue(config, name))}: ${problem}`;
  }
  return problems;
}

/** The query of an address may be a key. */
const shownValue = (config: Config, name: SettingName) =>
  name === 'gpsLookupUrl' ? shownUrl(config.gpsLookupUrl) : config[name];

function problemOf(check: SettingCheck | undefined, config: Config, facts: SettingFacts): string | undefined {
  try {
    return check?.(config, facts);
  } catch (error) {
    return `cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'it is no text'}`;
  }
}

/** Problems of settings in one text, for people. */
export const problemsText = (problems: Readonly<Record<string, string>>): string =>
  Object.entries(problems)
    .map(([name, text]) => `${name} ${text}`)
    .join('; ');
