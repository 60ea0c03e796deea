import {
  type AliasOf,
  CONTAINER_FIELD_NAMES,
  type CONTAINER_FIELDS,
  type ContainerField,
  type containerViewShape,
  fieldRow,
  isAbsent,
  type NormalContainer,
  type NormalValue,
  type WireValue,
} from '../api/container/index.ts';
import type { MicroserviceView } from './agent.ts';
import { canonicalJson } from './digest.ts';

type View = Readonly<Record<string, unknown>>;

/** The value of a container field in a view, in any of its spellings. */
function containerValue<F extends ContainerField>(view: MicroserviceView, field: F): WireValue<F> | undefined {
  const { wireName, alias } = fieldRow(field);
  const value = (view as View)[wireName];
  return (alias && isAbsent(field, value) ? (view as View)[alias.name as AliasOf<F>] : value) as
    | WireValue<F>
    | undefined;
}

/** The container fields of a view by their names, each in one spelling. */
export type ContainerFields = { readonly [F in ContainerField]: WireValue<F> | undefined };

export const containerFields = (view: MicroserviceView): ContainerFields =>
  Object.fromEntries(CONTAINER_FIELD_NAMES.map((field) => [field, containerValue(view, field)])) as ContainerFields;

type OwnPart = {
  [F in ContainerField]: (typeof CONTAINER_FIELDS)[F]['part'] extends 'own' ? F : never;
}[ContainerField];

/**
 * One of the two hashes of what a container is made from: the revision of the controller and the container digest of the
 * agent. docs/decisions/2026-11-22-two-fingerprints.md says why there are two.
 */
export interface Fingerprint {
  /** members of items that have their default take no part */
  leavesOutItemDefaults: boolean;
  /** what the items of a list whose order does not count are sorted by */
  sortKey: (item: unknown) => string;
  /** the fields that have a form of their own; undefined and what is empty take no part */
  own: { readonly [F in OwnPart]: (value: WireValue<F>) => unknown };
}

/** Everything in a view that a container is made from, as a fingerprint hashes it. Absent members are left out. */
export function containerForm(view: MicroserviceView, fingerprint: Fingerprint): Record<string, unknown> {
  const form: Record<string, unknown> = { application: view.application, name: view.name, image: view.imageId };
  const ownForms = fingerprint.own as Readonly<Record<string, ((value: unknown) => unknown) | undefined>>;
  for (const field of CONTAINER_FIELD_NAMES) {
    const value = containerValue(view, field);
    if (isAbsent(field, value)) continue;
    const { wireName, part, itemDefaults } = fieldRow(field);
    const own = ownForms[field];
    const formed = own
      ? own(value)
      : part === 'set'
        ? sorted(
            (value as unknown[]).map((item) => itemForm(item, itemDefaults, fingerprint)),
            fingerprint,
          )
        : value;
    if (!isAbsent(field, formed)) form[wireName] = formed;
  }
  for (const catalog of ['models', 'knowledge'] as const) {
    const formed = catalogForm(view[catalog], fingerprint);
    if (formed) form[catalog] = formed;
  }
  return form;
}

/** The form of a list item in a fingerprint. */
export function itemForm(
  item: unknown,
  defaults: Readonly<Record<string, unknown>> | undefined,
  { leavesOutItemDefaults }: Pick<Fingerprint, 'leavesOutItemDefaults'>,
): unknown {
  if (!defaults || !leavesOutItemDefaults) return item;
  return Object.fromEntries(Object.entries(item as View).filter(([member, value]) => value !== defaults[member]));
}

/** The items in an order that does not depend on that of the list. */
export function sorted(items: readonly unknown[], { sortKey }: Pick<Fingerprint, 'sortKey'>): unknown[] {
  if (items.length < 2) return [...items];
  const keyed = items.map((item) => [sortKey(item), item] as const);
  return keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, item]) => item);
}

const CATALOG_DEFAULTS = { permissions: 'ro' };

/** Which items a catalog holds changes in place; whether there is one, where and how it is mounted does not. */
function catalogForm(catalog: MicroserviceView['models'], fingerprint: Fingerprint): unknown {
  if (!catalog?.items.length) return undefined;
  return itemForm({ bindPath: catalog.bindPath, permissions: catalog.permissions }, CATALOG_DEFAULTS, fingerprint);
}

type Resolve<F extends ContainerField> = (value: NormalValue<F>) => WireValue<F>;

/** Fields whose normal form is not what an agent gets. */
type Resolved = {
  [F in ContainerField]: NormalValue<F> extends WireValue<F> ? never : F;
}[ContainerField];

/** Fields that are the same for an agent wherever the entry comes from. */
type Formed = 'healthCheck' | 'annotations';

/** What an agent gets of the fields that depend on where the entry comes from. */
export type ContainerResolution = { readonly [F in Exclude<Resolved, Formed> | 'volumes' | 'runtime']: Resolve<F> };

const FORMED: { readonly [F in Formed]: Resolve<F> } = {
  healthCheck: ({ test = [], ...check }) => ({ test, ...check }),
  annotations: canonicalJson,
};

type ContainerMembers = Pick<MicroserviceView, keyof typeof containerViewShape>;

/** The members of a view that are container fields. Only volumes have a scope. */
export function containerMembers(container: NormalContainer, resolution: ContainerResolution): ContainerMembers {
  const members: Record<string, unknown> = {};
  const resolve: Partial<Record<ContainerField, (value: never) => unknown>> = {
    ...FORMED,
    ...resolution,
    volumes: (volumes: NormalValue<'volumes'>) =>
      resolution.volumes(volumes).map((one) => (one.type === 'volume' ? one : { ...one, scope: 'private' })),
  };
  for (const field of CONTAINER_FIELD_NAMES) {
    const { wireName, alias, default: absent } = fieldRow(field);
    const given = container[field];
    const resolved = resolve[field];
    const value = given === undefined ? absent : resolved ? resolved(given as never) : given;
    if (value === undefined) continue;
    members[wireName] = value;
    if (alias) members[alias.name] = value;
  }
  return members as ContainerMembers;
}
