import { describe, expect, test } from 'vitest';
import {
  findCycleChanges,
  findCycles,
  findUnknownLayers,
  findUnorderedSubjects,
  findUnusedPermissions,
  findViolations,
  importsOf,
  type LayerRules,
} from './layers.ts';

const RULES: LayerRules = {
  layers: {
    'src/api': { layers: [], packages: ['zod'], builtins: [] },
    'src/kube': { layers: ['src/api'], packages: ['@kubernetes/client-node'], builtins: '*' },
    'src/app.ts': { layers: '*', packages: '*', builtins: '*' },
  },
};

const judge = (file: string, text: string) =>
  findViolations(new Map([[file, text]]), RULES).map(({ reason }) => reason);

test.each([
  ['a lower layer', 'src/kube/a.ts', `import { x } from '../api/x.ts';`],
  ['its own layer', 'src/kube/a.ts', `export * from './b.ts';`],
  ['a package of its list, by a path in it', 'src/kube/a.ts', `import { x } from '@kubernetes/client-node/dist/x.js';`],
  ['anything, where its rule allows everything', 'src/app.ts', `import './kube/a.ts';\nimport 'express';`],
  ['anything, in a test', 'src/api/a.test.ts', `import { x } from '../kube/a.ts';`],
  ['anything, in a helper of tests', 'src/api/_util.ts', `import { x } from '../kube/a.ts';`],
  ['anything, in the folder of tests', 'testing/a.ts', `import { x } from '../src/kube/a.ts';`],
])('a file may import %s', (_, file, text) => {
  expect(judge(file, text)).toEqual([]);
});

test.each([
  ['an upper layer', 'src/api/a.ts', `import type { X } from '../kube/a.ts';`, 'src/api may not import src/kube'],
  ['an upper layer at run time', 'src/api/a.ts', `await import('../kube/a.ts')`, 'src/api may not import src/kube'],
  [
    'a package that is not in its list',
    'src/kube/a.ts',
    `import { z } from 'zod';`,
    'src/kube may not use the package zod',
  ],
  ['a module of Node, in a pure layer', 'src/api/a.ts', `import 'node:fs';`, 'src/api is pure and may not use node:fs'],
  ['a file that is in no layer', 'src/kube/a.ts', `import '../../hack/a.ts';`, 'hack/a.ts belongs to no layer'],
  ['a helper of tests', 'src/kube/a.ts', `import './_util.ts';`, 'only tests may import tests and their helpers'],
  [
    'a file of the folder of tests',
    'src/kube/a.ts',
    `import '../../testing/widget.ts';`,
    'only tests may import tests and their helpers',
  ],
])('a file may not import %s', (_, file, text, reason) => {
  expect(judge(file, text)).toEqual([reason]);
});

test('a folder without a rule is a violation in src and agent/src, and none elsewhere', () => {
  expect(judge('src/new/a.ts', '')).toEqual(['no layer in hack/deps.json has this file']);
  expect(judge('agent/src/new/a.ts', '')).toEqual(['no layer in hack/deps.json has this file']);
  expect(judge('hack/a.ts', `import 'express';`)).toEqual([]);
});

test('a rule that is about, or allows, a folder that does not exist is found', () => {
  const rule = { layers: ['src/none'], packages: [], builtins: [] };
  const rules = { layers: { ...RULES.layers, 'src/gone': rule } };
  expect(findUnknownLayers(['src/api/a.ts', 'src/kube/a.ts', 'src/app.ts'], rules)).toEqual(['src/gone', 'src/none']);
});

test('a folder, a package or a builtin that a rule allows and only tests import is found', () => {
  const files = new Map([
    ['src/api/a.ts', `import { z } from 'zod';`],
    ['src/kube/a.ts', `import '../api/a.ts';`],
    ['src/kube/a.test.ts', `import 'node:fs';\nimport '@kubernetes/client-node';`],
  ]);
  expect(findUnusedPermissions(files, RULES)).toEqual([
    'src/kube allows @kubernetes/client-node',
    'src/kube allows node:*',
  ]);
});

test('imports are found across several lines, and not in comments', () => {
  const text = `// import 'a';\n/**\n * import { x } from 'b';\n */\nimport {\n  x,\n  type Y,\n} from 'c';\nexport type { Z } from 'd';\nimport 'e';\n`;
  expect(importsOf(text)).toEqual(['c', 'd', 'e']);
});

describe('a subject', () => {
  const pure = { layers: ['src/api', 'src/subjects/*/rules'], packages: [], builtins: [] };
  const rules: LayerRules = {
    layers: {
      ...RULES.layers,
      'src/subjects/*/rules': pure,
      'src/subjects/*/kinds': pure,
    },
    subjects: [['nodes'], ['catalog', 'pki'], ['workloads']],
  };
  const judgeSubject = (file: string, imports: string) =>
    findViolations(new Map([[`src/subjects/${file}`, `import '${imports}';`]]), rules).map(({ reason }) => reason);

  test.each([
    ['its own rules', 'catalog/rules/a.ts', './b.ts'],
    ['the rules of a subject of an earlier group', 'workloads/rules/a.ts', '../../catalog/rules/b.ts'],
    ['a folder below its rules', 'nodes/rules/a.ts', './placement/b.ts'],
    ['its own rules, from its kinds', 'pki/kinds/a.ts', '../rules/b.ts'],
  ])('may import %s', (_, file, imports) => {
    expect(judgeSubject(file, imports)).toEqual([]);
  });

  test.each([
    ['of a later group', 'nodes/rules/a.ts', '../../catalog/rules/b.ts', 'nodes', 'catalog'],
    ['of its own group', 'catalog/rules/a.ts', '../../pki/rules/b.ts', 'catalog', 'pki'],
    ['without a place in the order', 'workloads/rules/a.ts', '../../bus/rules/b.ts', 'workloads', 'bus'],
  ])('may not import a subject %s', (_, file, imports, own, used) => {
    expect(judgeSubject(file, imports)).toEqual([
      `the subject ${own} may not import ${used}, which does not come before it`,
    ]);
  });

  test('may not import its kinds from its rules, and no module of Node', () => {
    expect(judgeSubject('nodes/rules/a.ts', '../kinds/b.ts')).toEqual([
      'src/subjects/*/rules may not import src/subjects/*/kinds',
    ]);
    expect(judgeSubject('nodes/rules/a.ts', 'node:fs')).toEqual([
      'src/subjects/*/rules is pure and may not use node:fs',
    ]);
  });

  test('has a folder of which each file belongs to a layer, and a place in the order', () => {
    expect(judgeSubject('nodes/other/a.ts', 'x')).toEqual(['no layer in hack/deps.json has this file']);
    expect(judgeSubject('a.ts', 'x')).toEqual(['no layer in hack/deps.json has this file']);
    expect(findUnorderedSubjects(['src/subjects/bus/rules/a.ts', 'src/subjects/nodes/rules/a.ts'], rules)).toEqual([
      'bus',
    ]);
  });
});

describe('a circle of folders below the layers', () => {
  const files = new Map([
    ['src/domain/a/x.ts', `import { y } from '../b/y.ts';`],
    ['src/domain/b/y.ts', `import type { Z } from '../c/z.ts';`],
    ['src/domain/c/z.ts', `import { x } from '../a/x.ts';`],
    ['src/domain/d/w.ts', `import { x } from '../a/x.ts';\nimport './v.ts';`],
    ['src/domain/d/v.ts', `import './w.ts';`],
    ['src/domain/a/x.test.ts', `import '../d/w.ts';`],
    ['hack/a/x.ts', `import '../b/y.ts';`],
    ['hack/b/y.ts', `import '../a/x.ts';`],
  ]);
  const group = ['src/domain/a', 'src/domain/b', 'src/domain/c'];

  test('is found with each folder in it, whatever tests and the files of one folder import', () => {
    expect(findCycles(files)).toEqual([group]);
  });

  test('must be named, and no more than there are', () => {
    const changes = (cycles: string[][]) => findCycleChanges(files, { layers: {}, cycles });
    expect(changes([group])).toEqual([]);
    expect(changes([['src/domain/a', 'src/domain/b']])).toEqual([
      'src/domain/c imports other folders in a circle: move what both need to a folder of its own',
    ]);
    expect(changes([[...group, 'src/domain/d']])).toEqual([
      'src/domain/d is in no circle any more: remove it from "cycles" in hack/deps.json',
    ]);
  });
});
