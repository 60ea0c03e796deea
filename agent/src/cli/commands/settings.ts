import type { Flags, FlagValues } from '../../../../src/lib/command-line/command.ts';
import { facts, table } from '../../../../src/terminal/output.ts';
import { DEFAULT_CONFIG_FILE, PROFILES, SETTING_NAMES, settingSpellings } from '../../domain/config.ts';
import { SAMPLE_SETTINGS } from '../../domain/sample-settings.ts';
import { CliError } from '../../local-api/client.ts';
import { exists, readText, writeDurably } from '../../machine/disk.ts';
import { type Command, type CommandContext, show } from './command.ts';

/** `memoryLimitMiB` -> `memory-limit-mib` */
const kebab = (name: string) =>
  name
    .replaceAll('MiB', 'Mib')
    .replaceAll('GiB', 'Gib')
    .replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** A flag for each setting, by its names in the file, in the local API, and in short; agent/src/domain/config.ts has the table. */
const SETTING_FLAGS: Flags = Object.fromEntries(
  SETTING_NAMES.map((name) => {
    const spellings = [...new Set(settingSpellings(name).map(kebab))].filter((each) => each !== kebab(name));
    return [
      kebab(name),
      { value: '<value>', spellings, about: ['the setting', name, ...spellings.map((each) => `--${each}`)].join(' ') },
    ];
  }),
);
const SETTING_OF_FLAG = new Map(SETTING_NAMES.map((name) => [kebab(name), name]));

interface Changed {
  errorMap?: Record<string, string>;
  message?: string;
  warning?: string;
}

/** The settings of this machine, and what follows from them. */
export const SETTINGS_COMMANDS: readonly Command[] = [
  {
    name: 'config',
    usage: '[<name>=<value> ...]',
    words: { max: Number.POSITIVE_INFINITY },
    about: 'Show the settings in force, or change some',
    flags: SETTING_FLAGS,
    examples: ['config logLevel=DEBUG statusFrequency=30', 'config --log-level DEBUG --sf 30'],
    run: async (context) => {
      const set = { ...settingsInFlags(context.flags), ...settingsInWords(context.words) };
      if (Object.keys(set).length === 0) {
        const data = await context.client.call<Record<string, unknown>>('GET', '/v1/system/config');
        return show(context, data, () => facts(Object.entries(data)));
      }
      const data = await context.client.call<Changed>('PATCH', '/v1/system/config', { body: { set } });
      const refused = Object.entries(data.errorMap ?? {}).map(([name, text]) => `${name}: ${text}`);
      showChange(context, data, 'Changed.');
      if (refused.length > 0) throw new CliError('INVALID_ARGUMENT', `not changed: ${refused.join('; ')}`);
    },
  },
  {
    name: 'config cert',
    usage: '<base64 | @file>',
    words: { min: 1, max: 1 },
    about: "Install the authority of the controller's certificate: the base64 of PEM, or @ and a file in PEM",
    examples: ['config cert @ca.pem'],
    run: async (context) => {
      const [given = ''] = context.words;
      const certificate = given.startsWith('@') ? Buffer.from(pemOf(given.slice(1))).toString('base64') : given;
      const data = await context.client.call<Changed & { certificatePath: string }>(
        'POST',
        '/v1/system/controller/cert',
        {
          body: { certificate },
        },
      );
      showChange(context, data, `Installed as ${data.certificatePath}; the certificate of the controller is verified.`);
    },
  },
  {
    name: 'config switch',
    usage: PROFILES.join(' | '),
    words: { min: 1, max: 1 },
    about: 'Take another profile of the file of settings',
    examples: ['config switch production'],
    run: async (context) => {
      const [profile] = context.words;
      const data = await context.client.call<Changed & { oldProfile: string; profile: string }>(
        'POST',
        '/v1/system/config/switch',
        { body: { profile } },
      );
      showChange(context, data, `The profile is ${data.profile}; it was ${data.oldProfile}.`);
    },
  },
  {
    name: 'init-config',
    usage: '[file]',
    words: { max: 1 },
    about: `Write a file of settings with the defaults as comments (${DEFAULT_CONFIG_FILE}); one that is there stays`,
    flags: { force: { about: 'replace the file that is there' } },
    offline: true,
    run: async (context) => {
      const file = context.words[0] ?? context.configFile;
      if (exists(file) && !context.flags.force)
        throw new CliError('CONFLICT', `${file} is there`, 'Replace it with --force, or name another file.');
      writeDurably(file, SAMPLE_SETTINGS, 0o644);
      show(context, { file }, () => `Wrote ${file}\n`);
    },
  },
  {
    name: 'gps get',
    about: 'Show the position of this machine',
    run: async (context) => {
      const data = await context.client.call<{ status: string; timestamp: number; lat: string; lon: string }>(
        'GET',
        '/v1/system/gps',
      );
      show(context, data, () =>
        facts([
          ['Status', data.status],
          ['Latitude', data.lat],
          ['Longitude', data.lon],
          ['Of', data.timestamp ? new Date(data.timestamp).toISOString() : undefined],
        ]),
      );
    },
  },
  {
    name: 'gps set',
    usage: '<latitude> <longitude>',
    words: { min: 2, max: 2 },
    about: 'Set the position of this machine; gpsMode becomes manual',
    examples: ['gps set 47.49882 -8.72914'],
    run: async (context) => {
      const [lat, lon] = context.words;
      const data = await context.client.call('POST', '/v1/system/gps', { body: { lat, lon } });
      show(context, data, () => `The position is ${lat}, ${lon}\n`);
    },
  },
  {
    name: 'edge-guard',
    about: 'Show whether this is the machine of the identity',
    run: async (context) => {
      const data = await context.client.call<{ state: string; members: string[]; differing: string[] }>(
        'GET',
        '/v1/system/edge-guard',
      );
      show(context, data, () =>
        facts([
          ['State', data.state],
          ['Known by', data.members.join(', ')],
          ['Differing', data.differing.join(', ') || undefined],
        ]),
      );
    },
  },
  {
    name: 'edge-guard accept',
    about: 'Make this machine the one of the identity, after its hardware was changed',
    run: async (context) => {
      const data = await context.client.call('POST', '/v1/system/edge-guard/accept');
      show(context, data, () => 'This machine is the one of the identity now\n');
    },
  },
  {
    name: 'auth whoami',
    about: 'Show what the token of this command line says',
    run: async (context) => {
      const data = await context.client.call<Record<string, unknown>>('GET', '/v1/auth/whoami');
      show(context, data, () => facts(Object.entries(data).filter(([, value]) => typeof value !== 'object')));
    },
  },
  {
    name: 'auth tokens',
    about: 'List the tokens of the local API that are valid or revoked, without the tokens themselves',
    run: async (context) => {
      const data = await context.client.call<{ items: TokenRow[] }>('GET', '/v1/auth/tokens');
      show(context, data, () =>
        table(
          ['SUBJECT', 'ROLE', 'USE', 'ID', 'UNTIL', 'REVOKED'],
          data.items.map(({ subject = '', roleRef, tokenUse = '', jti, expiresAt = '', revokedAt = '' }) => [
            ...[subject, roleRef?.name ?? '', tokenUse, jti, expiresAt, revokedAt],
          ]),
        ),
      );
    },
  },
  {
    name: 'auth revoke',
    usage: '[<id>]',
    words: { max: 1 },
    about: 'End a token before its time, or all tokens of a subject that were made until now',
    flags: { subject: { value: '<subject>', about: 'whose tokens' } },
    examples: ['auth revoke --subject system:serviceaccount:shop:web'],
    run: async (context) => {
      const { words, flags, client } = context;
      const [jti] = words;
      const { subject } = flags;
      if (jti === undefined && subject === undefined)
        throw new CliError('INVALID_ARGUMENT', 'neither an id nor --subject is given', 'See: skerry-agent auth tokens');
      const body = { ...(jti !== undefined && { jti }), ...(subject !== undefined && { subject }) };
      const data = await client.call<{ adminTokenRenewed: boolean; keyReplaced: boolean }>(
        'POST',
        '/v1/auth/tokens/revoke',
        {
          body,
        },
      );
      const more = data.keyReplaced ? '; the list was full, so all tokens ended and new ones are written' : '';
      show(context, data, () => `Revoked${more}\n`);
    },
  },
];

/** Of a revoked token of an earlier process only the id is known. */
interface TokenRow {
  subject?: string;
  roleRef?: { name: string };
  tokenUse?: string;
  jti: string;
  expiresAt?: string;
  revokedAt?: string;
}

function settingsInFlags(flags: FlagValues): Record<string, string> {
  const set = Object.entries(flags).flatMap(([flag, value]): [string, string][] => {
    const name = SETTING_OF_FLAG.get(flag);
    return name && typeof value === 'string' ? [[name, value]] : [];
  });
  return Object.fromEntries(set);
}

function settingsInWords(words: readonly string[]): Record<string, string> {
  const set: Record<string, string> = {};
  for (const word of words) {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(word) ?? [];
    if (!name || value === undefined)
      throw new CliError('INVALID_ARGUMENT', `"${word}" is not <name>=<value>`, 'See: skerry-agent config');
    set[name] = value;
  }
  return set;
}

function pemOf(file: string): string {
  const text = readText(file);
  if (text === undefined) throw new CliError('INVALID_ARGUMENT', `there is no file ${file}`);
  return text;
}

function showChange(context: CommandContext, data: Changed, text: string): void {
  show(context, data, () => `${text}${data.message ? ` ${data.message}.` : ''}\n`);
  if (data.warning) context.err(`Warning: ${data.warning}\n`);
}
