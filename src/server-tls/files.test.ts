import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { makeCertificate } from '../../hack/certificate.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createRest } from '../assembly/rest.ts';
import { silentLog } from '../lib/log.ts';
import { createMemoryDependencies } from '../rest/_memory.ts';
import { createTlsFiles } from './files.ts';
import type { TlsSource } from './source.ts';

const made = () => {
  const { cert, key, ca } = makeCertificate(temporaryFolder(), ['localhost']);
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8'), ca };
};
type Made = ReturnType<typeof made>;

/** Files of a certificate in a folder, and a source that reads them again when the test says that the time has come. */
function start(first: Made) {
  const folder = temporaryFolder();
  const files = {
    cert: { file: join(folder, 'tls.crt') },
    key: { file: join(folder, 'tls.key') },
    ca: { file: join(folder, 'ca.crt') },
  };
  const write = ({ cert, key, ca }: Partial<Made>) => {
    if (cert !== undefined) writeFileSync(files.cert.file, cert);
    if (key !== undefined) writeFileSync(files.key.file, key);
    if (ca !== undefined) writeFileSync(files.ca.file, ca);
  };
  write(first);
  const warnings: object[] = [];
  const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
  let due = () => {};
  const clock = {
    now: () => 0,
    wall: () => 0,
    after(_: number, callback: () => void) {
      due = callback;
      return () => {};
    },
  };
  const source = createTlsFiles(files, { log, clock });
  /** Reads the files again, and resolves once that is done. */
  const readAgain = async () => {
    const before = due;
    before();
    await expect.poll(() => due !== before).toBe(true);
  };
  return { source, write, readAgain, warnings };
}

/** A connection, whose certificate is verified by this authority. */
async function handshake(port: number, ca: string): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port, servername: 'localhost', ca });
  await once(socket, 'secureConnect');
  return socket;
}

test('the next certificate in the files is served from the next handshake on, and open connections stay', async () => {
  const [first, next] = [made(), made()];
  const { source, write, readAgain } = start(first);
  using _ = source;
  const { cert = '', key = '' } = source.current ?? {};
  await using server = createRest({ deps: createMemoryDependencies(), tls: { cert, key } });
  source.subscribe((credentials) => server.serveCertificate(credentials));
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  const open = await handshake(port, first.ca);

  write(next);
  await readAgain();
  const later = await handshake(port, next.ca);
  await expect(handshake(port, first.ca)).rejects.toThrow();
  // The open connection continues.
  open.write('GET /api/v3/live HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const [answer] = await once(open, 'data');
  expect(String(answer)).toMatch(/^HTTP\/1.1 200/);
  expect(source.current?.authorities.trim()).toBe(next.ca.trim());
  open.destroy();
  later.destroy();
});

test.each<[string, (next: Made) => Partial<Made>, RegExp]>([
  ['half of a new pair', ({ cert }) => ({ cert }), /tls.key is not the key of the certificate/],
  ['an empty key', () => ({ key: '' }), /no private key in PEM/],
  ['no certificate', () => ({ cert: 'x' }), /no certificate in PEM/],
])('%s leaves the present certificate in use, with one line in the log', async (_, change, problem) => {
  const [first, next] = [made(), made()];
  const { source, write, readAgain, warnings } = start(first);
  using __ = source;
  const before = source.current;
  write(change(next));
  await readAgain();
  await readAgain();
  expect(source.current).toBe(before);
  expect(warnings).toMatchObject([{ problem: expect.stringMatching(problem) }]);
  expect(JSON.stringify(warnings)).not.toContain('PRIVATE');
  write(next);
  await readAgain();
  expect(source.current).not.toBe(before);
});

test('a certificate that cannot be used at the start is refused with the names of its files', () => {
  const [one, other] = [made(), made()];
  expect(() => start({ ...one, key: other.key })).toThrow(
    /certificate of the controller cannot be used: .*tls.crt.*tls.key/,
  );
});

test('the authority that signed the certificate comes first in the list for machines', () => {
  const [one, other] = [made(), made()];
  const { source } = start({ ...one, ca: `${other.ca}${one.ca}` });
  using _ = source;
  expect(source.current?.authorities.replaceAll(/\s/g, '')).toBe(`${one.ca}${other.ca}`.replaceAll(/\s/g, ''));
});

/** A root, an authority that it signed, and a certificate of localhost by that authority. */
function chained() {
  const folder = temporaryFolder();
  const file = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const isAuthority = ['-addext', 'keyUsage=keyCertSign', '-days', '2'];
  openssl(
    'req',
    '-x509',
    '-subj',
    '/CN=root',
    ...isAuthority,
    ...key,
    '-keyout',
    file('root.key'),
    '-out',
    file('root.pem'),
  );
  const request = (name: string, subject: string) =>
    openssl('req', ...key, '-subj', `/CN=${subject}`, '-keyout', file(`${name}.key`), '-out', file(`${name}.csr`));
  const sign = (name: string, by: string, extensions: string) => {
    writeFileSync(file(`${name}.ext`), extensions);
    const signer = ['-CA', file(`${by}.pem`), '-CAkey', file(`${by}.key`), '-CAcreateserial', '-days', '2'];
    const extended = ['-extfile', file(`${name}.ext`), '-out', file(`${name}.pem`)];
    openssl('x509', '-req', '-in', file(`${name}.csr`), ...signer, ...extended);
  };
  request('between', 'between');
  sign('between', 'root', 'basicConstraints=critical,CA:true\nkeyUsage=keyCertSign\n');
  request('server', 'server');
  sign('server', 'between', 'subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n');
  const text = (name: string) => readFileSync(file(name), 'utf8');
  return { root: text('root.pem'), between: text('between.pem'), cert: text('server.pem'), key: text('server.key') };
}

describe('intermediate certificates', () => {
  const { root, between, cert, key } = chained();
  const served = async (source: TlsSource) => {
    const server = createRest({
      deps: createMemoryDependencies(),
      tls: { cert: source.current?.cert ?? '', key: source.current?.key ?? '' },
    });
    const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
    return { port, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
  };
  const given = (text: string, variable: string) => ({ text, variable });

  test('are sent, when a variable has them, with the certificate, so that a client knows the root alone', async () => {
    using source = createTlsFiles(
      {
        cert: given(cert, 'TLS_BASE64_CERT'),
        key: given(key, 'TLS_BASE64_KEY'),
        intermediates: given(between, 'TLS_BASE64_INTERMEDIATE_CERT'),
      },
      { log: silentLog },
    );
    await using server = await served(source);
    (await handshake(server.port, root)).destroy();
  });

  test('are needed where the certificate stands alone', async () => {
    using source = createTlsFiles(
      { cert: given(cert, 'TLS_BASE64_CERT'), key: given(key, 'TLS_BASE64_KEY') },
      { log: silentLog },
    );
    await using server = await served(source);
    await expect(handshake(server.port, root)).rejects.toThrow();
  });

  test('are read again from their file', async () => {
    const folder = temporaryFolder();
    const file = (name: string, text: string) => {
      writeFileSync(join(folder, name), text);
      return { file: join(folder, name) };
    };
    let due = () => {};
    const clock = {
      now: () => 0,
      wall: () => 0,
      after(_: number, callback: () => void) {
        due = callback;
        return () => {};
      },
    };
    const files = { cert: file('c', cert), key: file('k', key), intermediates: file('i', root) };
    using source = createTlsFiles(files, { log: silentLog, clock });
    expect(source.current?.cert).not.toContain(between.trim());
    file('i', between);
    due();
    await expect.poll(() => source.current?.cert).toContain(between.trim());
  });

  test('are refused, when they are no certificates, with the name of the variable', () => {
    const files = {
      cert: given(cert, 'TLS_BASE64_CERT'),
      key: given(key, 'TLS_BASE64_KEY'),
      intermediates: given('x', 'TLS_BASE64_INTERMEDIATE_CERT'),
    };
    expect(() => createTlsFiles(files, { log: silentLog })).toThrow(
      /TLS_BASE64_INTERMEDIATE_CERT: the intermediate certificates are no certificates/,
    );
  });
});
