import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createConnection } from 'node:net';
import { join } from 'node:path';
import { connect, createServer } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../../../hack/ports.ts';
import { type Daemon, startDaemon } from '../../../hack/process.ts';
import { buildTool } from '../../../hack/tool.ts';
import { waitFor } from '../../../hack/wait.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { createSigner, type SignedPair } from '../../signer/signer.ts';
import { alternativeNames } from './rules/due.ts';

/** Certificates as the controller makes them, between Node, OpenSSL and Go (nats-server), as server and as client. */
const run = promisify(execFile);
const root = temporaryFolder();
const servers = new AsyncDisposableStack();
afterAll(() => servers.disposeAsync());
const nats = buildTool('nats', 'github.com/nats-io/nats-server/v2');
const HOUR_MS = 3_600_000;
/** Each at the loopback interface of this machine. */
const PLACES = ['localhost', '127.0.0.1', '::1'] as const;
type Place = (typeof PLACES)[number];
const host = (place: Place) => (place === '::1' ? '[::1]' : place);

interface Files {
  pair: SignedPair;
  ca: string;
  cert: string;
  key: string;
}

/** Starts a server at all places that demands a certificate of its clients, and resolves with its port. */
type Serve = (made: { dir: string; files: Files }) => Promise<number>;
/** Resolves when a client has authenticated itself and the server, whose authority is in `ca`; rejects otherwise. */
type Visit = (place: Place, port: number, files: Files, ca: string) => Promise<void>;

const SERVERS: Readonly<Record<string, Serve>> = {
  async Node({ files }) {
    const options = { ...files.pair, ca: readFileSync(files.ca), requestCert: true };
    const server = createServer({ ...options, rejectUnauthorized: true }, (socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end('hello'));
    });
    server.on('tlsClientError', () => {});
    await new Promise<void>((resolve) => server.listen(0, '::', resolve));
    servers.defer(() => void server.close());
    return (server.address() as AddressInfo).port;
  },
  async OpenSSL({ dir, files: { ca, cert, key } }) {
    const port = await freePort();
    const verify = ['-Verify', '1', '-verify_return_error', '-CAfile', ca];
    const args = ['-accept', String(port), '-cert', cert, '-key', key, ...verify, '-www'];
    for (const [family, at] of [
      ['-4', '127.0.0.1'],
      ['-6', '::1'],
    ] as const)
      await started(
        { name: `s-server${family}-${port}`, command: 'openssl', args: ['s_server', family, ...args], dir },
        port,
        at,
      );
    return port;
  },
  async Go({ dir, files }) {
    const port = await freePort();
    await natsServer(
      dir,
      [`listen: "[::]:${port}"`, `tls { ${tlsOf(files, files.ca)}, verify: true, handshake_first: true }`],
      port,
    );
    return port;
  },
};

const CLIENTS: Readonly<Record<string, Visit>> = {
  Node: (place, port, { pair }, ca) =>
    new Promise((resolve, reject) => {
      const socket = connect({ port, host: place, ...pair, ca: readFileSync(ca) });
      socket.once('secureConnect', () => socket.write('GET / HTTP/1.0\r\n\r\n'));
      socket.once('data', () => {
        socket.destroy();
        resolve();
      });
      socket.once('error', reject);
      socket.once('end', () => reject(new Error('the server ended the connection')));
    }),
  async OpenSSL(place, port, { cert, key }, ca) {
    const name = place === 'localhost' ? ['-verify_hostname', place] : ['-verify_ip', place];
    const verify = ['-verify_return_error', '-CAfile', ca, ...name];
    const own = ['-cert', cert, '-key', key];
    const visit = run('openssl', ['s_client', '-connect', `${host(place)}:${port}`, '-ign_eof', ...own, ...verify], {
      timeout: 5_000,
    });
    // The server may have ended the connection before.
    visit.child.stdin?.on('error', () => {});
    visit.child.stdin?.end('GET / HTTP/1.0\r\n\r\n');
    // A server may end the connection in a way that is an error for s_client.
    const { stdout } = await visit.catch((error: { stdout: string }) => error);
    // With version 1.3 of TLS a server refuses a client after its handshake: its reply alone is a proof.
    if (!/hello|HTTP\/1|INFO/.test(stdout)) throw new Error('no reply');
    expect(stdout).toContain('Verify return code: 0 (ok)');
  },
};

describe.each(['ECDSA', 'RSA'] as const)('with keys of %s', (algorithm) => {
  let made: Made;
  beforeAll(async () => {
    made = await make(algorithm);
  });

  describe.each(Object.entries(SERVERS))('a server of %s', (_, serve) => {
    let port: number;
    beforeAll(async () => {
      port = await serve(made);
    });

    test.each(Object.entries(CLIENTS))(
      'trusts a client of %s and is trusted by it, by name, IPv4 and IPv6',
      async (_, visit) => {
        for (const place of PLACES) await visit(place, port, made.files, made.files.ca);
      },
    );

    test.each(Object.entries(CLIENTS))(
      'is refused by a client of %s that trusts another authority',
      async (_, visit) => {
        await expect(visit('127.0.0.1', port, made.files, made.otherCa)).rejects.toThrow();
      },
    );
  });
});

const tlsOf = ({ cert, key }: Files, ca: string) => `cert_file: "${cert}", key_file: "${key}", ca_file: "${ca}"`;

async function started(options: Parameters<typeof startDaemon>[0], port: number, at = '127.0.0.1'): Promise<Daemon> {
  const daemon = await startDaemon(options);
  servers.defer(() => daemon.stop());
  const listens = () => {
    daemon.assertRunning();
    return new Promise<boolean>((resolve) => {
      const socket = createConnection(port, at, () => {
        socket.destroy();
        resolve(true);
      });
      socket.once('error', () => resolve(false));
    });
  };
  await waitFor(listens, { what: `${options.name} to listen` });
  return daemon;
}

async function natsServer(dir: string, lines: readonly string[], port: number): Promise<Daemon> {
  const config = join(dir, `${port}.conf`);
  writeFileSync(config, `${lines.join('\n')}\n`);
  return started({ name: `nats-${port}`, dir, command: await nats, args: ['-c', config] }, port);
}

/** A leaf of nats-server is a client of Go: it connects to the port for leaves of another server, and both verify. */
test.each(['ECDSA', 'RSA'] as const)(
  'a client and a server of Go with keys of %s trust each other by name, IPv4 and IPv6',
  async (algorithm) => {
    const { dir, files, otherCa } = await make(algorithm);
    const [client, leaves] = [await freePort(), await freePort()];
    const tls = `${tlsOf(files, files.ca)}, verify: true`;
    await natsServer(
      dir,
      [`listen: "127.0.0.1:${client}"`, `leafnodes { listen: "[::]:${leaves}", tls { ${tls} } }`],
      client,
    );
    /** Whether a leaf connects, else the refusal in its log. */
    const outcome = async (place: Place, ca: string): Promise<string> => {
      const [port, monitor] = [await freePort(), await freePort()];
      const remote = `{ url: "tls://${host(place)}:${leaves}", tls { ${tlsOf(files, ca)} } }`;
      const daemon = await natsServer(
        dir,
        [
          `listen: "127.0.0.1:${port}"`,
          'server_name: leaf',
          `http: "127.0.0.1:${monitor}"`,
          `leafnodes { remotes: [${remote}] }`,
        ],
        port,
      );
      const said = await waitFor(
        async () => {
          const refused = /x509: .*/.exec(readFileSync(daemon.logFile, 'utf8'))?.[0];
          const { leafs } = (await (await fetch(`http://127.0.0.1:${monitor}/leafz`)).json()) as { leafs?: object[] };
          return refused ?? (leafs?.length === 1 && 'connected');
        },
        { what: 'the leaf to connect' },
      );
      await daemon.stop();
      return said;
    };
    for (const place of PLACES) expect([place, await outcome(place, files.ca)]).toEqual([place, 'connected']);
    expect(await outcome('127.0.0.1', otherCa)).toContain('unknown authority');
  },
);

type Made = Awaited<ReturnType<typeof make>>;
async function make(algorithm: 'ECDSA' | 'RSA') {
  const dir = mkdtempSync(join(root, 'made-'));
  const signer = createSigner();
  const now = Math.floor(Date.now() / 1_000) * 1_000;
  const validity = { notBefore: now - HOUR_MS, notAfter: now + HOUR_MS };
  const authority = () => signer.issue({ subject: 'Plant 3', names: [], algorithm, ...validity, isAuthority: true });
  const [by, other] = [await authority(), await authority()];
  const names = alternativeNames(['pump.example', ...PLACES]);
  const pair = await signer.issue({ subject: 'pump', names, algorithm, ...validity, isAuthority: false }, by);
  const file = (name: string, text: string) => {
    writeFileSync(join(dir, name), text);
    return join(dir, name);
  };
  const files = { pair, ca: file('ca.crt', by.cert), cert: file('tls.crt', pair.cert), key: file('tls.key', pair.key) };
  return { dir, files, otherCa: file('other.crt', other.cert) };
}
