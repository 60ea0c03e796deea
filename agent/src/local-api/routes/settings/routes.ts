import { z } from 'zod';
import type { TokenBuckets } from '../../../../../src/lib/token-bucket.ts';
import { PROFILES } from '../../../domain/config.ts';
import { coordinatesFrom, coordinatesText, DEGREES, type Fix } from '../../../domain/position.ts';
import { LocalApiError } from '../../server/errors.ts';
import { routesWith } from '../../server/route.ts';
import { activeConfig, type DescribedAgent, settingsReply } from '../system/shapes.ts';
import type { ChangedSettings, SwitchedProfile } from './change-settings.ts';
import type { InstalledCertificate } from './controller-certificate.ts';

/** What the routes that change the settings of the machine need of the agent. */
export interface SettingsDependencies {
  agent: DescribedAgent & {
    /** the settings that the controller has set, as far as they are in force */
    controlled(): { gpsMode?: string | undefined; latitude?: number | undefined };
    /** what gpsMode auto or dynamic has found */
    readonly fix: Fix | undefined;
    /** since when the present settings are in force, Unix ms */
    readonly settingsSince: number;
    readonly edgeGuard: GuardView;
    /** how often a microservice may set the position: each time writes a file, and reads all settings again */
    readonly positionChanges: Pick<TokenBuckets, 'take' | 'waitMs'>;
    /** Makes this machine the one of the identity. Throws AgentError where there is nothing to accept. */
    acceptMachine(): void;
  };
  /** Writes settings to the file; returns those that were refused. */
  changeSettings(set: Record<string, unknown>): ChangedSettings | Promise<ChangedSettings>;
  switchProfile(profile: (typeof PROFILES)[number]): SwitchedProfile;
  installCertificate(text: string): Promise<InstalledCertificate>;
}

/** The edge guard, for people. */
interface GuardView {
  state: 'off' | 'matching' | 'other machine' | 'unknown';
  /** what the machine is known by, and what of it differs */
  members: readonly string[];
  differing: readonly string[];
}

const { route } = routesWith<SettingsDependencies>('settings');

/** The settings of this machine, and what follows from them. */
export const SETTINGS_ROUTES = [
  route({
    method: 'GET',
    path: '/v1/system/config',
    operation: 'getSettings',
    summary: 'The settings in force',
    access: 'admin',
    reply: { form: 'bare', schema: settingsReply },
    handler: ({ deps: { agent } }) => activeConfig(agent),
  }),
  route({
    method: 'PATCH',
    path: '/v1/system/config',
    operation: 'changeSettings',
    summary: 'Changes settings in the file and takes them',
    access: 'admin',
    body: () => {
      const wanted = 'an object with at least one setting';
      const hasMembers = (set: object) => Object.keys(set).length > 0;
      return z.object({ set: z.record(z.string(), z.unknown(), wanted).refine(hasMembers, wanted) });
    },
    errors: [409, 503],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          status: z.literal('ok'),
          errorMap: z.record(z.string(), z.string()).describe('setting that was not changed -> reason'),
          warning: z.string().optional(),
          ...pending(),
        }),
    },
    handler: async ({ body: { set }, deps: { changeSettings } }) => {
      const { errorMap, restartNeeded, warning } = await changeSettings(set);
      if (Object.keys(errorMap).length === Object.keys(set).length)
        throw new LocalApiError('INVALID_ARGUMENT', `nothing was changed: ${reasonsOf(errorMap)}`, { errorMap });
      return { status: 'ok', errorMap, ...(warning && { warning }), ...restartFor(restartNeeded) };
    },
  }),
  route({
    method: 'POST',
    path: '/v1/system/config/switch',
    operation: 'switchProfile',
    summary: 'Takes another profile of the file of settings',
    access: 'admin',
    body: () => z.object({ profile: z.enum(PROFILES) }),
    errors: [503],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          status: z.literal('ok'),
          oldProfile: z.string(),
          profile: z.string(),
          warning: z.string().optional(),
          ...pending(),
        }),
    },
    handler: ({ body: { profile }, deps: { switchProfile } }) => {
      const { restartNeeded, ...switched } = switchProfile(profile);
      return { status: 'ok', ...switched, ...restartFor(restartNeeded) };
    },
  }),
  route({
    method: 'POST',
    path: '/v1/system/controller/cert',
    operation: 'installControllerCertificate',
    summary: "Writes the authority of the controller's certificate, and has it verified",
    access: 'admin',
    body: () => {
      const wanted = 'the base64 of certificates in PEM';
      return z.object({ certificate: z.string(wanted).min(1, wanted).max(MOST_CERTIFICATE_TEXT, wanted) });
    },
    errors: [409, 503],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          status: z.literal('ok'),
          updatedKey: z.literal('controllerCert'),
          certificatePath: z.string(),
          secureMode: z.literal('on'),
          certificateInstalled: z.literal(true),
          warning: z.string().optional(),
        }),
    },
    handler: async ({ body: { certificate }, deps: { installCertificate } }) => {
      const { path, warning } = await installCertificate(certificate);
      return {
        status: 'ok',
        updatedKey: 'controllerCert',
        certificatePath: path,
        secureMode: 'on',
        certificateInstalled: true,
        ...(warning && { warning }),
      };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/system/gps',
    operation: 'getPosition',
    summary: 'The position of the machine',
    access: { resource: 'system/gps', verb: 'get' },
    reply: {
      form: 'bare',
      schema: () =>
        z.object({
          status: z.enum(['okay', 'unavailable']).describe('unavailable: gpsMode auto or dynamic has found none yet'),
          timestamp: z.number().describe('when the position was found or set, Unix ms; 0 without one'),
          lat: z.string(),
          lon: z.string(),
        }),
    },
    handler: ({ deps: { agent } }) => positionReply(agent),
  }),
  route({
    method: 'POST',
    path: '/v1/system/gps',
    operation: 'setPosition',
    summary: 'Sets the position of the machine, with gpsMode manual',
    access: { resource: 'system/gps', verb: 'create' },
    body: () => z.object({ lat: degrees('lat', 90), lon: degrees('lon', 180) }),
    errors: [409, 503],
    reply: { form: 'envelope', schema: () => z.object({ status: z.literal('okay') }) },
    handler: async ({ body: { lat, lon }, caller: { microservice }, deps: { agent, changeSettings } }) => {
      const { gpsMode, latitude } = agent.controlled();
      if (gpsMode !== undefined || latitude !== undefined)
        throw new LocalApiError(
          'CONFLICT',
          'the controller has set the position of this node (gpsMode, latitude, longitude); change it there',
        );
      // The schema has checked both.
      const place = coordinatesFrom(lat, lon) ?? { latitude: 0, longitude: 0 };
      const gpsCoordinates = coordinatesText(place);
      if (agent.config.gpsMode === 'manual' && agent.config.gpsCoordinates === gpsCoordinates)
        return { status: 'okay' };
      if (microservice !== '' && !agent.positionChanges.take(microservice)) {
        const seconds = Math.ceil(agent.positionChanges.waitMs(microservice) / 1000);
        throw new LocalApiError('UNAVAILABLE', `the position was set too often; try again in ${seconds} s`);
      }
      const { errorMap } = await changeSettings({ gpsMode: 'manual', gpsCoordinates });
      if (Object.keys(errorMap).length > 0)
        throw new LocalApiError('INVALID_ARGUMENT', `nothing was changed: ${reasonsOf(errorMap)}`, { errorMap });
      return { status: 'okay' };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/system/edge-guard',
    operation: 'getEdgeGuard',
    summary: 'Whether this is the machine of the identity',
    access: 'admin',
    reply: {
      form: 'bare',
      schema: () =>
        z.object({
          state: z.enum(['off', 'matching', 'other machine', 'unknown']),
          members: z.array(z.string()).readonly().describe('what this machine is known by'),
          differing: z.array(z.string()).readonly(),
        }),
    },
    handler: ({ deps: { agent } }) => agent.edgeGuard,
  }),
  route({
    method: 'POST',
    path: '/v1/system/edge-guard/accept',
    operation: 'acceptMachine',
    summary: 'Makes this machine the one of the identity, after its hardware was changed',
    access: 'admin',
    errors: [409, 503],
    reply: { form: 'envelope', schema: () => z.object({ status: z.literal('ok') }) },
    handler: ({ deps: { agent } }) => {
      agent.acceptMachine();
      return { status: 'ok' };
    },
  }),
];

/** Characters of a list of authorities in base64. */
const MOST_CERTIFICATE_TEXT = 256 * 1024;

/** A number, or its text, of at most so many degrees on both sides of zero. */
function degrees(field: string, most: number) {
  const wanted = `${field}: must be a number of degrees from -${most} to ${most}`;
  return z
    .union([z.number(wanted), z.string(wanted).regex(DEGREES, wanted).transform(Number)], wanted)
    .refine((value) => Math.abs(value) <= most, wanted);
}

const pending = () => ({ pendingRestart: z.literal(true).optional(), message: z.string().optional() });

const restartFor = (names: readonly string[]) =>
  names.length > 0 && { pendingRestart: true as const, message: `Restart the agent for: ${names.join(', ')}` };

/** The position as text; 0 and 0 while there is none (docs/spec/agent-local-api.md#position). */
function positionReply(agent: SettingsDependencies['agent']) {
  const { gpsMode = 'off', latitude = 0, longitude = 0 } = agent.effective();
  const text = (at: number, place: { latitude: number; longitude: number }) => ({
    ...{ status: 'okay' as const, timestamp: at },
    ...{ lat: String(place.latitude), lon: String(place.longitude) },
  });
  if (gpsMode === 'manual') return text(agent.settingsSince, { latitude, longitude });
  if (gpsMode === 'off') return text(0, { latitude: 0, longitude: 0 });
  const { fix } = agent;
  return fix ? text(fix.at, fix) : { status: 'unavailable' as const, timestamp: 0, lat: '0', lon: '0' };
}

function reasonsOf(errorMap: Record<string, string>): string {
  return Object.entries(errorMap)
    .map(([name, text]) => `${name}: ${text}`)
    .join('; ');
}
