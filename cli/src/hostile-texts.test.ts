import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import type { KubeClient } from '../../src/kube/mod.ts';
import { encodeFrame, FRAME_TYPES } from '../../src/wire/frames.ts';
import { storedApplication, storedNode } from '../../testing/stored.ts';
import { createPlugin } from './_plugin.ts';
import { COMMANDS } from './commands.ts';

/** Commands over objects, errors and sessions whose every text commands a terminal: titles, colours, lines that look like others. */
const BAD = '\u001b]0;owned\u0007\u001b[2J\u009b31m\r\u0000\u007f\nREADY';
const CONTROL = /(?!\n|\r\n)\p{Cc}/u;
/** What `get` itself paints with. */
const PAINT = ['\u001b[31m', '\u001b[33m', '\u001b[0m'];
const WEB = '7faa827a-4355-4898-8705-10cb8a4c9efa';

/** Every text, except by which objects are found. */
function hostile<T>(value: T, key = ''): T {
  if (Array.isArray(value)) return value.map((one) => hostile(one)) as T;
  if (value !== null && typeof value === 'object')
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, hostile(one, name)])) as T;
  const isKept = /^(?:apiVersion|kind|namespace|uuid|.*Timestamp|.*Time)$/.test(key);
  return (typeof value === 'string' && !isKept ? value + BAD : value) as T;
}

const condition = {
  type: 'Ready',
  status: 'False',
  reason: 'Bad',
  message: 'bad',
  lastTransitionTime: '2026-01-01T00:00:00Z',
};
const node = {
  ...storedNode('gw', { description: 'd', location: 'l' }),
  status: {
    ...{ daemonStatus: 'RUNNING', version: '1.0', ipAddress: '10', containerEngine: 'docker', systemOs: 'linux' },
    ...{ availableRuntimes: ['runc'], warningMessage: 'w', systemOsVersion: '1', conditions: [condition] },
    microservices: [
      {
        uuid: WEB,
        name: 'web',
        application: 'shop',
        state: 'FAILED',
        lastError: 'e',
        image: 'i',
        healthMessage: 'h',
        restartCount: 1,
      },
    ],
  },
};
const shop = {
  ...storedApplication('shop', [{ name: 'web', uuid: WEB, agent: { name: 'gw' }, images: { amd64: 'x' } }]),
  status: {
    ...{ uuid: WEB, ready: '0/1', conditions: [condition] },
    microservices: [{ name: 'web', uuid: WEB, state: 'FAILED', ready: 'no', message: 'm', node: 'gw' }],
  },
};
const event = {
  apiVersion: 'events.k8s.io/v1',
  kind: 'Event',
  metadata: { name: 'e' },
  type: 'Warning',
  reason: 'r',
  note: 'n',
};

const OBJECTS: Readonly<Record<string, unknown>> = {
  edgenodes: hostile({ ...node, metadata: { ...node.metadata } }),
  applications: hostile(shop),
  events: hostile(event),
};
const objectOf = ({ plural }: { plural: string }) => structuredClone(OBJECTS[plural]);
const answers = {
  list: async (resource: { plural: string }) => ({ items: [objectOf(resource)].filter(Boolean), metadata: {} }),
  request: async () => ({ gitVersion: `v1.20${BAD}`, minor: '20' }),
};
const client = new Proxy(answers, {
  get: (known, name) => Reflect.get(known, name) ?? (async (resource: { plural: string }) => objectOf(resource)),
}) as unknown as KubeClient;
const refusing = new Proxy(
  {},
  { get: () => () => Promise.reject(new Error(`refused ${BAD}`)) },
) as unknown as KubeClient;

let controller = '';
beforeAll(async () => {
  const server = createServer((_, response) => response.writeHead(500).end(JSON.stringify({ message: BAD })));
  const sockets = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, socket, head) =>
    sockets.handleUpgrade(request, socket, head, (ws) => {
      const say = (type: keyof typeof FRAME_TYPES, more = {}) =>
        ws.send(encodeFrame({ type: FRAME_TYPES[type], data: Buffer.from(BAD), ...more }));
      if (request.url?.includes('/logs')) say('LOG_ERROR');
      say('STDERR', { notice: true });
      say('CLOSE');
      ws.close(1008, BAD);
    }),
  );
  await once(server.listen(0, '127.0.0.1'), 'listening');
  controller = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return () => void server.close();
});

/** A few forms of each command. */
const LINES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  get: ['nodes', 'apps', 'ms'].flatMap((what) => ['table', 'wide', 'json', 'yaml'].map((form) => [what, '-o', form])),
  describe: [
    ['node', 'gw'],
    ['app', 'shop'],
    ['ms', `shop/web${BAD}`],
  ],
  nodes: [[], ['-o', 'json'], ['-o', 'yaml']],
  doctor: [[], ['-o', 'json']],
  version: [[], ['-o', 'json']],
  logs: [[`shop/web${BAD}`], [`shop/web${BAD}`, '-f']],
  exec: [[`shop/web${BAD}`, 'ls']],
  cp: [[`shop/web${BAD}:/a`, '-']],
};

describe.each(COMMANDS.map(({ name }) => name))('%s prints no control characters of', (name) => {
  const lines = LINES[name] ?? [['gw'], ['shop'], [`shop/web${BAD}`], ['node', 'gw'], ['-f', `none${BAD}`]];
  const env = () => ({ SKERRY_CONTROLLER: controller, SKERRY_TOKEN: 'admin' });
  const check = async (from: KubeClient, line: readonly string[]) => {
    const { out, err } = await createPlugin(from, 'skerry', { colours: true, env: env() })(name, ...line);
    expect(PAINT.reduce((rest, one) => rest.replaceAll(one, ''), out)).not.toMatch(CONTROL);
    expect(err).not.toMatch(CONTROL);
    return out + err;
  };

  test.each(lines)('objects and sessions: %j %j %j', async (...line) => {
    expect(
      await check(
        client,
        line.filter((word) => word !== undefined),
      ),
    ).not.toBe('');
  });

  test('words of the command line, and errors of the API server', async () => {
    await check(refusing, lines[0] ?? []);
    await check(client, [`--flag${BAD}`, BAD]);
  });
});
