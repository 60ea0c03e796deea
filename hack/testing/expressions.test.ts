import { globSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { beforeAll, expect, test } from 'vitest';
import { ROOT } from '../paths.ts';
import { type Expression, expressionsIn, type MadeExpression } from './_expressions.ts';
import type { SearchMessage, SearchTask } from './_search.ts';

const MIB = 2 ** 20;

/** Expressions that take more than linear time, with the bound of every text that they are given. */
const BOUNDED: Readonly<Record<string, { characters: number; of: string }>> = {
  '/no such image|image .*not known|unable to find image/i': {
    characters: 4096,
    of: 'agent/src/engines/docker/errors.ts: MESSAGE_LENGTH',
  },
  '/name .* is already in use/i': { characters: 4096, of: 'agent/src/engines/docker/errors.ts: MESSAGE_LENGTH' },
};

/** Expressions that a function makes of what it is given, as it makes them. */
const MADE: Readonly<Record<string, readonly RegExp[]>> = {
  'agent/src/doctor/machine-checks.ts': [/^br_netfilter\s.*\s1$/m],
  'agent/src/machine/usage.ts': [/^usage_usec (\d+)/m],
};

/** Modules whose expressions are made when they are loaded: rules of fields, and constants. */
const LOADED = /^src\/(api|kinds|rest\/routes)\//;

const files = globSync(['{src,agent/src,cli/src}/**/*.ts', 'hack/language.ts'], { cwd: ROOT }).filter(
  (file) => !/\.test\.ts$|(^|\/)_[^/]*$/.test(file),
);
const written: Expression[] = [];
const made: MadeExpression[] = [];
const captured: Expression[] = [];

interface Slow {
  place: string;
  expression: string;
  tooSlow: string;
}

/** Gives each expression its worst texts in a thread, which is ended when one expression does not end. */
async function tooSlow(expressions: readonly Expression[], modules: readonly string[] = []): Promise<Slow[]> {
  const task: SearchTask = {
    expressions: expressions.map((one) => ({ ...one, characters: BOUNDED[textOf(one)]?.characters ?? MIB })),
    modules: modules.map((file) => pathToFileURL(join(ROOT, file)).href),
  };
  const slow: Slow[] = [];
  const worker = new Worker(new URL('./_search.ts', import.meta.url), { workerData: task });
  let at = 'loading modules';
  let limit: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      const watch = () => {
        clearTimeout(limit);
        limit = setTimeout(() => reject(new Error(`no end: ${at}`)), 45_000);
      };
      watch();
      worker.on('error', reject);
      worker.on('message', (message: SearchMessage) => {
        watch();
        if ('begins' in message) at = message.begins;
        else if ('tooSlow' in message) slow.push(message);
        else if ('made' in message) captured.push(placed(message.made));
        else resolve();
      });
    });
  } finally {
    clearTimeout(limit);
    await worker.terminate();
  }
  return slow;
}

const textOf = ({ source, flags }: { source: string; flags: string }) => `/${source}/${flags}`;

function placed({ place, source, flags }: Expression): Expression {
  const colon = place.lastIndexOf(':');
  return { place: relative(ROOT, fileURLToPath(place.slice(0, colon))) + place.slice(colon), source, flags };
}

const eachOnce = (expressions: readonly Expression[]) => [
  ...new Map(expressions.map((one) => [textOf(one), one])).values(),
];

beforeAll(async () => {
  for (const file of files) {
    const found = expressionsIn(file, readFileSync(join(ROOT, file), 'utf8'));
    written.push(...found.written);
    made.push(...found.made);
  }
  const fileOf = ({ place }: MadeExpression) => place.slice(0, place.lastIndexOf(':'));
  await tooSlow([], [...new Set([...made.map(fileOf), ...files.filter((file) => LOADED.test(file))])]);
});

test('no regular expression of the product takes more than linear time, or 50 ms for a megabyte, for its worst text', async () => {
  const listed = Object.entries(MADE).flatMap(([place, all]) =>
    all.map(({ source, flags }) => ({ place, source, flags })),
  );
  const all = eachOnce([...written, ...captured, ...listed]);
  expect(all.length).toBeGreaterThan(200);
  expect(await tooSlow(all)).toEqual([]);
}, 300_000);

test('every regular expression that the product makes while it runs is known', () => {
  const known = new Set(captured.map(({ place }) => place));
  const left = made.filter(({ place }) => !known.has(place) && !MADE[place.slice(0, place.lastIndexOf(':'))]);
  expect(left).toEqual([]);
  expect(Object.keys(MADE).filter((file) => !made.some(({ place }) => place.startsWith(`${file}:`)))).toEqual([]);
  expect(captured.map(({ source }) => source)).toContain('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$');
});

test('each bound that is listed belongs to an expression', () => {
  const texts = new Set(written.map(textOf));
  expect(Object.keys(BOUNDED).filter((text) => !texts.has(text))).toEqual([]);
});

test.each([
  ['a run that is looked at from each of its letters', "text.replace(/\\/+$/, '')"],
  ['two repetitions of one letter', 'z.string().regex(/^a*[a-z]*$/)'],
  ['a repetition of repetitions', "new RegExp('^(a+)+$').test(text)"],
  ['alternatives that are alike', '/^(?:a|[a-z])*=/.exec(text)'],
  ['a beginning that is repeated without an end', '[...text.matchAll(/<!--.*?-->/gs)]'],
  ['a word after each boundary', '/\\beyJ[\\w-]{8,}\\./.test(text)'],
  ['spaces around a separator', 'text.split(/ *, */)'],
  ['a name before "="', '/([a-z]+)\\s*=/i.exec(text)'],
])('an expression with %s, in any file of the product, is found', async (_, code) => {
  const { written: found } = expressionsIn('src/forged.ts', `\nconst f = (text: string) => ${code};\n`);
  expect(await tooSlow(found)).toEqual([expect.objectContaining({ place: 'src/forged.ts:2' })]);
});

test('expressions with one way to match are not found', async () => {
  const code =
    '[/^[a-z]{1,40}=/, /(?<!\\/)\\/+$/, /[^a-z]+/g, /^(?:[a-z]+\\.)*[a-z]+$/, /^"(?:[^"\\\\]|\\\\.)*"/s, 6 / 2 / 1]';
  const { written: found } = expressionsIn('src/forged.ts', `const f = ${code};`);
  expect(found).toHaveLength(5);
  expect(await tooSlow(found)).toEqual([]);
});
