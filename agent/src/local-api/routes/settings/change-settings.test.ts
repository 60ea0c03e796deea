import files, {
  appendFileSync,
  chmodSync,
  closeSync,
  existsSync,
  lstatSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { until } from '../../../engines/_contract.ts';
import { editText } from '../../../machine/disk.ts';
import { LocalAgent } from '../../_local-agent.ts';
import { changeSettings } from './change-settings.ts';

/** `skerry-agent config` with a file of settings. */

let local: LocalAgent;

beforeEach(async () => {
  local = await LocalAgent.start({ writesSettings: true });
  await local.agent.provision(local.controller.joinString);
  return () => local[Symbol.asyncDispose]();
});

test('a new address of the controller is tried, and taken with a warning where no controller answers', async () => {
  const { code, out, err } = await local.cli('config', 'controllerUrl=http://127.0.0.1:1');
  expect([code, out]).toEqual([0, 'Changed.\n']);
  expect(err).toMatch(/^Warning: the controller at http:\/\/127\.0\.0\.1:1 does not answer: .*ECONNREFUSED/);
  expect(err).toContain(`back to the former address: skerry-agent config controllerUrl=${local.controller.url}`);
  expect(local.agent.identity.node?.controllerUrl).toBe('http://127.0.0.1:1');
  expect(readFileSync(local.configFile, 'utf8')).toContain('controllerUrl: http://127.0.0.1:1');
  expect(await local.cli('config', `controllerUrl=${local.controller.url}`)).toEqual({
    ...{ code: 0, out: 'Changed.\n', err: '' },
  });
  expect(local.agent.identity.node?.controllerUrl).toBe(local.controller.url);
});

test('the last contact with the controller outlasts a change of its address', async () => {
  await until('a contact', () => local.agent.connection.lastContact > 0);
  await local.cli('config', 'controllerUrl=http://127.0.0.1:1');
  const { out } = await local.cli('status');
  expect(out).toMatch(/Last contact: +\d+s ago/);
});

test('a command reaches an agent whose file of settings has become invalid', async () => {
  appendFileSync(local.configFile, '\nstatusFrequency: x\n');
  expect(await local.cli('status')).toMatchObject({ code: 0, out: expect.stringContaining('Agent:') });
});

const text = () => readFileSync(local.configFile, 'utf8');
const patch = (set: object) => local.ask('PATCH', '/v1/system/config', { set });

/** A setting, and the words of its refusal. */
const refused: [Record<string, unknown>, RegExp][] = [
  [{ devMode: 'on' }, /has no effect: it was for the development/],
  [{ arch: 'arm64' }, /has no effect: the agent reports the architecture/],
  [{ upgradeScanFrequency: 5 }, /has no effect: the controller says/],
  [{ logLimit: 5 }, /has no effect: without logDirectory/],
  [{ gpsMode: 'auto' }, /needs gpsLookupUrl/],
  [{ gpsMode: 'dynamic' }, /needs gpsDevice/],
  [{ gpsDevice: '/etc/passwd' }, /must be a character device; this is a file/],
  [{ gpsDevice: 'ttyS0' }, /must be an absolute path/],
  [{ gpsCoordinates: '91,0' }, /"91,0": must be latitude and longitude/],
  [{ gpsLookupUrl: 'http://place.example.com' }, /must be an address that begins with https/],
  [{ tz: 'Mars/Olympus' }, /"Mars\/Olympus": must be an IANA time zone/],
  [{ controllerCert: '/nowhere.pem' }, /there is no such file/],
  [{ controllerCert: '/etc/passwd' }, /must be certificates in PEM/],
  [{ bridgeCidr: '172.30.0.1/16' }, /must be a private network/],
  [{ bridgeCidr: '8.8.0.0/16' }, /must be a private network/],
  [{ shutdownPolicy: 'kill' }, /must be one of leave-running, drain-all/],
  [{ shutdownGracePeriodSeconds: 601 }, /must be at most 600/],
  [{ controllerPingTimeoutSeconds: 4 }, /must be at least 5/],
  [{ namespace: 'A b' }, /must be small letters/],
  [{ statusFrequency: { a: 1 } }, /must be a number/],
  [{ timeZone: 'x'.repeat(5000) }, /must be at most 4096 characters/],
  [{ nonsense: 1 }, /no such setting/],
];
test.each(refused)(
  '%j is refused alone with 400, beside another setting with an error map, and is not saved',
  async (set, says) => {
    const [name = ''] = Object.keys(set);
    const before = text();
    const alone = await patch(set);
    expect([alone.status, text()]).toEqual([400, before]);
    const { status, body } = await patch({
      ...set,
      statusFrequency: name === 'statusFrequency' ? set[name] : 7,
      cf: 9,
    });
    expect(status).toBe(200);
    expect((body.data as { errorMap: Record<string, string> }).errorMap[name]).toMatch(says);
    expect(text()).not.toContain(`${name}:`);
    expect(local.agent.config.changeFrequency).toBe(9);
  },
);

test('a network interface that the machine does not have is 400 before anything is saved, with the field', async () => {
  const before = text();
  const { status, body } = await patch({ n: 'wlan9', statusFrequency: 7 });
  expect([status, body.error]).toMatchObject([
    400,
    { code: 'INVALID_ARGUMENT', details: { field: 'networkInterface' } },
  ]);
  expect(text()).toBe(before);
  expect((await patch({ n: 'eth0' })).status).toBe(200);
});

test('a mode whose device is refused is refused with it', async () => {
  const { body } = await patch({ gpsMode: 'dynamic', gpsDevice: '/etc/passwd', statusFrequency: 7 });
  expect(Object.keys(body.data?.errorMap ?? {})).toEqual(['gpsDevice', 'gpsMode']);
  expect(text()).not.toContain('gps');
});

test('one setting by two of its names is refused the second time', async () => {
  const { body } = await patch({ sf: 5, statusFrequencySeconds: 6 });
  expect(body.data?.errorMap).toEqual({ statusFrequencySeconds: 'means the same setting as sf' });
});

test('a setting that the file spells in another way is changed, not written beside it', async () => {
  appendFileSync(local.configFile, 'sf: 5\n');
  await patch({ statusFrequency: 17 });
  expect(text()).not.toContain('sf:');
  expect(local.agent.config.statusFrequency).toBe(17);
});

test('changes at once, and an edit between reading and writing, lose nothing', async () => {
  await Promise.all([patch({ statusFrequency: 17 }), patch({ changeFrequency: 18 }), patch({ cpuLimit: 19 })]);
  let edits = 0;
  editText(local.configFile, (before = '') => {
    // Another program is faster: at first with another file in its place, then with the same one.
    if (edits++ === 0) editText(local.configFile, (now) => `${now}memoryLimit: 512\n`);
    else if (edits === 2) appendFileSync(local.configFile, 'diskLimit: 33\n');
    return `${before}logLevel: WARN\n`;
  });
  expect(edits).toBe(3);
  for (const line of [
    'statusFrequency: 17',
    'changeFrequency: 18',
    'cpuLimit: 19',
    'memoryLimit: 512',
    'diskLimit: 33',
  ])
    expect(text()).toContain(line);
  expect(text().match(/logLevel/g)).toHaveLength(1);
});

test('an edit through a file that was open when another took its place is not lost', () => {
  const open = openSync(local.configFile, 'a');
  const { renameSync } = files;
  let renamed = 0;
  vi.spyOn(files, 'renameSync').mockImplementation((from, to) => {
    if (renamed++ === 0) writeSync(open, 'memoryLimit: 512\n');
    renameSync(from, to);
  });
  syncBuiltinESMExports();
  try {
    editText(local.configFile, (before) => `${before}logLevel: WARN\n`);
  } finally {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
    closeSync(open);
  }
  expect(text()).toMatch(/memoryLimit: 512\nlogLevel: WARN\n$/);
});

test('a file of settings keeps its mode, and a link to it stays a link', async () => {
  chmodSync(local.configFile, 0o600);
  const link = join(local.folder, 'link.yaml');
  symlinkSync(local.configFile, link);
  editText(link, (before) => `${before}logLevel: WARN\n`);
  expect(text()).toContain('logLevel: WARN');
  expect(statSync(local.configFile).mode & 0o777).toBe(0o600);
  expect(lstatSync(link).isSymbolicLink()).toBe(true);
});

test('a setting that the controller has set is saved, and a warning says which value holds', async () => {
  local.controller.change({ config: { statusFrequency: 30 } });
  await until('the setting', () => local.agent.controlled().statusFrequency === 30);
  const { body } = await patch({ statusFrequency: 7 });
  expect(body.data?.warning).toMatch(/^statusFrequency is saved, and the value that the controller has set .* holds$/);
});

describe('another profile', () => {
  const profiles = 'currentProfile: production\nprofiles:\n  default: {}\n  development:\n    logLevel: DEBUG\n';
  beforeEach(() =>
    appendFileSync(local.configFile, `${profiles}  production:\n    localApiPort: 1\n    timeZone: Mars\n`),
  );
  const to = (profile: string) => local.ask('POST', '/v1/system/config/switch', { profile });

  test.each([
    ['dev', 'development'],
    ['development', 'development'],
    ['def', 'default'],
  ])('is in use by the name %s', async (name, profile) => {
    const { status, body } = await to(name);
    expect([status, body.data]).toMatchObject([200, { status: 'ok', oldProfile: 'production', profile }]);
    expect(body.data).toMatchObject({ pendingRestart: true, message: 'Restart the agent for: localApiPort' });
    expect(text()).toContain(`currentProfile: ${profile}`);
    expect(local.agent.config.logLevel).toBe(profile === 'default' ? 'INFO' : 'DEBUG');
    const { code, out } = await local.cli('config', 'switch', 'def');
    expect([code, out]).toEqual([0, `The profile is default; it was ${profile}.\n`]);
  });

  test('is 400 with a name that is none, and where the file does not have it, or its settings are wrong', async () => {
    expect((await to('staging')).body.error?.message).toMatch(/^profile "staging" is none of dev, prod, def/);
    await to('dev');
    const before = text();
    const wrong = await to('prod');
    expect([wrong.status, wrong.body.error?.message]).toEqual([
      400,
      expect.stringMatching(/^profile production: timeZone "Mars": must be an IANA/),
    ]);
    writeFileSync(local.configFile, before.split('  production:')[0] ?? '');
    expect((await to('prod')).body.error?.message).toMatch(
      /has no profile "production"; it has: default, development$/,
    );
    writeFileSync(local.configFile, 'logLevel: INFO\n');
    expect((await to('prod')).body.error?.message).toMatch(/has no profiles/);
  });
});

describe('the position', () => {
  test.each([
    [{ lat: 47.498823, lon: '-8.7' }, '47.49882', '-8.7'],
    [{ lat: '-90', lon: 180 }, '-90', '180'],
  ])('%j is set, saved and reported', async (place, lat, lon) => {
    const before = Date.now();
    const answer = await local.ask('POST', '/v1/system/gps', place);
    expect([answer.status, answer.body]).toEqual([200, { success: true, data: { status: 'okay' } }]);
    expect(text()).toMatch(/gpsMode: manual/);
    const { body } = await local.ask('GET', '/v1/system/gps');
    expect(body).toMatchObject({ status: 'okay', lat, lon });
    expect(body.timestamp).toBeGreaterThanOrEqual(before);
    const config = () => local.controller.reports.findLast((report) => report.config)?.config;
    await until('the report', () => config()?.latitude === Number(lat));
    expect(config()).toMatchObject({ gpsMode: 'manual', longitude: Number(lon) });
  });

  test.each([
    [{ lat: 91, lon: 0 }, 'lat: must be a number of degrees from -90 to 90'],
    [{ lat: 0, lon: '180.1' }, 'lon: must be a number of degrees from -180 to 180'],
    [{ lat: '4e1', lon: 0 }, 'lat: must be a number of degrees from -90 to 90'],
    [{ lat: null, lon: 0 }, 'lat: must be a number of degrees from -90 to 90'],
    [{ lat: 1 }, 'lon: must be a number of degrees from -180 to 180'],
  ])('%j is 400', async (place, message) => {
    const { status, body } = await local.ask('POST', '/v1/system/gps', place);
    expect([status, body.error?.message]).toEqual([400, message]);
    expect(text()).not.toContain('gps');
  });
});

describe("the authority of the controller's certificate", () => {
  const pem = readFileSync(join(import.meta.dirname, '../../../link/testdata/ca.pem'), 'utf8');
  const install = (certificate: unknown) => local.ask('POST', '/v1/system/controller/cert', { certificate });
  const base64 = (of: string) => Buffer.from(of).toString('base64');

  test('is written for its owner alone, and switches secureMode on', async () => {
    await patch({ secureMode: 'off' });
    const path = join(local.folder, 'cert.crt');
    local.agent.config.controllerCert = path;
    const { status, body } = await install(base64(pem));
    expect([status, body.data]).toEqual([
      200,
      {
        ...{ status: 'ok', updatedKey: 'controllerCert', certificatePath: path },
        ...{ secureMode: 'on', certificateInstalled: true },
      },
    ]);
    expect(readFileSync(path, 'utf8').trim()).toBe(pem.trim());
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(local.agent.config.secureMode).toBe(true);
  });

  test.each([
    ['no base64', '!!!', /is not base64/],
    ['nothing', '', /certificate "" is not the base64 of certificates/],
    ['no PEM', base64('hello'), /must be certificates in PEM/],
    ['a certificate that cannot be read', base64(pem.replace(/M/, 'A')), /certificate 1 of 1 cannot be read/],
    ['a private key as well', base64(`${pem}-----BEGIN PRIVATE KEY-----\nx\n`), /private key/],
    ['more authorities than a controller has', base64(pem.repeat(17)), /at most 16/],
    ['a number', 7, /certificate "7" is not the base64/],
  ])('is 400 for %s', async (_, certificate, says) => {
    local.agent.config.controllerCert = join(local.folder, 'cert.crt');
    const { status, body } = await install(certificate);
    expect([status, body.error?.message]).toEqual([400, expect.stringMatching(says)]);
    expect(existsSync(join(local.folder, 'cert.crt'))).toBe(false);
  });

  test('is 400 where controllerCert names no file, and never replaces a file that is another', async () => {
    expect([(await install(base64(pem))).status]).toEqual([400]);
    const path = join(local.folder, 'cert.crt');
    local.agent.config.controllerCert = path;
    writeFileSync(path, pem.repeat(20));
    expect((await install(base64(pem))).body.error?.message).toMatch(/holds 20 certificates/);
    writeFileSync(path, 'a diary');
    expect((await install(base64(pem))).body.error?.message).toMatch(/holds something else than certificates/);
    rmSync(path);
    symlinkSync('/etc/hostname', path);
    expect((await install(base64(pem))).status).toBe(409);
  });
});

test('a setting that is changed while a new address is tried stays changed', async () => {
  const asked = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<undefined>();
  const agent = {
    identity: {},
    controlled: () => ({}),
    moveController: () => {},
    controllerProblemAt: () => {
      asked.resolve();
      return answered.promise;
    },
  };
  const change = (set: object) => changeSettings({ ...set }, { ...local.writer, agent, reload: () => {} });
  const slow = change({ controllerUrl: 'http://127.0.0.1:1' });
  await asked.promise;
  await change({ statusFrequency: 17 });
  answered.resolve(undefined);
  await slow;
  const text = readFileSync(local.configFile, 'utf8');
  expect(text).toContain('statusFrequency: 17');
  expect(text).toContain('controllerUrl: http://127.0.0.1:1');
});

test('a new address at which a controller does not know this node has a warning', async () => {
  await using other = await LocalAgent.start();
  const { code, err } = await local.cli('config', `controllerUrl=${other.controller.url}`);
  expect(code).toBe(0);
  expect(err).toMatch(/^Warning: .*401 AGENT_NODE_NOT_FOUND/);
});
