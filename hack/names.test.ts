import { expect, test } from 'vitest';
import { findDoubleNames } from './names.ts';

const CONVENTIONS = { names: { Config: 'each program has its own' }, tables: { 'cli/src/commands/': 'words' } };
const PROGRAMS = { 'src/config.ts': 'export interface Config {}', 'agent/src/config.ts': 'export type Config = 1;' };

const judge = (files: Record<string, string>) =>
  findDoubleNames(new Map(Object.entries({ ...PROGRAMS, ...files })), CONVENTIONS);

test.each([
  ['a function and a constant', 'export function a() {}', 'export const a = 1;'],
  ['a class and a type', 'export class a {}', 'export type a = 1;'],
  ['generators', 'export async function* a() {}', 'export function* a() {}'],
  ['interfaces', 'export interface a {}', 'export interface a {}'],
])('a name of two meanings is an error: %s', (_, one, other) => {
  expect(judge({ 'src/a/x.ts': one, 'agent/src/b/y.ts': other })).toEqual([
    'a is exported by agent/src/b/y.ts and src/a/x.ts',
  ]);
});

test.each([
  ['is private in one file', { 'src/x.ts': 'export const a = 1;', 'src/y.ts': 'const a = 2;' }],
  ['is exported again', { 'src/x.ts': 'export const a = 1;', 'src/y.ts': "export { a } from './x.ts';" }],
  ['has a type in the same file', { 'src/x.ts': 'export const A = 1;\nexport type A = typeof A;' }],
  ['helps tests', { 'src/x.ts': 'export const a = 1;', 'src/_y.ts': 'export const a = 2;', 'src/a.test.ts': '' }],
  ['is a word of a table', { 'src/x.ts': 'export const a = 1;', 'cli/src/commands/a.ts': 'export const a = 2;' }],
])('a name may have one definition when it %s', (_, files) => {
  expect(judge(files)).toEqual([]);
});

test('a convention is for one file of each program, and for names that need it', () => {
  expect(judge({ 'src/other.ts': 'export const Config = 1;' })).toEqual([
    'Config is exported by agent/src/config.ts and src/config.ts and src/other.ts',
  ]);
  expect(judge({ 'src/config.ts': '' })).toEqual(['the convention about Config is not needed: one file exports it']);
});
