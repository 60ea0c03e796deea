import { expect, test } from 'vitest';
import { parseOptions } from './options.ts';

const parse = (...args: string[]) => parseOptions(args, ['poll', 'apply'], 'out.json');

test('without options all benchmarks run, with the usual length', () => {
  expect(parse()).toMatchObject({ names: [], length: 'usual', out: 'out.json', writeDocs: false, profile: false });
});

test('options select benchmarks by name, and the length of the run', () => {
  expect(parse('poll', '--short')).toMatchObject({ names: ['poll'], length: 'short' });
  expect(parse('--long', 'apply', '--out', 'x')).toMatchObject({ names: ['apply'], length: 'long', out: 'x' });
});

test('unknown and contradictory options are refused', () => {
  expect(() => parse('pol')).toThrow('there is no benchmark "pol"; there are: poll, apply');
  expect(() => parse('--short', '--long')).toThrow('exclude each other');
  expect(() => parse('--fast')).toThrow();
});
