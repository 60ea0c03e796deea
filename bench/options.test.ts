import { expect, test } from 'vitest';
import { parseOptions } from './options.ts';

const parse = (...args: string[]) => parseOptions(args, ['poll', 'apply'], 'out.json');

test('nothing said: all benchmarks, of usual length', () => {
  expect(parse()).toMatchObject({ names: [], length: 'usual', out: 'out.json', writeDocs: false, profile: false });
});

test('benchmarks are chosen by name, runs by length', () => {
  expect(parse('poll', '--short')).toMatchObject({ names: ['poll'], length: 'short' });
  expect(parse('--long', 'apply', '--out', 'x')).toMatchObject({ names: ['apply'], length: 'long', out: 'x' });
});

test('what cannot be meant is refused', () => {
  expect(() => parse('pol')).toThrow('there is no benchmark "pol"; there are: poll, apply');
  expect(() => parse('--short', '--long')).toThrow('exclude each other');
  expect(() => parse('--fast')).toThrow();
});
