import type { Kind as AnyKind } from '../src/kinds/definition.ts';
import { SERVICE_ACCOUNTS } from '../src/subjects/accounts/_make.ts';
import { BUS } from '../src/subjects/bus-rules/_make.ts';
import { CATALOG } from '../src/subjects/catalog/_make.ts';
import { CONTENT } from '../src/subjects/content/_make.ts';
import { CORE_KINDS } from '../src/subjects/content/kinds/core-objects.ts';
import { KINDS } from '../src/subjects/kinds.ts';
import { NODES } from '../src/subjects/nodes/_make.ts';
import { PKI } from '../src/subjects/pki/_make.ts';
import { SERVICES } from '../src/subjects/services/_make.ts';
import { WORKLOADS } from '../src/subjects/workloads/_make.ts';
import type { Example } from './example.ts';
import type { Kind } from './sequences/model.ts';

/** The examples of every kind; a kind without them does not compile. */
export const EXAMPLES: Readonly<Record<Kind, Example>> = {
  ...NODES,
  ...CATALOG,
  ...CONTENT,
  ...SERVICE_ACCOUNTS,
  ...PKI,
  ...BUS,
  ...SERVICES,
  ...WORKLOADS,
};

/** How the objects of a kind are called and reached. */
export interface Form extends Example {
  /** as REST and the Kubernetes API spell it */
  kind: string;
  path: string;
  listPath?: string | undefined;
  /** absent: a list is the array itself */
  list?: string | undefined;
  /** name of the file part; absent: no files */
  part?: string | undefined;
  /** a file replaces an object, or creates it (PUT), or changes it (PATCH) */
  update?: 'PUT' | 'PATCH' | undefined;
  key?: 'id' | 'uuid' | undefined;
}

export const EVERY_KIND = Object.fromEntries(
  Object.entries({ ...KINDS, ...CORE_KINDS }).filter(([key]) => key in EXAMPLES),
) as unknown as Readonly<Record<Kind, AnyKind>>;

function formOf(kind: AnyKind, example: Example): Form {
  const { key, crud } = kind.rest;
  return {
    ...example,
    kind: kind.definition.kind,
    ...(crud && {
      ...{ path: crud.path, listPath: crud.listPath, list: crud.isBareList ? undefined : crud.list },
      ...{ part: crud.upload?.part, update: crud.upload?.update },
    }),
    ...({ ...example.rest } as { path: string }),
    key: key === 'name' ? undefined : key,
  };
}

export const FORMS = Object.fromEntries(
  Object.entries(EVERY_KIND).map(([key, kind]) => [key, formOf(kind, EXAMPLES[key as Kind])]),
) as unknown as Readonly<Record<Kind, Form>>;
