import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, type Server as NetServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { makeCertificate } from '../../../hack/certificate.ts';
import { CONTROLLER_CERTIFICATE } from '../../../src/api/names.ts';
import { encodeFrame, FRAME_TYPES } from '../../../src/wire/frames.ts';
import { storedApplication } from '../../../testing/stored.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { pluginWith } from '../_plugin.ts';
import { loadCluster } from './cluster.ts';

/**
 * Sessions of the plugin without an address, over an API server that forwards ports as the kubelet does: with TLS, over a
 * WebSocket of the protocol v4.channel.k8s.io, to controllers that are its pods.
 */

const folder = temporaryFolder();
let certificate: ReturnType<typeof makeCertificate>;
beforeAll(() => {
  certificate = makeCertificate(folder, ['127.0.0.1', 'skerry.plant.svc', 'skerry.example']);
});

const WEB = '7faa827a-4355-4898-8705-10cb8a4c9efa';
const CACHE = '0d1c1c6e-2a0f-4a0e-9d0e-5a3c1d7e8f90';
const shop = storedApplication('shop', [
  { name: 'web', uuid: WEB, agent: { name: 'edge-1' }, images: { amd64: 'x' } },
  { name: 'cache', uuid: CACHE, agent: { name: 'edge-1' }, images: { amd64: 'x' } },
]);
const LABELS = { 'app.kubernetes.io/name': 'skerry', 'app.kubernetes.io/component': 'controller' };
const say = (ws: WebSocket, type: keyof typeof FRAME_TYPES, text = '', timestamp = 0) =>
  ws.send(encodeFrame({ type: FRAME_TYPES[type], data: Buffer.from(text), timestamp }));
const tell =
  (text: string, timestamp = 1_000) =>
  (ws: WebSocket) => {
    say(ws, 'LOG_LINE', text, timestamp);
    say(ws, 'LOG_STOP');
    ws.close(1000);
  };

type Answer = (ws: WebSocket, pod: string) => void;

/** What the tests set of the API server and the controllers, and what these saw. */
let world: {
  pods: { name: string; isReady?: boolean; env?: { name: string; value: string }[] }[];
  namespace: string;
  hasService: boolean;
  /** by plural, or `portforward` */
  forbidden: Set<string>;
  /** pods whose port refuses the kubelet */
  broken: Set<string>;
  /** pods that are listed and exist no more */
  gone: Set<string>;
  /** instead of the answer to a port-forward */
  stalled: (() => void) | undefined;
  answer: Answer;
  requests: string[];
  forwarded: string[];
  tokens: (string | undefined)[];
};
let api: Server;
let listening: string;
const closers: (() => void)[] = [];
const sockets = new Set<Socket>();

function serve<S extends NetServer>(server: S): Promise<S> {
  server.on('connection', (socket: Socket) => {
    sockets.add(socket.once('close', () => sockets.delete(socket)));
  });
  closers.push(() => void server.close());
  return once(server.listen(0, '127.0.0.1'), 'listening').then(() => server);
}
const portOf = (server: NetServer) => (server.address() as AddressInfo).port;

/** A controller of one pod. */
async function startController(pod: string, isSecure: boolean): Promise<number> {
  const files = { cert: readFileSync(certificate.cert), key: readFileSync(certificate.key) };
  const server = await serve(isSecure ? createHttpsServer(files) : createHttpServer());
  const accept = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    world.tokens.push(request.headers.authorization);
    accept.handleUpgrade(request, socket, head, (ws) => world.answer(ws, pod));
  });
  return portOf(server);
}

const kubeStatus = (code: number, reason: string, message: string) =>
  JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message });

function answerOf(url: URL): [number, string] {
  const [, plural = '', name] = /\/namespaces\/[^/]+\/([^/]+)\/?([^/]*)/.exec(url.pathname) ?? [];
  const { namespace } = world;
  const denied = kubeStatus(403, 'Forbidden', `${plural} is forbidden: User "ann" cannot read "${plural}"`);
  if (world.forbidden.has(plural)) return [403, denied];
  if (plural === 'applications') return [200, JSON.stringify(shop)];
  if (plural === 'services' && world.hasService) {
    const spec = { selector: LABELS, ports: [{ name: 'rest', port: 443, targetPort: 'rest' }] };
    return [200, JSON.stringify({ apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec })];
  }
  if (plural === 'pods') {
    const items = world.pods.map((pod) => ({
      metadata: { name: pod.name, namespace },
      spec: {
        containers: [
          {
            env: pod.env ?? [],
            ports: [{ name: 'rest', containerPort: 51_121 }],
            volumeMounts: [{ name: 'tls', mountPath: '/tls' }],
          },
        ],
        volumes: [{ name: 'tls', secret: { secretName: 'skerry-tls' } }],
      },
      status: { conditions: [{ type: 'Ready', status: pod.isReady === false ? 'False' : 'True' }] },
    }));
    return [200, JSON.stringify({ items, metadata: { resourceVersion: '1' } })];
  }
  if (plural === 'secrets' && (name === 'skerry-tls' || name === CONTROLLER_CERTIFICATE)) {
    const base64 = (...pem: string[]) => Buffer.from(pem.join('')).toString('base64');
    const data = {
      'ca.crt': base64(certificate.ca),
      'tls.crt': base64(readFileSync(certificate.cert, 'utf8'), certificate.ca),
    };
    return [200, JSON.stringify({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, data })];
  }
  return [404, kubeStatus(404, 'NotFound', `${plural} "${name}" not found`)];
}

/** The port-forward of the kubelet: data on channel 0, errors on channel 1, each with the port first. */
function forward(ws: WebSocket, pod: string, port: number): void {
  const number = Buffer.alloc(2);
  number.writeUInt16LE(51_121);
  for (const channel of [0, 1]) ws.send(Buffer.concat([Buffer.of(channel), number]));
  if (world.broken.has(pod)) {
    ws.send(Buffer.concat([Buffer.of(1), Buffer.from(`error forwarding port 51121: connection refused`)]));
    ws.close();
    return;
  }
  const tcp = connect(port, '127.0.0.1');
  sockets.add(tcp);
  tcp.on('data', (data) => ws.send(Buffer.concat([Buffer.of(0), data])));
  tcp.on('error', () => ws.close());
  tcp.on('close', () => ws.close());
  ws.on('message', (message: Buffer) => tcp.write(message.subarray(1)));
  ws.on('close', () => tcp.destroy());
}

beforeEach(async () => {
  world = {
    ...{ pods: [{ name: 'one' }], namespace: 'plant', hasService: true, answer: tell('line') },
    ...{
      forbidden: new Set(),
      broken: new Set(),
      gone: new Set(),
      stalled: undefined,
      requests: [],
      forwarded: [],
      tokens: [],
    },
  };
  const ports = new Map<string, Promise<number>>();
  const handle = (request: IncomingMessage, response: ServerResponse) => {
    world.requests.push(request.url ?? '');
    const [status, body] = answerOf(new URL(request.url ?? '', 'https://api'));
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  };
  const files = { cert: readFileSync(certificate.cert), key: readFileSync(certificate.key) };
  api = await serve(createHttpsServer(files, handle));
  const accept = new WebSocketServer({ noServer: true, handleProtocols: () => 'v4.channel.k8s.io' });
  api.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const pod = /\/pods\/([^/]+)\/portforward\?ports=51121$/.exec(request.url ?? '')?.[1] ?? '';
    const known = world.pods.find(({ name }) => name === pod);
    const isDenied = world.forbidden.has('portforward') || request.headers.authorization !== 'Bearer of-ann';
    if (world.stalled) return world.stalled();
    if (isDenied || !known || world.gone.has(pod)) {
      const body = isDenied
        ? kubeStatus(
            403,
            'Forbidden',
            `pods "${pod}" is forbidden: User "ann" cannot create resource "pods/portforward"`,
          )
        : kubeStatus(404, 'NotFound', `pods "${pod}" not found`);
      const head = `HTTP/1.1 ${isDenied ? 403 : 404} No\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
      return void socket.end(head + body);
    }
    world.forwarded.push(pod);
    const isSecure = known.env !== undefined;
    if (!ports.has(pod)) ports.set(pod, startController(pod, isSecure));
    accept.handleUpgrade(request, socket, head, (ws) => {
      void ports.get(pod)?.then((port) => forward(ws, pod, port));
    });
  });
  listening = `https://127.0.0.1:${portOf(api)}`;
  const cluster = {
    server: listening,
    'certificate-authority-data': Buffer.from(certificate.ca).toString('base64'),
  };
  const config = {
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'other' },
    clusters: [
      { name: 'here', cluster },
      { name: 'nowhere', cluster: { server: 'https://127.0.0.1:1' } },
    ],
    users: [{ name: 'ann', user: { token: 'of-ann' } }],
    contexts: [
      { name: 'here', context: { cluster: 'here', user: 'ann', namespace: 'plant' } },
      { name: 'other', context: { cluster: 'nowhere', user: 'ann' } },
    ],
  };
  writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(config));
  return () => {
    for (const close of closers.splice(0)) close();
    for (const socket of sockets) socket.destroy();
  };
});

const plugin = (...args: string[]) =>
  pluginWith(loadCluster)('--kubeconfig', join(folder, 'kubeconfig'), '--context', 'here', ...args);
const TLS = [
  { name: 'TLS_PATH_CERT', value: '/tls/tls.crt' },
  { name: 'TLS_PATH_CA', value: '/tls/ca.crt' },
];

describe('without an address', () => {
  test('a session goes through the API server to a ready pod in the namespace of the context', async () => {
    world.pods = [{ name: 'begins', isReady: false }, { name: 'one' }];
    expect(await plugin('logs', 'shop/web')).toEqual({ code: 0, out: 'line\n', err: '' });
    expect(world.forwarded).toEqual(['one']);
    expect(world.tokens).toEqual(['Bearer of-ann']);
    expect(world.requests.filter((url) => /services|pods/.test(url))).toEqual([
      '/api/v1/namespaces/plant/services/skerry',
      expect.stringMatching(/^\/api\/v1\/namespaces\/plant\/pods\?labelSelector=app.kubernetes.io%2Fname%3Dskerry%2C/),
    ]);
  });

  test('the namespace of -n is where the controller is looked for', async () => {
    world.namespace = 'north';
    expect(await plugin('logs', 'shop/web', '-n', 'north')).toMatchObject({ code: 0, out: 'line\n' });
    expect(world.requests).toContain('/api/v1/namespaces/north/services/skerry');
  });

  test('a megabyte passes whole to a reader', async () => {
    const text = 'x'.repeat(2 ** 19);
    world.answer = (ws) => {
      say(ws, 'LOG_LINE', text, 1_000);
      tell(text, 2_000)(ws);
    };
    const { code, out } = await plugin('logs', 'shop/web');
    expect([code, out === `${text}\n${text}\n`]).toEqual([0, true]);
  });

  test('sessions of one command find the controller once', async () => {
    let open = 0;
    const waiting: WebSocket[] = [];
    world.answer = (ws) => {
      waiting.push(ws);
      open += 1;
      if (open === 2) for (const one of waiting) tell('both')(one);
    };
    expect(await plugin('logs', '-f', 'shop')).toMatchObject({
      code: 0,
      out: '[shop/web] both\n[shop/cache] both\n',
    });
    expect(world.forwarded).toEqual(['one', 'one']);
    expect(world.requests.filter((url) => url.includes('/services/'))).toHaveLength(1);
  });

  test('a log that is followed goes on over another pod when its pod ends, with each line once', async () => {
    world.answer = (ws, pod) => {
      say(ws, 'LOG_LINE', 'first', 1_000);
      if (pod === 'two') return tell('second', 2_000)(ws);
      world.pods = [{ name: 'two' }];
      // As the kubelet of a pod that is killed.
      setImmediate(() => ws.terminate());
    };
    expect(await plugin('logs', '-f', 'shop/web')).toMatchObject({
      code: 0,
      out: 'first\nsecond\n',
      err: expect.stringContaining('it is opened again'),
    });
    expect(world.forwarded).toEqual(['one', 'two']);
  });

  test('another pod is tried when one is gone since it was listed', async () => {
    let last = 0;
    const order = vi.spyOn(Math, 'random').mockImplementation(() => (last += 0.001));
    onTestFinished(() => order.mockRestore());
    world.pods = [{ name: 'gone' }, { name: 'two' }];
    world.gone.add('gone');
    world.answer = (ws, pod) => tell(`of ${pod}`)(ws);
    expect(await plugin('logs', 'shop/web')).toMatchObject({ code: 0, out: 'of two\n' });
  });

  test('Ctrl-C ends a port-forward that the API server does not answer', async () => {
    const stop = new AbortController();
    world.stalled = () => stop.abort();
    const run = pluginWith(loadCluster, { signal: stop.signal });
    const ended = await run('exec', 'shop/web', '--kubeconfig', join(folder, 'kubeconfig'), '--context', 'here');
    expect(ended).toMatchObject({ code: 130 });
    await expect.poll(() => world.forwarded).toEqual([]);
  });
});

describe('a controller with TLS', () => {
  beforeEach(() => {
    world.pods = [{ name: 'one', env: TLS }];
  });
  const [CERT] = TLS;

  test('is judged by the name of its Service and the authority in the Secret of the chart', async () => {
    expect(await plugin('logs', 'shop/web')).toEqual({ code: 0, out: 'line\n', err: '' });
  });

  test('is judged by --ca where the user may not read the Secret', async () => {
    world.forbidden.add('secrets');
    const ca = join(folder, 'ca.pem');
    expect(await plugin('logs', 'shop/web', '--ca', ca)).toMatchObject({ code: 0, out: 'line\n' });
    expect(await plugin('logs', 'shop/web')).toMatchObject({
      code: 1,
      err: expect.stringMatching(/authority of the controller's certificate is not known .*--ca\n$/),
    });
    expect(world.tokens).toHaveLength(1);
  });

  test('may have a certificate for its public URL alone, and for no other name', async () => {
    world.namespace = 'north';
    expect(await plugin('logs', 'shop/web', '-n', 'north')).toMatchObject({
      code: 1,
      err: expect.stringMatching(/certificate has none of the names skerry\.north\.svc, .*--controller/),
    });
    expect(world.tokens).toEqual([]);
    const url = { name: 'CONTROLLER_PUBLIC_URL', value: 'https://skerry.example:30121' };
    world.pods = [{ name: 'one', env: [...TLS, url] }];
    expect(await plugin('logs', 'shop/web', '-n', 'north')).toMatchObject({ code: 0, out: 'line\n' });
  });

  test('is trusted with a chain that the Secret has whole, where the chart names no authority', async () => {
    world.pods = [{ name: 'one', env: CERT ? [CERT] : [] }];
    expect(await plugin('logs', 'shop/web')).toMatchObject({ code: 0, out: 'line\n' });
  });

  test('is trusted by the authority in the Secret of the certificate that it makes itself', async () => {
    world.pods = [{ name: 'one', env: [{ name: 'SKERRY_TLS_HOSTS', value: 'skerry.plant.svc' }] }];
    expect(await plugin('logs', 'shop/web')).toMatchObject({ code: 0, out: 'line\n' });
    expect(world.requests).toContain(`/api/v1/namespaces/plant/secrets/${CONTROLLER_CERTIFICATE}`);
  });

  test('says why its port refuses the kubelet', async () => {
    world.broken.add('one');
    const { code, err } = await plugin('logs', 'shop/web');
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/^error: .*error forwarding port 51121: connection refused/),
    ]);
  });
});

describe('a controller that cannot be reached is one line, with the next step:', () => {
  const exec = () => plugin('exec', 'shop/web', '--', 'true');

  test.each<[string, number, () => void, RegExp]>([
    ['no Service', 2, () => (world.hasService = false), /the namespace "plant" has no Service skerry/],
    [
      'no pod that is ready',
      1,
      () => (world.pods = [{ name: 'one', isReady: false }]),
      /no pod .* is ready .*, of 1: /,
    ],
    [
      'no permission for Services',
      1,
      () => world.forbidden.add('services'),
      /may not be forwarded: .*services is forb/,
    ],
    ['no permission for pods', 1, () => world.forbidden.add('pods'), /may not be forwarded: .*pods is forbidden/],
    ['no permission for ports', 1, () => world.forbidden.add('portforward'), /portforward".*ClusterRole edit of Kub/],
    ['pods that are gone', 1, () => world.gone.add('one'), /no pod of the controller takes a connection: .*not found/],
    [
      'a port that refuses',
      1,
      () => world.broken.add('one'),
      /connection to the controller failed: .*connection refused/,
    ],
  ])('%s', async (what, code, prepare, message) => {
    prepare();
    const ended = await exec();
    expect(ended).toMatchObject({ code, err: expect.stringMatching(message) });
    expect(ended.err).toMatch(/^error: .*\n$/);
    if (!what.startsWith('a port')) expect(ended.err).toMatch(/--controller or \$SKERRY_CONTROLLER/);
    expect(world.tokens).toEqual([]);
  });

  test('a token that is missing, before a port is forwarded', async () => {
    const config = JSON.parse(readFileSync(join(folder, 'kubeconfig'), 'utf8'));
    config.users[0].user = {};
    writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(config));
    expect(await exec()).toMatchObject({ code: 1, err: expect.stringMatching(/the kubeconfig has no token/) });
    expect(world.forwarded).toEqual([]);
  });
});
