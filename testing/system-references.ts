import { agreementTables } from '../src/api/_agreement.ts';
import { API_VERSION, LABELS } from '../src/api/names.ts';
import type { Kind } from '../src/kinds/definition.ts';
import type { KindObject } from '../src/kinds/object.ts';
import { editsOfKinds } from '../src/rest/_edits.ts';
import { isOneOf } from '../src/rules/built-in.ts';
import { CORE_KINDS } from '../src/subjects/content/kinds/core-objects.ts';
import { KINDS } from '../src/subjects/kinds.ts';
import { referencedByApplications } from '../src/subjects/workloads/kinds/application.ts';
import { manifest } from './manifest.ts';

/**
 * Every way in which an application of the system comes to use an object: for each kind with references and each kind that it
 * refers to, an application of the system and the objects between it and one of that kind. They are made from the accepted documents
 * of each kind (src/api/v3/*.cases.ts), so that a new reference is among them as soon as a document has it.
 */
export interface Chain {
  /** `applications -> catalogItems -> registries` */
  title: string;
  application: KindObject;
  /** the objects between the application and the last one, in this order; the last one is what the chain is about */
  links: readonly { kind: Kind; object: KindObject; ref: number | string }[];
}

export const SYSTEM_APPLICATION = 'system-plant';
export const EVERY_KIND = { ...KINDS, ...CORE_KINDS } as unknown as Readonly<Record<string, Kind>>;

interface Edge {
  to: string;
  ref: number | string;
  spec: object;
}

/** Throws and names the kinds when no accepted document has a reference that its kind can have. */
export async function systemChains(): Promise<readonly Chain[]> {
  const edges = new Map<string, ReadonlyMap<string, Edge>>();
  for (const [{ kind: named }, cases] of await agreementTables()) {
    const kind = Object.values(EVERY_KIND).find(({ definition }) => definition.kind === named) as Kind;
    if (kind.references)
      edges.set(
        kind.key,
        edgesOf(
          kind,
          cases.flatMap(({ accepted, spec }) => (accepted ? [spec] : [])),
        ),
      );
  }
  const missing = referencedByApplications().filter((to) => !edges.get('applications')?.has(to));
  const without = [...edges].flatMap(([from, known]) => (known.size === 0 ? [from] : []));
  if (missing.length + without.length > 0)
    throw new Error(
      `no accepted document of src/api/v3/*.cases.ts has a reference: ${[...missing, ...without].join(', ')}`,
    );
  const chains: Chain[] = [];
  const extend = (path: readonly Edge[]) => {
    const from = path.at(-1)?.to ?? 'applications';
    for (const edge of edges.get(from)?.values() ?? []) {
      // Applications have rules of their own.
      if (EVERY_KIND[edge.to]?.isOfSystem || path.some(({ to }) => to === edge.to)) continue;
      const longer = [...path, edge];
      chains.push(chainOf(longer));
      extend(longer);
    }
  };
  extend([]);
  return chains;
}

/** The references of a kind, each in the document with the fewest of them. */
function edgesOf(kind: Kind, specs: readonly unknown[]): ReadonlyMap<string, Edge> {
  const found = new Map<string, Edge & { count: number }>();
  for (const spec of specs) {
    const references = referencesIn(kind, spec as object);
    for (const { to, ref } of references) {
      const target = EVERY_KIND[to];
      const isBuiltIn = target?.builtIns?.some(({ name, spec: { id } }) => ref === name || ref === id);
      if (isBuiltIn || (found.get(to)?.count ?? Number.POSITIVE_INFINITY) <= references.length) continue;
      found.set(to, { to, ref, spec: spec as object, count: references.length });
    }
  }
  return found;
}

function referencesIn(kind: Kind, spec: object) {
  const object = { apiVersion: API_VERSION, kind: kind.definition.kind, metadata: { name: SYSTEM_APPLICATION }, spec };
  try {
    return Array.from(kind.references?.(object as KindObject) ?? []);
  } catch {
    // A document of null, which the API server stores without it.
    return [];
  }
}

function chainOf(path: readonly Edge[]): Chain {
  const [first] = path as [Edge];
  const links = path.map(({ to, ref }, at) => {
    const kind = EVERY_KIND[to] as Kind;
    return { kind, ref, object: objectOf(kind, ref, path[at + 1]?.spec ?? specOf(kind)) };
  });
  return {
    title: ['applications', ...path.map(({ to }) => to)].join(' -> '),
    application: manifest('Application', { name: SYSTEM_APPLICATION }, { ...first.spec, isSystem: true }) as KindObject,
    links,
  };
}

function specOf({ key }: Kind): object {
  const row = editsOfKinds().find(({ kind }) => kind.key === key);
  const { name: _name, ...spec } = row?.edits.create('any') ?? {};
  return spec;
}

/** The object that a reference means. */
function objectOf(kind: Kind, ref: number | string, template: object): KindObject {
  const { name: _name, id: _id, uuid: _uuid, nodes: _nodes, ...spec } = template as Record<string, unknown>;
  const name =
    typeof ref === 'number' ? `${kind.definition.singular}-${ref}` : ref.replaceAll(/[^a-z0-9]+/gi, '-').toLowerCase();
  const head = { kind: kind.definition.kind, metadata: { name, labels: {} } };
  if (Object.hasOwn(CORE_KINDS, kind.key)) {
    const labels = { [LABELS.shareable]: 'true' };
    return { ...head, apiVersion: 'v1', metadata: { name, labels }, data: {} } as unknown as KindObject;
  }
  const { scope } = kind.rest.crud ?? {};
  const [owner, own] = String(ref).split('/');
  const identity = typeof ref === 'number' ? { id: ref } : scope ? { [scope.field]: owner, name: own } : {};
  const named = { ...head, apiVersion: API_VERSION, spec: { ...spec, ...identity } } as KindObject;
  if (isOneOf(kind.builtIns ?? [], named)) throw new Error(`${name} is built in`);
  return named;
}

/** The object as the API server returns it. */
export const stored = (object: KindObject, namespace: string, version: number): KindObject => ({
  ...object,
  metadata: {
    ...object.metadata,
    namespace,
    uid: object.metadata.uid ?? `uid of ${object.metadata.name}`,
    resourceVersion: String(version),
    generation: 1,
    creationTimestamp: '2026-01-01T00:00:00Z',
  },
});
