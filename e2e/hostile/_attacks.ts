import { brotliCompressSync, gzipSync } from 'node:zlib';

/** What hostile clients send: tables that the tests of every API surface use. */

/** A body as it goes over the wire. */
export interface HostileBody {
  name: string;
  body: string | Buffer;
  headers?: Record<string, string>;
  /** whether every route that reads a body of this type has to refuse it */
  refused?: boolean;
}

const JSON_TYPE = { 'content-type': 'application/json' };
const refused = (name: string, body: string | Buffer, headers: Record<string, string> = JSON_TYPE): HostileBody => ({
  name,
  body,
  headers,
  refused: true,
});
const odd = (name: string, value: unknown): HostileBody => ({ name, body: JSON.stringify(value), headers: JSON_TYPE });

/**
 * The attacks that a route gets: the first route gets all. By day each other route gets every third attack, with another first one,
 * so that each attack reaches a third of the routes; at night all.
 */
export const attacksOn = <T>(route: number, attacks: readonly T[]): readonly T[] =>
  route === 0 || process.env.SKERRY_NIGHTLY ? attacks : attacks.filter((_, attack) => (attack + route) % 3 === 0);

/** Texts that have a meaning in a place that they pass: a path, a shell, a log, a header, a browser, a parser. */
export const TEXTS: readonly [string, string][] = [
  ['the parent folder', '../../../../etc/passwd'],
  ['an absolute path', '/etc/shadow'],
  ['a leading dash', '--privileged'],
  ['a shell', '$(reboot); `reboot` && reboot | reboot'],
  ['a new line', 'a\nb'],
  ['a forged log line', 'x"}\n{"level":"info","msg":"forged"}'],
  ['a forged header', 'x\r\nSet-Cookie: a=b'],
  ['a terminal escape', '\u001b[2J\u001b]0;owned\u0007'],
  ['an equals sign', 'a=b,c=d'],
  ['a template', '${Agents.x}${7*7}{{7*7}}'],
  ['a prototype', '__proto__'],
  ['a constructor', 'constructor'],
  ['right to left', 'abc\u202Etxt.exe'],
  ['no width', 'ad\u200Bmin\uFEFF'],
  ['another alphabet', 'аdmin'],
  ['combining marks', `a${'\u0301'.repeat(200)}`],
  ['beyond the first plane', '𝕒😀'.repeat(60)],
  ['a decomposed letter', 'e\u0301'],
  ['a private character', '\uE000\uFFFE\uFFFF'],
  ['a line separator', 'a\u2028b'],
  ['delete and C1 controls', 'a\u007f\u0085b'],
  ['a very long text', 'a'.repeat(10_000)],
  ['SQL', "'; DROP TABLE nodes; --"],
  ['a selector', 'a\\,b=c!=d'],
  ['markup', '<script>alert(1)</script>'],
  ['only spaces', '   '],
  ['a dot', '.'],
  ['two dots', '..'],
  ['half of a surrogate pair', 'a\ud800b'],
  ['NUL', 'a\u0000b'],
];

export const HUGE_NUMBERS = [
  '1e999',
  '-1e999',
  '9007199254740993',
  '1e308',
  '-0',
  '0.1e-400',
  '123456789012345678901234567890',
];

const deep = (open: string, close: string, levels: number, closed: boolean) =>
  open.repeat(levels) + (closed ? close.repeat(levels) : '');

/** Bodies for routes that read JSON. */
export const JSON_BODIES: readonly HostileBody[] = [
  refused('nothing but spaces', '   '),
  refused('half an object', '{"name":"a'),
  refused('a text that is not JSON', 'name=a&b=c'),
  refused('two values', '{}{}'),
  refused('10,000 open lists', deep('[', ']', 10_000, false)),
  refused('10,000 nested lists', deep('[', ']', 10_000, true)),
  refused('10,000 nested objects', deep('{"a":', '}', 10_000, false)),
  refused('500,000 nested lists', deep('[', ']', 500_000, true)),
  refused('invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d])),
  refused('overlong UTF-8', Buffer.from([0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d])),
  refused('surrogates in UTF-8', Buffer.from([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d])),
  refused('UTF-16', Buffer.from('{"name":"a"}', 'utf16le')),
  refused('half of a surrogate pair', '{"name":"\\ud800"}'),
  refused('NUL', '{"name":"a\\u0000b"}'),
  refused('a raw control character', '{"name":"a\u0001b"}'),
  refused('NaN', '{"name":NaN}'),
  refused('a comment', '{/* */"name":"a"}'),
  refused('a number', '42'),
  refused('a text', '"text"'),
  refused('null', 'null'),
  refused('more than the size limit of a body', JSON.stringify({ name: 'a', padding: 'x'.repeat(5 * 2 ** 20) })),
  refused('a compressed bomb', gzipSync(Buffer.alloc(2 ** 24)), { ...JSON_TYPE, 'content-encoding': 'gzip' }),
  refused('another compressed bomb', brotliCompressSync(Buffer.alloc(2 ** 22)), {
    ...JSON_TYPE,
    'content-encoding': 'br',
  }),
  refused('two compressions', '{}', { ...JSON_TYPE, 'content-encoding': 'gzip, identity' }),
  refused('another type', '<a/>', { 'content-type': 'application/xml' }),
  refused('a form', 'name=a', { 'content-type': 'application/x-www-form-urlencoded' }),
  refused('a body of type text/plain', '{}', { 'content-type': 'text/plain' }),
  refused('an endless type', '{}', { 'content-type': `application/${'x'.repeat(8_000)}` }),
  refused('MessagePack that claims 4 GiB', Buffer.from([0xdd, 0xff, 0xff, 0xff, 0xff, 0xc1]), {
    'content-type': 'application/msgpack',
  }),
  refused('MessagePack as JSON', Buffer.from([0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, 0x61]), JSON_TYPE),
  odd('a prototype', JSON.parse('{"__proto__":{"isAdmin":true,"name":"x"},"constructor":{"prototype":{"x":1}}}')),
  {
    name: 'a prototype in escapes',
    body: '{"\\u005f_proto__":{"name":"x"},"_\\u005fproto__":{"a":1}}',
    headers: JSON_TYPE,
  },
  { name: 'a member twice', body: '{"name":"a","name":"b","name":{"c":1}}', headers: JSON_TYPE },
  odd('100,000 members', Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`k${i}`, i]))),
  odd('names of methods', { toString: 1, valueOf: 1, hasOwnProperty: 1, toJSON: 'x', length: -1 }),
  odd('a list', [1, 2, 3]),
  odd('lists for everything', { name: [], url: [], microservices: [[]], semver: [], ports: {}, config: [] }),
  odd('objects for everything', { name: {}, url: {}, microservices: {}, config: {}, upstreamRouters: {} }),
  ...HUGE_NUMBERS.map((number) => ({
    name: `the number ${number}`,
    headers: JSON_TYPE,
    body: `{"name":${number},"archId":${number},"internal":${number},"external":${number},"memoryLimit":${number},"diskLimit":${number}}`,
  })),
  ...TEXTS.slice(0, -2).map(([name, text]) =>
    odd(name, {
      name: text,
      application: text,
      url: text,
      email: text,
      host: text,
      agentName: text,
      nodeUuid: text,
      config: text,
      images: [{ containerImage: text, archId: 1 }],
      key: text,
      value: text,
      versionCommand: text,
      semver: text,
    }),
  ),
];

const YAML_TYPE = { 'content-type': 'application/x-yaml' };
const yaml = (name: string, body: string | Buffer): HostileBody => ({ name, body, headers: YAML_TYPE, refused: true });
const boundary = 'BOUNDARY';
const FORM = { 'content-type': `multipart/form-data; boundary=${boundary}` };
const part = (head: string, body = 'a: 1') => `--${boundary}\r\n${head}\r\n\r\n${body}\r\n`;
const file = (name: string, filename: string) =>
  `Content-Disposition: form-data; name="${name}"; filename="${filename}"\r\nContent-Type: application/yaml`;
const form = (name: string, ...parts: string[]): HostileBody => ({
  name,
  body: `${parts.join('')}--${boundary}--\r\n`,
  headers: FORM,
  refused: true,
});

const laughs = (list: boolean) => {
  const wrap = (text: string) => (list ? `[${text}]` : `{${text.split(',').map((one, i) => `k${i}: ${one}`)}}`);
  const lines = [`a0: &a0 ${wrap('x,x,x,x,x,x,x,x,x')}`];
  for (let i = 1; i < 20; i++)
    lines.push(
      `a${i}: &a${i} ${wrap(
        Array(9)
          .fill(`*a${i - 1}`)
          .join(','),
      )}`,
    );
  return lines.join('\n');
};

/** Bodies for routes that read a YAML file. */
export const FILE_BODIES: readonly HostileBody[] = [
  yaml('a billion laughs', laughs(true)),
  yaml('a billion laughs of maps', laughs(false)),
  yaml('a document within itself', '&a [*a, *a, *a, *a, *a, *a]'),
  yaml('10,000 open lists', '['.repeat(10_000)),
  yaml('10,000 levels by dashes', `${'- '.repeat(10_000)}a`),
  yaml('a megabyte of list', '- a\n'.repeat(262_000)),
  yaml('80,000 keys', Array.from({ length: 80_000 }, (_, i) => `k${i}: 1`).join('\n')),
  yaml('50,000 documents', '---\n'.repeat(50_000)),
  yaml(
    'endless merges',
    `a: &a {${Array.from({ length: 5_000 }, (_, i) => `k${i}: 1`)}}\nb: {<<: [${'*a,'.repeat(9_000)}]}`,
  ),
  yaml(
    'tags that make objects elsewhere',
    'a: !!js/function "function(){}"\nb: !!python/object/apply:os.system [reboot]',
  ),
  yaml('a binary tag', 'a: !!binary "////"'),
  yaml('an unknown alias', 'a: *nowhere'),
  yaml('a key twice', 'kind: Application\nkind: Microservice'),
  yaml('tabs', 'a:\n\t- b'),
  yaml('directives', `${'%YAML 1.2\n'.repeat(10_000)}---\na: 1`),
  yaml('a prototype', '__proto__: {kind: Application}\nconstructor: {prototype: {x: 1}}'),
  yaml('no UTF-8', Buffer.from([0x61, 0x3a, 0x20, 0xff, 0xfe])),
  yaml('NUL', 'kind: "Application\\0"'),
  yaml('half of a surrogate pair', 'kind: "\\ud800"'),
  yaml('a null document', '~'),
  yaml('a number', '42'),
  yaml('JSON', '{"kind": "Application"}'),
  yaml('more than a body may hold', `a: "${'x'.repeat(5 * 2 ** 20)}"`),
  yaml('complex keys', '? [a, b]\n: {? {c: d} : e}'),
  {
    name: 'no boundary',
    body: part(file('application', 'a')),
    headers: { 'content-type': 'multipart/form-data' },
    refused: true,
  },
  {
    name: 'an endless boundary',
    body: 'x',
    headers: { 'content-type': `multipart/form-data; boundary=${'b'.repeat(8_000)}` },
    refused: true,
  },
  { name: 'a form that does not end', body: part(file('application', 'a')).slice(0, -2), headers: FORM, refused: true },
  { name: 'an empty form', body: '', headers: FORM, refused: true },
  form('10,000 parts', ...Array.from({ length: 10_000 }, () => part(file('application', 'a.yaml')))),
  form(
    '10,000 fields',
    ...Array.from({ length: 10_000 }, (_, i) => part(`Content-Disposition: form-data; name="f${i}"`)),
  ),
  form('an endless name', part(file('n'.repeat(100_000), 'a.yaml'))),
  form('an endless file name', part(file('application', '../'.repeat(30_000)))),
  form('a file name that is a path', part(file('application', '../../etc/cron.d/x'), '{}')),
  form('a file name with NUL', part(file('application', 'a%00.yaml\u0000'), '{}')),
  form('no name', part('Content-Disposition: form-data; filename="a"')),
  form('a prototype as name', part(file('__proto__', 'a.yaml'))),
  form('10,000 headers of one part', part(`${file('application', 'a')}${'\r\nX-A: b'.repeat(10_000)}`)),
  form(
    'a form in a form',
    part(
      `${file('application', 'a').split('\r\n')[0]}\r\nContent-Type: multipart/mixed; boundary=inner`,
      '--inner\r\n\r\na: 1\r\n--inner--',
    ),
  ),
  form('transfer encodings', part(`${file('application', 'a')}\r\nContent-Transfer-Encoding: base64`, 'YTogMQ==')),
  {
    name: 'a file without a known type',
    body: 'a: 1',
    headers: { 'content-type': 'application/octet-stream' },
    refused: true,
  },
  {
    name: 'a compressed file',
    body: gzipSync(Buffer.alloc(2 ** 24, 'a')),
    headers: { ...YAML_TYPE, 'content-encoding': 'gzip' },
    refused: true,
  },
];

/** Values of a path parameter, as written in the request line. */
export const PARAMETERS: readonly string[] = [
  '..',
  '.',
  '%2e%2e',
  '%2e%2e%2f%2e%2e%2fetc%2fpasswd',
  '..%2f..%2fsecrets',
  '%2f',
  'a%2fb',
  'a%5cb',
  '%00',
  'a%00b',
  '%0d%0aSet-Cookie:%20a=b',
  '%0a',
  '%1b%5b2J',
  '%',
  '%zz',
  '%c0%af',
  '%ff%fe',
  '%ed%a0%80',
  '%E2%80%AEgnp',
  '%F0%9F%98%80',
  '__proto__',
  'constructor',
  'hasOwnProperty',
  '-rf',
  '--all',
  '*',
  "'%20OR%201=1",
  '%24%7Bx%7D',
  'a,b=c',
  'a%5C%2Cb%3Dc',
  'metadata.name',
  'null',
  'undefined',
  'NaN',
  '-1',
  '0',
  '1e3',
  '0x10',
  '99999999999999999999',
  '00000000-0000-0000-0000-000000000000',
  'FFFFFFFF-FFFF-4FFF-8FFF-FFFFFFFFFFFF',
  'a'.repeat(64),
  'a'.repeat(256),
  'a'.repeat(8_000),
  '%61'.repeat(2_500),
];

export const QUERIES: readonly string[] = [
  '?',
  '?&&&&====',
  '?__proto__[x]=1&constructor[prototype][y]=2',
  '?a[b][c][d]=1',
  `?${'a=1&'.repeat(3_000)}`,
  `?${'x'.repeat(8_000)}`,
  '?application=..%2f..&application=b&application[]=c',
  '?application=%00&filter=%ff',
  '?%E0%A4%A',
  '?wait=1e9&have=%00:%00,,,:::',
  '?#fragment',
];

/** Headers that are added to an otherwise valid request. */
export const HEADERS: readonly [string, Record<string, string | string[]>][] = [
  ['many cookies', { cookie: Array.from({ length: 500 }, (_, i) => `c${i}=${'v'.repeat(20)}`).join('; ') }],
  ['900 headers', Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`x-h${i}`, 'v']))],
  ['a malformed request id', { 'request-id': '{"forged":true}\t${jndi:ldap://x}' }],
  ['an endless request id', { 'request-id': 'r'.repeat(4_000) }],
  ['another host', { host: 'evil.example' }],
  ['other methods by header', { 'x-http-method-override': 'DELETE', 'x-method-override': 'DELETE' }],
  [
    'other addresses by header',
    { 'x-forwarded-for': '127.0.0.1, ::1', forwarded: 'for=127.0.0.1', 'x-real-ip': '127.0.0.1' },
  ],
  ['other paths by header', { 'x-original-url': '/api/v3/status', 'x-rewrite-url': '/api/v3/status' }],
  ['impersonation', { 'impersonate-user': 'system:admin', 'x-remote-user': 'admin' }],
  [
    'odd wishes',
    { accept: 'application/xml;q=0.1', 'accept-encoding': 'br', range: 'bytes=0-1', 'if-none-match': '*' },
  ],
  ['an upgrade', { connection: 'Upgrade', upgrade: 'h2c' }],
];

/** Values of the Authorization header that give no access. */
export const CREDENTIALS: readonly string[] = [
  '',
  'Bearer',
  'Bearer ',
  'Basic YWRtaW46YWRtaW4=',
  'Bearer null',
  'Bearer ..',
  'Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.',
  `Bearer ${'A'.repeat(20_000)}`,
  'Bearer a b',
  'Bearer "admin"',
  'Bearer %00',
  'Bearer \u00ff\u00fe',
];
