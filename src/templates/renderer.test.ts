import fc from 'fast-check';
import { afterAll, describe, expect, it, test } from 'vitest';
import { invalid } from '../rules/errors.ts';
import type { LookUp } from '../rules/renderer.ts';
import { createRenderer } from './renderer.ts';

const NODE = { name: 'gw-1', host: '10.0.0.1', ports: [{ external: 8080 }] };
const lookUp: LookUp = async (filter, input) => {
  if (input === 'none') throw invalid('there is no node "none"');
  if (input === 'lost') throw new Error('the cluster does not answer');
  return filter === 'findAgent' && input === '' ? [NODE] : NODE;
};
const renderer = createRenderer({ timeMs: 1_000 });
afterAll(() => renderer[Symbol.dispose]());

const render = (document: Record<string, unknown>, variables = {}, only?: string[][], caller = 'ann') =>
  renderer.render(
    { document, variables, ...(only && { only }) },
    { lookUp, caller, signal: AbortSignal.timeout(60_000) },
  );

describe('an expression', () => {
  const VALUES: [string, Record<string, unknown>, unknown][] = [
    ['{{ rate }}', { rate: 5 }, 5],
    ['{{ flag }}', { flag: false }, false],
    ['{{ map }}', { map: { a: [1, null] } }, { a: [1, null] }],
    ['{{ nothing }}', { nothing: null }, null],
    ['{{ empty }}', { empty: '' }, ''],
    [' {{ rate }}', { rate: 5 }, ' 5'],
    ['{{ rate }}{{ rate }}', { rate: 5 }, '55'],
    ['{{ node-name }}', { 'node-name': 'gw-1' }, 'gw-1'],
    ['{{ self.name }}-{{ self.part.name | upcase }}', {}, 'plant-READER'],
    ['{{ "7" | toNumber }}', {}, 7],
    ['{{ "seven" | toNumber }}', {}, 'seven'],
    ['{{ "true" | toBoolean }}', {}, true],
    ['{{ rate | toString }}', { rate: 5 }, '5'],
    ['{{ map | toString }}', { map: { a: 1 } }, '{"a":1}'],
    ['{{ missing | default: 3 }}', {}, 3],
    ['{% if missing %}a{% else %}b{% endif %}', {}, 'b'],
    ['{% assign a = "gw-1" | findAgent %}{{ a.ports[0].external }}', {}, 8080],
    ['{{ "" | findAgent | map: "host" | first }}', {}, '10.0.0.1'],
    ['{{ "line" | findApplication | findMicroserviceAgent | toString | size }}', {}, 61],
    ['{% raw %}{{ a }}{% endraw %}', {}, '{{ a }}'],
  ];
  it.each(VALUES)('%s with %j becomes %j', async (text, variables, value) => {
    const document = { name: 'plant', part: { name: 'reader' }, text };
    expect((await render(document, variables)).text).toEqual(value);
  });

  it('reads as self what earlier texts became', async () => {
    const document = { a: '{{ 1 | plus: 1 }}', list: ['{{ self.a }}', { b: '{{ self.list[0] | plus: 1 }}' }] };
    expect(await render(document)).toEqual({ a: 2, list: [2, { b: 3 }] });
  });

  it('in a key, or in a result, stays as it is', async () => {
    expect(await render({ '{{ a }}': 'b', text: '{{ value }}' }, { value: '{{ 1 }}' })).toEqual({
      '{{ a }}': 'b',
      text: '{{ 1 }}',
    });
  });

  it('outside of the members that are rendered stays as it is', async () => {
    const document = { spec: { variables: [{ defaultValue: '{{ 1 }}' }], application: '{{ x }}' }, other: '{{ y }}' };
    expect(await render(document, {}, [['spec', 'variables']])).toEqual({
      ...document,
      spec: { variables: [{ defaultValue: 1 }], application: '{{ x }}' },
    });
  });

  const FAILURES: [string, RegExp][] = [
    ['{{ missing }}', /^a\[0\]\.b: undefined variable: missing$/],
    ['{{ self.missing.name }}', /^a\[0\]\.b: undefined variable/],
    ['{{ "x" | nothing }}', /^a\[0\]\.b: undefined filter: nothing$/],
    ['{{ "none" | findAgent }}', /^a\[0\]\.b: there is no node "none"$/],
    ['{{ "unclosed', /^a\[0\]\.b: .*not closed/],
    ['{% include "/etc/passwd" %}', /^a\[0\]\.b: tag "include" not found$/],
    ['{% render "/etc/passwd" %}', /^a\[0\]\.b: tag "render" not found$/],
    ['{% layout "/etc/passwd" %}', /^a\[0\]\.b: tag "layout" not found$/],
    ['{{ self.constructor }}', /undefined variable: self\.constructor/],
    ['{{ self.__proto__ }}', /undefined variable: self\.__proto__/],
    ['{{ constructor }}', /undefined variable: constructor/],
    ['{{ "x" | constructor }}', /undefined filter: constructor/],
    ['{{ "x" | __defineGetter__: "y" }}', /undefined filter: __defineGetter__/],
    ['{% constructor %}', /tag "constructor" not found/],
  ];
  it.each(FAILURES)('%s is an error that names its field', async (text, message) => {
    await expect(render({ a: [{ b: text }] })).rejects.toMatchObject({
      status: 400,
      code: 'EXPRESSION_FAILED',
      message: expect.stringMatching(message),
    });
  });

  it('whose look-up fails for a reason of the cluster fails for that reason', async () => {
    await expect(render({ a: '{{ "lost" | findAgent }}' })).rejects.toThrow('the cluster does not answer');
  });

  it('in an error is not shown, since it may be secret', async () => {
    const failure = await render({ a: 'password: hunter2 {{ missing }}' }).catch((error: Error) => error);
    expect(String((failure as Error).message)).not.toContain('hunter2');
  });
});

describe('expressions that are only read', () => {
  const read = (text: string) =>
    renderer.render(
      { document: { text }, parsesOnly: true },
      { lookUp, caller: 'ann', signal: AbortSignal.timeout(60_000) },
    );

  it('are not evaluated, and stay as they are', async () => {
    for (const text of ['{{ missing }}', '{% if a %}{{ "none" | findAgent }}{% endif %}'])
      expect(await read(text)).toEqual({ text });
  });

  it.each([
    ['{{ a | nowhere }}', /^text: undefined filter: nowhere$/],
    ['{% if a %}', /^text: tag {% if a %} not closed$/],
    ['{{ a ', /^text: output "{{ a " not closed$/],
    ['{% fetch a %}', /^text: tag "fetch" not found$/],
  ])('%s is refused', async (text, message) => {
    await expect(read(text)).rejects.toThrow(message);
  });
});

describe('the look-ups of a document', () => {
  const loop = (times: number, name: string) =>
    `{% for i in (1..${times}) %}{% assign a = ${name} | findAgent %}{% endfor %}{{ a.name }}`;
  const patient = createRenderer();
  afterAll(() => patient[Symbol.dispose]());
  const renderWith = (lookUp: LookUp, document: Record<string, unknown>) =>
    patient.render({ document }, { lookUp, caller: 'ann', signal: AbortSignal.timeout(60_000) });

  it('are made once for each filter and argument, however often they are asked for', async () => {
    const made: unknown[] = [];
    const count: LookUp = async (filter, input) => {
      made.push([filter, input]);
      return NODE;
    };
    const document = { a: loop(1_000, '""'), b: [loop(1_000, '"gw-1"'), loop(10, '""')], c: loop(10, '"x"') };
    expect(await renderWith(count, document)).toMatchObject({ a: 'gw-1', b: ['gw-1', 'gw-1'], c: 'gw-1' });
    expect(made).toEqual([
      ['findAgent', ''],
      ['findAgent', 'gw-1'],
      ['findAgent', 'x'],
    ]);
    await renderWith(count, document);
    expect(made).toHaveLength(6);
  });

  it('give at most 8 MiB; the error names the field', async () => {
    let made = 0;
    const heavy: LookUp = async () => ({ name: `node ${++made}`, notes: 'x'.repeat(2 ** 20) });
    const document = {
      name: 'plant',
      parts: [{ env: `{% for i in (1..100) %}{{ i | append: "" | findAgent | map: "name" }}{% endfor %}` }],
    };
    await expect(renderWith(heavy, document)).rejects.toMatchObject({
      status: 400,
      code: 'EXPRESSION_FAILED',
      message: 'parts[0].env: findAgent: what the document looks up has more than 8388608 characters',
    });
    expect(made).toBe(8);
    expect(await renderWith(heavy, { a: '{{ "gw-1" | findAgent | map: "name" | first }}' })).toEqual({ a: 'node 9' });
  });

  it('get no more of an object than they read, and no long text', async () => {
    const made: unknown[] = [];
    const count: LookUp = async (filter, input) => {
      made.push(input);
      return filter === 'findApplication' ? { agentName: 'gw-1', config: 'x'.repeat(2 ** 20) } : NODE;
    };
    await renderWith(count, { a: '{{ "line" | findApplication | findMicroserviceAgent }}' });
    expect(made).toEqual(['line', { agentName: 'gw-1' }]);
    const long = '{% assign a = "line" | findApplication %}{{ a.config | findAgent }}';
    await expect(renderWith(count, { a: { b: long } })).rejects.toThrow(
      'a.b: findAgent: its argument has more than 4096 characters',
    );
    expect(made).toHaveLength(3);
  });
});

/** Each would take hours or gigabytes. */
const BOMBS: Record<string, string> = {
  'an empty loop': '{% for i in (1..1000000000) %}{% endfor %}',
  'loops in loops': '{% for i in (1..100000) %}{% for j in (1..100000) %}{{ j }}{% endfor %}{% endfor %}',
  'a text that doubles by capture':
    '{% assign a = "xxxxxxxx" %}{% for i in (1..60) %}{% capture a %}{{ a }}{{ a }}{% endcapture %}{% endfor %}{{ a }}',
  'a text that doubles by append':
    '{% assign a = "x" %}{% for i in (1..28) %}{% assign a = a | append: a %}{% endfor %}{{ a | replace: "x", a }}',
  'a list that doubles':
    '{% assign a = "1,2" | split: "," %}{% for i in (1..40) %}{% assign a = a | concat: a %}{% endfor %}{{ a }}',
  'a list that contains itself':
    '{% assign a = "1,2" | split: "," %}{% for i in (1..60) %}{% assign a = a | push: a %}{% endfor %}{{ a | join }}',
  'the result of such a list':
    '{% assign a = "1,2" | split: "," %}{% for i in (1..60) %}{% assign a = a | push: a %}{% endfor %}{{ a }}',
  'a wide number': '{{ "now" | date: "%500000000d" }}',
  'a deep document of its own': '{% for i in (1..10000000) %}{{ self }}{% endfor %}',
};

describe('a document that needs too much', () => {
  it.each(Object.entries(BOMBS))('%s fails within seconds, and the next one is rendered', async (_, text) => {
    // Growing memory and a blocked event loop are what the child process prevents.
    const before = process.memoryUsage.rss();
    let longest = 0;
    let last = performance.now();
    const watch = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 5);
    const began = performance.now();
    await expect(render({ a: text })).rejects.toMatchObject({ status: 400, code: 'EXPRESSION_FAILED' });
    clearInterval(watch);
    expect(performance.now() - began).toBeLessThan(15_000);
    expect(longest).toBeLessThan(1_000);
    expect(process.memoryUsage.rss() - before).toBeLessThan(256 * 2 ** 20);
    expect(await render({ a: '{{ 1 }}' })).toEqual({ a: 1 });
  });

  it('delays another caller by one document', async () => {
    const bombs = Array.from({ length: 5 }, () =>
      render({ a: '{% for i in (1..1000000000) %}{% endfor %}' }, {}, undefined, 'mallory').catch(() => 'failed'),
    );
    let done = 0;
    for (const bomb of bombs) void bomb.then(() => done++);
    expect(await render({ a: '{{ 1 }}' }, {}, undefined, 'bob')).toEqual({ a: 1 });
    expect(done).toBeLessThan(3);
    await Promise.all(bombs);
  });

  it('is refused while many of its caller wait', async () => {
    using small = createRenderer({ queue: 2, refuse: () => new Error('busy') });
    const options = { lookUp, caller: 'ann', signal: AbortSignal.timeout(60_000) };
    const all = await Promise.allSettled(
      Array.from({ length: 6 }, () => small.render({ document: { a: '{{ 1 }}' } }, options)),
    );
    expect(
      all.filter(({ status }) => status === 'rejected').map((one) => String((one as PromiseRejectedResult).reason)),
    ).toEqual(Array.from({ length: 3 }, () => 'Error: busy'));
  });

  it('is given up when its request ends', async () => {
    const stop = new AbortController();
    const options = { lookUp, caller: 'ann', signal: stop.signal };
    const rendering = renderer.render({ document: { a: '{% for i in (1..1000000000) %}{% endfor %}' } }, options);
    setTimeout(() => stop.abort(new Error('the client is gone')), 50);
    await expect(rendering).rejects.toThrow('the client is gone');
    expect(await render({ a: '{{ 1 }}' })).toEqual({ a: 1 });
  });
});

test('any text is rendered or refused, and leaves no trace in the next document', async () => {
  const word = fc.constantFrom(
    ...['{{', '}}', '{%', '%}', '{%-', '-}}', ' ', '|', ':', ',', '.', '[', ']', '(', ')', '..', '"', "'", '=', '=='],
    ...['self', 'a', '__proto__', 'constructor', 'prototype', 'toString', '0', '-1', '1e9', 'nil', 'empty', 'blank'],
    ...[
      'assign',
      'capture',
      'endcapture',
      'for',
      'endfor',
      'in',
      'if',
      'endif',
      'case',
      'when',
      'raw',
      'endraw',
      'liquid',
    ],
    ...['increment', 'cycle', 'tablerow', 'comment', 'echo', 'unless', 'limit', 'offset', 'reversed', 'break'],
    ...['append', 'split', 'join', 'map', 'where', 'sort', 'json', 'inspect', 'date', 'size', 'default', 'findAgent'],
    ...[
      'where_exp',
      'group_by_exp',
      'push',
      'slice',
      'truncate',
      'replace',
      'times',
      'divided_by',
      'toNumber',
      '\n',
      'é',
    ],
  );
  const text = fc
    .array(word, { minLength: 1, maxLength: 24 })
    .map((words) => `{{ 1 }}${words.join(' ').replaceAll('{ {', '{{')}`);
  await fc.assert(
    fc.asyncProperty(text, async (one) => {
      const result = await render({ a: one, b: { c: '{{ self.a | size }}' } }).catch((error: Error) => error);
      if (result instanceof Error) expect(result).toMatchObject({ status: 400, code: 'EXPRESSION_FAILED' });
      expect(await render({ a: '{{ missing | default: "gone" }}' })).toEqual({ a: 'gone' });
      expect(({} as Record<string, unknown>).a).toBeUndefined();
    }),
    { numRuns: 300, seed: 1, interruptAfterTimeLimit: 15_000, markInterruptAsFailure: false },
  );
});
