import { posix } from 'node:path';
import { isTestFile } from './repository.ts';

/** What the files of one layer may import; `"*"` is anything. */
interface LayerRule {
  layers: readonly string[] | '*';
  packages: readonly string[] | '*';
  builtins: readonly string[] | '*';
}

/** hack/deps.json: rules by folder or file, both relative to the repository. */
export interface LayerRules {
  /** In a path `*` is the name of one folder: `src/subjects/*\/rules`. Of several rules about a file the first one counts. */
  layers: Readonly<Record<string, LayerRule>>;
  /** The subjects in groups: a folder of `src/subjects` imports its own files and the files of the groups before its own. */
  subjects?: readonly (readonly string[])[];
  /** The groups of folders that import each other in a circle and still have to be parted. */
  cycles?: readonly (readonly string[])[];
}

/** An import that the rules do not allow. */
export interface Violation {
  file: string;
  imports: string;
  reason: string;
}

/**
 * Checks every import of the given files, by path relative to the repository. Tests and their helpers may import anything.
 * A file in `src`, `agent/src` or `cli/src` that is in no layer is itself a violation: a new folder needs a rule. Other files are not
 * checked.
 */
export function findViolations(files: ReadonlyMap<string, string>, rules: LayerRules): Violation[] {
  const violations: Violation[] = [];
  for (const [file, text] of files) {
    if (isTestFile(file)) continue;
    const layer = layerOf(file, rules);
    if (!layer) {
      if (COVERED.test(file))
        violations.push({ file, imports: '', reason: 'no layer in hack/deps.json has this file' });
      continue;
    }
    const rule = rules.layers[layer] as LayerRule;
    for (const imports of importsOf(text)) {
      const reason = judge(file, layer, imports, rule, rules);
      if (reason) violations.push({ file, imports, reason });
    }
  }
  return violations;
}

/** Folders in which each file must belong to a layer. */
const COVERED = /^((agent|cli)\/)?src\//;

/** Folders and files that the rules name and that do not exist: such a rule hides a mistake. */
export function findUnknownLayers(paths: Iterable<string>, rules: LayerRules): string[] {
  const known = new Set<string>();
  for (const path of paths) {
    const layer = layerOf(path, rules);
    if (layer) known.add(layer);
  }
  const named = Object.values(rules.layers).flatMap(({ layers }) => (layers === '*' ? [] : layers));
  return [...new Set([...Object.keys(rules.layers), ...named])].filter((layer) => !known.has(layer)).sort();
}

/** Folders of `src/subjects` that have no place in the order of the subjects, which is data of the rules. */
export function findUnorderedSubjects(paths: Iterable<string>, { subjects = [] }: LayerRules): string[] {
  const found = new Set([...paths].flatMap((path) => subjectOf(path) ?? []));
  return [...found].filter((subject) => !subjects.flat().includes(subject)).sort();
}

/** What a rule allows and no file of its layer imports: `src/kinds allows src/wire`. Tests and their helpers do not count. */
export function findUnusedPermissions(files: ReadonlyMap<string, string>, rules: LayerRules): string[] {
  const used = new Map(Object.keys(rules.layers).map((layer) => [layer, new Set<string>()]));
  for (const [file, text] of files) {
    const layer = isTestFile(file) ? undefined : layerOf(file, rules);
    if (!layer) continue;
    for (const imports of importsOf(text)) {
      if (imports.startsWith('.')) used.get(layer)?.add(layerOf(posix.join(posix.dirname(file), imports), rules) ?? '');
      else used.get(layer)?.add(imports.startsWith('node:') ? imports : packageOf(imports));
    }
  }
  return Object.entries(rules.layers).flatMap(([layer, { layers, packages, builtins }]) => {
    const imported = [...(used.get(layer) ?? [])];
    const allowed: (readonly string[] | '*')[] = [
      layers,
      packages,
      builtins === '*' ? '*' : builtins.map((name) => `node:${name}`),
    ];
    const unused = allowed.flatMap((list) => (list === '*' ? [] : list.filter((name) => !imported.includes(name))));
    if (builtins === '*' && layers !== '*' && !imported.some((name) => name.startsWith('node:'))) unused.push('node:*');
    return unused.map((name) => `${layer} allows ${name}`);
  });
}

/**
 * Folders below the layers that import each other in a circle, as groups: every folder of a group reaches every other one. The
 * files that lie in a layer itself are a folder as well. Tests and their helpers do not count.
 */
export function findCycles(files: ReadonlyMap<string, string>): string[][] {
  const graph = new Map<string, Set<string>>();
  for (const [file, text] of files) {
    if (isTestFile(file) || !COVERED.test(file)) continue;
    const folder = posix.dirname(file);
    const targets = graph.get(folder) ?? new Set();
    graph.set(folder, targets);
    for (const imports of importsOf(text)) {
      const target = posix.join(folder, imports);
      if (imports.startsWith('.') && files.has(target)) targets.add(posix.dirname(target));
    }
  }
  const reach = new Map([...graph.keys()].map((folder) => [folder, reachableFrom(folder, graph)]));
  const groups = new Map<string, string[]>();
  for (const folder of [...graph.keys()].sort()) {
    const group = [...(reach.get(folder) ?? [])].filter((other) => reach.get(other)?.has(folder)).sort();
    if (group.length > 1) groups.set(group.join(' '), group);
  }
  return [...groups.values()];
}

/** What the circles of the code and those that the rules name have not in common; an empty list when they are the same. */
export function findCycleChanges(files: ReadonlyMap<string, string>, { cycles = [] }: LayerRules): string[] {
  const found = findCycles(files).flat();
  const known = cycles.flat();
  return [
    ...found
      .filter((folder) => !known.includes(folder))
      .map((folder) => `${folder} imports other folders in a circle: move what both need to a folder of its own`),
    ...known
      .filter((folder) => !found.includes(folder))
      .map((folder) => `${folder} is in no circle any more: remove it from "cycles" in hack/deps.json`),
  ];
}

function reachableFrom(start: string, graph: ReadonlyMap<string, ReadonlySet<string>>): Set<string> {
  const seen = new Set<string>();
  const left = [start];
  for (let folder = left.pop(); folder !== undefined; folder = left.pop()) {
    for (const next of graph.get(folder) ?? []) {
      if (seen.has(next)) continue;
      seen.add(next);
      left.push(next);
    }
  }
  return seen;
}

/** The modules that a TypeScript file imports, types included. */
export function importsOf(text: string): string[] {
  const code = text.replace(/^\s*(?:\/\/.*|\/?\*.*)$/gm, '');
  const from = /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm;
  const bare = /^\s*import\s*['"]([^'"]+)['"]/gm;
  const dynamic = /\bimport\(\s*['"]([^'"]+)['"]/g;
  return [from, bare, dynamic].flatMap((pattern) => [...code.matchAll(pattern)].map((match) => match[1] as string));
}

function judge(file: string, layer: string, imports: string, rule: LayerRule, rules: LayerRules): string | undefined {
  if (imports.startsWith('node:')) {
    const name = imports.slice('node:'.length);
    return allows(rule.builtins, name) ? undefined : `${layer} is pure and may not use ${imports}`;
  }
  if (!imports.startsWith('.')) {
    const name = packageOf(imports);
    return allows(rule.packages, name) ? undefined : `${layer} may not use the package ${name}`;
  }
  const target = posix.join(posix.dirname(file), imports);
  if (isTestFile(target)) return 'only tests may import tests and their helpers';
  const [own, used] = [subjectOf(file), subjectOf(target)];
  if (own !== undefined && used !== undefined && own !== used && groupOf(used, rules) >= groupOf(own, rules))
    return `the subject ${own} may not import ${used}, which does not come before it`;
  const other = layerOf(target, rules);
  if (other === layer) return undefined;
  if (!other) return `${target} belongs to no layer`;
  return allows(rule.layers, other) ? undefined : `${layer} may not import ${other}`;
}

function packageOf(imports: string): string {
  return imports.split('/', imports.startsWith('@') ? 2 : 1).join('/');
}

function allows(list: readonly string[] | '*', name: string): boolean {
  return list === '*' || list.includes(name);
}

function layerOf(file: string, rules: LayerRules): string | undefined {
  const parts = file.split('/');
  return Object.keys(rules.layers).find((layer) =>
    layer.split('/').every((name, i) => name === parts[i] || (name === '*' && i < parts.length - 1)),
  );
}

/** `catalog` of `src/subjects/catalog/rules/registry.ts`. */
function subjectOf(file: string): string | undefined {
  return /^src\/subjects\/([^/]+)\//.exec(file)?.[1];
}

/** The place of a subject in the order; one without a place comes after all others. */
function groupOf(subject: string, { subjects = [] }: LayerRules): number {
  const at = subjects.findIndex((group) => group.includes(subject));
  return at < 0 ? subjects.length : at;
}
