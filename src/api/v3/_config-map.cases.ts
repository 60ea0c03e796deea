import { type CoreCase, coreAccepts, coreDiffers, coreRefuses } from '../_core-agreement.ts';

const BYTES = Buffer.from([0xff, 0xfe, 0]).toString('base64');
const keys = (count: number, of: string) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`${of}${i}`, '']));

export const cases: CoreCase[] = [
  coreAccepts('nothing', {}),
  coreAccepts('every field', { data: { 'site.json': '{}', empty: '' }, binaryData: { logo: BYTES }, immutable: true }),
  coreAccepts('bytes alone', { binaryData: { logo: BYTES } }),
  coreAccepts('members of null', { data: null, binaryData: null, immutable: null }),
  coreAccepts('values of null', { data: { a: null }, binaryData: { b: null } }),
  coreAccepts('text that looks like an expression', { data: { a: '{{ no }}' } }),
  coreAccepts('the longest key', { data: { ['k'.repeat(253)]: '' } }),
  coreAccepts('as many keys as possible', { data: keys(256, 'd'), binaryData: keys(256, 'b') }),
  coreAccepts('a v3 name', {}, { annotations: { 'skerry.dev/name': 'Plant 7 / north' } }),

  coreRefuses('one key in data and binaryData', { data: { a: '' }, binaryData: { a: '' } }),
  coreRefuses('a number as a value', { data: { port: 8080 } }),
  coreRefuses('true as a value', { data: { on: true } }),
  coreRefuses('an object as a value', { data: { a: {} } }),
  coreRefuses('data that is a list', { data: [] }),
  coreRefuses('bytes that are no base64', { binaryData: { a: 'x' } }),
  coreRefuses('bytes that are a number', { binaryData: { a: 7 } }),
  coreRefuses('a key with a slash', { data: { 'a/b': '' } }),
  coreRefuses('a key of bytes with a slash', { binaryData: { 'a/b': '' } }),
  coreRefuses('an empty key', { data: { '': '' } }),
  coreRefuses('a key that begins with two dots', { data: { '..data': '' } }),
  coreRefuses('too long a key', { data: { ['k'.repeat(254)]: '' } }),
  coreRefuses('too many keys', { data: keys(256, 'd'), binaryData: keys(257, 'b') }),
  coreRefuses('immutable that is text', { immutable: 'yes' }),
  coreRefuses('an unknown field', { colour: 'red' }),
  coreRefuses('a field of secrets', { type: 'Opaque' }),
  coreRefuses('a member of the v3 form', { useVault: true }),
  coreRefuses('a spec', { spec: {} }),
  coreRefuses('a name that is no object name', {}, { name: 'Site' }),
  coreRefuses('an empty v3 name', {}, { annotations: { 'skerry.dev/name': '' } }),
  coreRefuses('too long a v3 name', {}, { annotations: { 'skerry.dev/name': 'n'.repeat(256) } }),

  coreDiffers('NUL in text', { data: { a: 'a\0' } }, 'no text of a body or file has it'),
  coreDiffers('half a surrogate pair', { data: { a: '\ud800' } }, 'the API server stores another character'),
  coreDiffers('the greatest size', { data: { a: 'x'.repeat(2 ** 20) } }, 'a body has at most 1 MiB in all'),
];
