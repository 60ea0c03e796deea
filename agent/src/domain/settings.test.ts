import { describe, expect, test } from 'vitest';
import type { AgentConfig } from '../../../src/wire/agent.ts';
import { parseConfig } from './config.ts';
import { refusedSettings, settingsInForce } from './settings.ts';

const sources = (wanted: AgentConfig, own = '') => ({
  config: parseConfig(own, '/etc/agent/config.yaml'),
  wanted,
  engine: { kind: undefined, url: 'unix:///engine.sock' },
  foreignContainers: [],
  hasInterface: (name: string) => name === 'eth0',
});

describe('a setting of the controller', () => {
  const taken: AgentConfig[] = [
    { diskLimit: 50 },
    { memoryLimit: 512 },
    { cpuLimit: 200 },
    { logLevel: 'debug' },
    { statusFrequency: 30 },
    { changeFrequency: 60 },
    { pruningFrequency: 12 },
    { availableDiskThreshold: 5 },
    { timeZone: 'Europe/Berlin' },
    { networkInterface: 'eth0' },
    { networkInterface: 'dynamic' },
    { gpsMode: 'off' },
    { gpsMode: 'manual', latitude: 47.5, longitude: 8.7 },
    { edgeGuardFrequency: 0 },
    { gpsMode: 'dynamic', gpsDevice: '/dev/ttyUSB0', gpsScanFrequency: 5 },
    { gpsDevice: '/dev/serial/by-id/usb-u-blox_7-if00' },
  ];
  test.each(taken)('%j is in force', (wanted) => {
    expect(refusedSettings(sources(wanted))).toEqual([]);
    expect(settingsInForce(sources(wanted))).toMatchObject(wanted);
  });

  const refused: [AgentConfig, RegExp][] = [
    [{ diskLimit: 0 }, /^0; .*0.5/],
    [{ memoryLimit: 64 }, /^64; .*128/],
    [{ cpuLimit: 1 }, /^1; .*5/],
    [{ logLevel: 'chatty' }, /^"chatty"; .*DEBUG/],
    [{ statusFrequency: 0 }, /^0; .*1/],
    [{ changeFrequency: 0 }, /^0; .*1/],
    [{ availableDiskThreshold: 200 }, /^200; .*100/],
    [{ timeZone: 'Mars/Olympus' }, /^"Mars\/Olympus"; must be an IANA time zone/],
    [{ networkInterface: 'wlan9' }, /^"wlan9"; the machine has no such interface/],
    [{ logLimit: 1 }, /no log directory/],
    [{ logFileCount: 3 }, /no log directory/],
    [{ gpsMode: 'auto' }, /gpsLookupUrl in the settings of the machine/],
    [{ gpsMode: 'dynamic' }, /needs gpsDevice/],
    [{ gpsDevice: '/dev/watchdog' }, /"\/dev\/watchdog"; .* only serial ports/],
    [{ gpsDevice: '/dev/serial/by-id/../../watchdog' }, /only serial ports/],
    [{ gpsScanFrequency: 0 }, /0; must be at least 1/],
    [{ latitude: 47.5 }, /no longitude; a position has both/],
    [{ longitude: 8.7 }, /no latitude; a position has both/],
    [{ edgeGuardFrequency: 60 }, /only the machine/],
    [{ containerEngineUrl: 'unix:///other.sock' }, /only the machine/],
    [{ diskDirectory: '/mnt' }, /only the machine/],
    [{ watchdogEnabled: true }, /machine has not chosen/],
  ];
  test.each(refused)('%j is refused, and the machine keeps its own', (wanted, reason) => {
    const [field] = Object.keys(wanted) as (keyof AgentConfig)[];
    expect(refusedSettings(sources(wanted))).toEqual([{ field, reason: expect.stringMatching(reason) }]);
    expect(settingsInForce(sources(wanted))[field as 'gpsMode']).toEqual(
      settingsInForce(sources({}))[field as 'gpsMode'],
    );
  });

  test('about log files is in force where the machine has a log directory', () => {
    const { logLimit, logFileCount } = settingsInForce(sources({ logLimit: 1, logFileCount: 3 }, 'logDirectory: logs'));
    expect({ logLimit, logFileCount }).toEqual({ logLimit: 1, logFileCount: 3 });
  });
});

test('the watchdog is in force where the machine lets it remove what it finds', () => {
  const remove = 'watchdog: remove';
  expect(settingsInForce(sources({ watchdogEnabled: true }, remove)).watchdogEnabled).toBe(true);
  expect(refusedSettings(sources({ watchdogEnabled: true }, remove))).toEqual([]);
  expect(settingsInForce(sources({}, remove)).watchdogEnabled).toBe(false);
});

test('coordinates without a mode make the mode manual', () => {
  expect(settingsInForce(sources({ latitude: 1, longitude: 2 }))).toMatchObject({
    gpsMode: 'manual',
    latitude: 1,
    longitude: 2,
  });
});

test.each([
  [{ gpsMode: 'auto' }, 'gpsLookupUrl: https://place.example.com'],
  [{ gpsMode: 'dynamic' }, 'gpsDevice: /dev/gps-of-this-machine'],
  [{ gpsDevice: '/dev/gps-of-this-machine' }, 'gpsDevice: /dev/gps-of-this-machine'],
] as const)('%j of a controller is in force on a machine with %s', (wanted, own) => {
  expect(refusedSettings(sources(wanted, own))).toEqual([]);
});

test('an edge guard of the machine is not switched off by its controller', () => {
  const [given, own] = [{ edgeGuardFrequency: 0 }, 'edgeGuardFrequency: 60'];
  expect(refusedSettings(sources(given, own))).toHaveLength(1);
  expect(settingsInForce(sources(given, own)).edgeGuardFrequency).toBe(60);
});

test('coordinates that were found are in force in the modes that look for them, and in no other', () => {
  const position = { latitude: 1.5, longitude: 2.5 };
  const device = 'gpsDevice: /dev/ttyS0\ngpsCoordinates: 47.5,8.7\n';
  const inForce = (mode: string) => settingsInForce({ ...sources({}, `${device}gpsMode: ${mode}`), position });
  expect(inForce('dynamic')).toMatchObject(position);
  expect(inForce('manual')).toMatchObject({ latitude: 47.5, longitude: 8.7 });
  expect(inForce('off')).not.toHaveProperty('latitude');
  expect(settingsInForce(sources({}, `${device}gpsMode: dynamic`))).not.toHaveProperty('latitude');
});

test('one coordinate alone is never combined with one of the machine', () => {
  const own = 'gpsCoordinates: 47.5,8.7';
  expect(settingsInForce(sources({ gpsMode: 'manual', latitude: 1 }, own))).toMatchObject({
    latitude: 47.5,
    longitude: 8.7,
  });
});

test('coordinates are in force in the mode manual only, also those of the machine', () => {
  const own = 'gpsMode: manual\ngpsCoordinates: 47.5,8.7';
  expect(settingsInForce(sources({}, own))).toMatchObject({ gpsMode: 'manual', latitude: 47.5, longitude: 8.7 });
  expect(settingsInForce(sources({ gpsMode: 'off' }, own))).not.toHaveProperty('latitude');
  expect(settingsInForce(sources({ gpsMode: 'off', latitude: 1, longitude: 2 }))).not.toHaveProperty('latitude');
});
