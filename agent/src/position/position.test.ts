import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import type { AgentConfig } from '../../../src/wire/agent.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { until } from '../engines/_contract.ts';
import { VirtualClock } from '../machine/_virtual-clock.ts';
import { systemClock } from '../machine/clock.ts';
import { lines } from '../machine/http.ts';
import { readDevice } from '../machine/receiver.ts';
import { askForPosition } from './look-up.ts';
import { Position, type PositionDependencies } from './position.ts';

const FIX = '$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n';
const HERE = { latitude: 48.1173, longitude: 11.51667 };
const NO_FIX = '$GPRMC,123519,V,,,,,,,230394,,,N*70\r\n';

let changes = 0;
beforeEach(() => {
  changes = 0;
});

function begin(settings: AgentConfig, more: Partial<PositionDependencies> = {}): Position {
  const position = new Position({
    config: { gpsLookupUrl: '' },
    ...{ clock: systemClock(), random: () => 0.5, log: silentLog },
    settings: () => ({ gpsScanFrequency: 1, ...settings }),
    readDevice: (path, signal) => readDevice(path, signal, systemClock()),
    lookUp: askForPosition,
    changed: () => {
      changes++;
    },
    ...more,
  });
  const stop = new AbortController();
  const done = position.run(stop.signal);
  onTestFinished(async () => {
    stop.abort();
    await done;
  });
  return position;
}

/** A receiver on a real terminal: python's `pty`, which writes what it is given, and says where its other end is. */
async function receiver(): Promise<{ path: string; say(text: string): void; pullOut(): void }> {
  const script = [
    'import os, pty, sys, tty',
    'master, slave = pty.openpty()',
    'print(os.ttyname(slave), flush=True)',
    'for line in sys.stdin:',
    '    os.write(master, bytes(line.rstrip("\\n").encode().decode("unicode_escape"), "latin1"))',
  ].join('\n');
  const child = spawn('python3', ['-c', script], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  child.stdin.on('error', () => {});
  for await (const path of lines(child.stdout as never, 1000))
    return {
      path,
      say: (text) => void child.stdin.write(`${JSON.stringify(text).slice(1, -1)}\n`),
      pullOut: () => void child.kill('SIGKILL'),
    };
  throw new Error('python3 gave no terminal');
}

describe('a receiver', () => {
  test('gives the position, with the time at which it was read', async () => {
    const { path, say } = await receiver();
    const before = Date.now();
    const position = begin({ gpsMode: 'dynamic', gpsDevice: path });
    expect(position.report()).toEqual({ gpsStatus: 'UNHEALTHY' });
    const speaking = setInterval(() => say(`${NO_FIX}noise\r\n${FIX}`), 20);
    onTestFinished(() => clearInterval(speaking));
    await until('the position', () => position.fix !== undefined);
    expect(position.fix).toMatchObject(HERE);
    expect(position.fix?.at).toBeGreaterThanOrEqual(before);
    expect([position.reported, position.report(), position.problems]).toEqual([HERE, { gpsStatus: 'HEALTHY' }, []]);
  });

  test('pulled out of the machine is a problem, and is read again when it is back; the last position keeps its time', async () => {
    const link = join(temporaryFolder(), 'gps');
    const first = await receiver();
    symlinkSync(first.path, link);
    const position = begin({ gpsMode: 'dynamic', gpsDevice: link });
    first.say(FIX);
    await until('the position', () => position.fix !== undefined);
    const { fix } = position;
    first.pullOut();
    rmSync(link);
    await until('the problem', () => position.problems.length > 0);
    expect(position.problems[0]).toMatch(/^position: .*gps (?:is not there; it is looked for again|was pulled out)/);
    expect([position.fix, position.report()]).toEqual([fix, { gpsStatus: 'UNHEALTHY' }]);
    const second = await receiver();
    const speaking = setInterval(() => second.say(FIX), 20);
    onTestFinished(() => clearInterval(speaking));
    symlinkSync(second.path, `${link}.new`);
    renameSync(`${link}.new`, link);
    await until('the position again', () => position.problems.length === 0);
    expect(position.fix?.at).toBeGreaterThan(fix?.at ?? 0);
  });
});

describe('a device', () => {
  test.each([
    ['a file', (path: string) => writeFileSync(path, FIX)],
    ['a FIFO', (path: string) => void execFileSync('mkfifo', [path])],
    ['a directory', (path: string) => mkdirSync(path)],
  ])('behind which there is %s is not read', async (_, make) => {
    const path = join(temporaryFolder(), 'gps');
    make(path);
    const position = begin({ gpsMode: 'dynamic', gpsDevice: path });
    await until('the problem', () => position.problems.length > 0);
    expect(position.problems[0]).toMatch(/gps is no character device$/);
    expect(position.fix).toBeUndefined();
  });

  test('with a line that has no end is given up after a bounded number of bytes', async () => {
    let read = 0;
    const position = begin(
      { gpsMode: 'dynamic', gpsDevice: '/dev/zero' },
      {
        readDevice: async function* (path, signal) {
          for await (const piece of readDevice(path, signal, systemClock())) {
            read += piece.length;
            yield piece;
          }
        },
      },
    );
    await until('the problem', () => position.problems.length > 0);
    expect(position.problems).toEqual(['position: /dev/zero sends something else than sentences of NMEA']);
    expect(read).toBeLessThan(300 * 1024);
  });

  test('without a word is given up in time, and asked again at growing intervals', async () => {
    const clock = new VirtualClock();
    const opened: number[] = [];
    begin(
      { gpsMode: 'dynamic', gpsDevice: '/dev/gps0', gpsScanFrequency: 60 },
      {
        clock,
        readDevice: async function* (_path, signal) {
          opened.push(clock.now());
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        },
      },
    );
    for (let at = 0; at < 60; at++) await clock.advance(60_000);
    const pauses = opened.slice(1).map((at, index) => Math.round((at - (opened[index] ?? 0)) / 1000));
    expect(pauses.slice(0, 3)).toEqual([70, 130, 250]);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(340);
  });
});

test('a position that hardly moves is reported once', async () => {
  const clock = new VirtualClock();
  const places = ['48.00000', '48.00003', '48.00009', '48.00040'];
  let asked = 0;
  const position = begin(
    { gpsMode: 'auto', gpsScanFrequency: 60 },
    {
      clock,
      config: { gpsLookupUrl: 'https://place.example.com' },
      lookUp: async () => `{"lat": ${places[asked++] ?? places.at(-1)}, "lon": 1}`,
    },
  );
  await clock.advance(0);
  const [first, seen] = [position.reported, changes];
  for (let at = 0; at < 2; at++) await clock.advance(60_000);
  expect([position.reported, changes, position.fix?.latitude]).toEqual([first, seen, 48.00009]);
  await clock.advance(60_000);
  expect([position.reported?.latitude, changes]).toEqual([48.0004, seen + 1]);
});

describe('an address that knows where this machine is', () => {
  async function serve(listener: RequestListener): Promise<string> {
    const server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/json?key=canary`;
  }
  const ask = (gpsLookupUrl: string) => begin({ gpsMode: 'auto' }, { config: { gpsLookupUrl } });

  test.each([
    '{"lat": 48.1173, "lon": 11.51667}',
    '{"latitude": "48.11730", "longitude": "11.516670001"}',
    '{"loc": "48.1173,11.51667"}',
  ])('gives the position with %s', async (answer) => {
    const position = ask(await serve((_, response) => void response.end(answer)));
    await until('the position', () => position.fix !== undefined);
    expect(position.reported).toEqual(HERE);
  });

  const wrong: Record<string, [RequestListener, RegExp]> = {
    'that has none': [(_, response) => void response.end('{"lat": 100, "lon": 0}'), /answers without a position/],
    'that is no JSON': [(_, response) => void response.end('<html>'), /answers without a position/],
    'with another status': [(_, response) => void response.writeHead(500).end(), /status 500$/],
    'that leads elsewhere': [(_, response) => void response.writeHead(302, { location: '/x' }).end(), /status 302$/],
    'of a gigabyte by its length': [
      (_, response) => void response.writeHead(200, { 'content-length': 1e9 }).write('x'),
      /larger than 65536 bytes$/,
    ],
    'that does not end': [
      (_, response) => {
        const more = () => {
          while (!response.destroyed && response.write(Buffer.alloc(65_536)));
        };
        response.on('drain', more);
        more();
      },
      /larger than 65536 bytes$/,
    ],
  };
  for (const [name, [listener, says]] of Object.entries(wrong))
    test(`with an answer ${name} gives none, and the key in it is in no text`, async () => {
      const position = ask(await serve(listener));
      await until('the problem', () => position.problems.length > 0);
      expect(position.problems[0]).toMatch(says);
      expect(position.problems[0]).not.toContain('canary');
      expect(position.fix).toBeUndefined();
    });
});

test('a position ends with the mode that found it', async () => {
  let settings: AgentConfig = { gpsMode: 'auto' };
  const position = begin(
    {},
    {
      config: { gpsLookupUrl: 'https://place.example.com' },
      settings: () => settings,
      lookUp: async () => '{"lat": 1, "lon": 1}',
    },
  );
  await until('the position', () => position.fix !== undefined);
  settings = { gpsMode: 'off' };
  expect([position.fix, position.reported, position.report()]).toEqual([undefined, undefined, { gpsStatus: 'OFF' }]);
  position.settingsChanged();
  settings = { gpsMode: 'manual' };
  expect(position.report()).toEqual({ gpsStatus: 'HEALTHY' });
});
