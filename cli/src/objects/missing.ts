import { LABELS } from '../../../src/api/names.ts';
import { RBAC_RESOURCES } from '../../../src/api/rbac.ts';
import type { Application, EdgeNode } from '../../../src/api/v3/index.ts';
import { type Kind, refsTo } from '../../../src/kinds/definition.ts';
import type { KindObject, Reference } from '../../../src/kinds/object.ts';
import { isForbidden, type KubeObject, type Resource } from '../../../src/kube/mod.ts';
import { quoted } from '../../../src/rules/document.ts';
import { uuidOf } from '../../../src/rules/identity.ts';
import { objectName } from '../../../src/rules/names.ts';
import { nearestOf } from '../../../src/rules/nearest.ts';
import { isV3Role } from '../../../src/subjects/access/rules/v3-role.ts';
import { roleVerdict } from '../../../src/subjects/accounts/rules/service-account.ts';
import { CORE_KINDS } from '../../../src/subjects/content/kinds/core-objects.ts';
import { coreName, isShareable, textNameOf } from '../../../src/subjects/content/rules/core-objects/form.ts';
import { KINDS } from '../../../src/subjects/kinds.ts';
import type { CommandContext } from '../context/command.ts';

/** An object that a command wrote, or would have written. */
export interface WrittenObject {
  resource: Resource;
  object: KubeObject;
  /** in the v3 API */
  name: string;
  /** the microservice of the application that was written alone */
  entry?: string;
}

/** The parts of an object that have references, with the beginning of a message about each. */
interface Part {
  called: string;
  references: readonly Reference[];
  /** what is wrong whatever the namespace has */
  wrong?: string | undefined;
}

type Names = ReadonlySet<number | string>;

const isOf = (kind: Kind, { group, kind: name }: Resource) =>
  kind.resource.kind === name && kind.resource.group === group;
const kindOf = (resource: Resource) => (Object.values(KINDS) as Kind[]).find((kind) => isOf(kind, resource));

/**
 * What the written objects name and the namespace does not have, as sentences with the name that may have been meant. The
 * admission of the API server sees one object and cannot say it
 * (docs/decisions/2026-11-24-who-says-that-a-node-is-missing.md). Of kinds that the user may not read nothing is said.
 */
export async function missingReferences(context: CommandContext, written: readonly WrittenObject[]): Promise<string[]> {
  const found = createFinder(context, written);
  const sentences: string[] = [];
  for (const { called, references, wrong } of written.flatMap(partsOf)) {
    if (wrong !== undefined) sentences.push(`${called}: ${wrong}`);
    for (const reference of references) {
      const missing = await found(reference);
      if (missing !== undefined) sentences.push(`${called}: ${missing}`);
    }
  }
  return sentences;
}

function partsOf({ resource, object, name, entry: only }: WrittenObject): Part[] {
  const kind = kindOf(resource);
  if (!kind) return [];
  const called = `${resource.kind.toLowerCase()}/${name}`;
  const linked = (object as KindObject).spec.nodes ?? [];
  if (kind.key !== 'applications')
    return [{ called, references: [...(kind.references?.(object as KindObject) ?? []), ...linked.map(toNode)] }];
  const application = object as Application;
  const { microservices = [], ...spec } = application.spec;
  const referencesOf = (entries: typeof microservices) => [
    ...(kind.references?.({ ...application, spec: { ...spec, microservices: entries } } as KindObject) ?? []),
  ];
  const ofApplication = referencesOf([]);
  const entries = microservices
    .filter((entry) => only === undefined || entry.name === only)
    .map((entry): Part => {
      const { agent, serviceAccount } = entry;
      const node = agent?.uuid ?? agent?.name;
      return {
        called: `${called}: microservice ${entry.name}`,
        references: [
          ...(node === undefined ? [] : [toNode(node)]),
          // Every microservice has an account of its name, with or without an object.
          ...referencesOf([entry]).filter(({ to }) => to !== 'serviceAccounts' && to !== 'applicationTemplates'),
          ...(serviceAccount ? [{ to: 'roles', ref: serviceAccount.roleRef.name }] : []),
        ],
        wrong: serviceAccount && roleVerdict(serviceAccount.roleRef, 'serviceAccount.roleRef', () => true)?.message,
      };
    });
  return [...(only === undefined ? [{ called, references: ofApplication }] : []), ...entries];
}

const toNode = (ref: string): Reference => ({ to: 'nodes', ref });

/** Says of a reference what is missing. Names of a kind are listed once, and only when an object was not found by its name. */
function createFinder({ cluster: { client, namespace }, signal }: CommandContext, written: readonly WrittenObject[]) {
  const listed = new Map<string, Promise<Names>>();
  const answers = new Map<string, Promise<string | undefined>>();

  async function has(kind: Kind, ref: string): Promise<boolean> {
    const name = isCore(kind) ? coreName(ref) : objectName(ref);
    const object = await client.find(kind.resource as Resource, { namespace, name }, { signal });
    return object !== undefined && namesOf(kind, object).includes(ref);
  }
  async function list(kind: Kind): Promise<Names> {
    const names = new Set<number | string>();
    const selected = isCore(kind) ? { labelSelector: `${LABELS.shareable}=true` } : {};
    for await (const { items } of client.listPages(kind.resource as Resource, { namespace, ...selected, signal }))
      for (const item of items) for (const name of namesOf(kind, item)) names.add(name);
    for (const { resource, name } of written) if (isOf(kind, resource)) names.add(name);
    return names;
  }
  async function judge(kind: Kind, ref: number | string): Promise<string | undefined> {
    const builtIns = (kind.builtIns ?? []).flatMap(({ name, spec }) => [name, spec.id]);
    if (builtIns.includes(ref)) return undefined;
    try {
      if (typeof ref === 'string' && (await has(kind, ref))) return undefined;
      const names = await (listed.get(kind.key) ?? listed.set(kind.key, list(kind)).get(kind.key));
      if (!names || names.has(ref)) return undefined;
      const texts = [...names, ...builtIns].filter((name) => typeof name === 'string');
      const nearest = typeof ref === 'string' ? nearestOf(ref, texts) : undefined;
      const which = typeof ref === 'string' ? quoted(ref) : `with the id ${ref}`;
      const label = isCore(kind) ? ` with the label ${LABELS.shareable}=true` : '';
      return `there is no ${kind.noun} ${which}${label}${nearest === undefined ? '' : `; did you mean ${nearest}?`}`;
    } catch (error) {
      if (isForbidden(error)) return undefined;
      throw error;
    }
  }
  /** A role is one of the system, or a Role of the cluster with the label. */
  async function judgeRole(name: string): Promise<string | undefined> {
    const isMissing = (made: boolean) => roleVerdict({ name }, '', () => made)?.message;
    if (!isMissing(false)) return undefined;
    try {
      const role = await client.find(RBAC_RESOURCES.roles, { namespace, name }, { signal });
      return isMissing(role !== undefined && isV3Role(role));
    } catch (error) {
      if (isForbidden(error)) return undefined;
      throw error;
    }
  }
  return ({ to, ref }: Reference): Promise<string | undefined> => {
    if (to === 'roles') return judgeRole(String(ref));
    const kind = ({ ...KINDS, ...CORE_KINDS } as Record<string, unknown>)[to] as Kind | undefined;
    if (!kind) return Promise.resolve(undefined);
    const key = `${to} ${typeof ref} ${ref}`;
    const answer = answers.get(key) ?? judge(kind, ref);
    answers.set(key, answer);
    return answer;
  };
}

const isCore = ({ key }: Kind) => key in CORE_KINDS;

/** What may name an object: its number, its v3 name, and the uuid of a node. A core object without the label has no name. */
function namesOf(kind: Kind, object: KubeObject): readonly (number | string)[] {
  if (isCore(kind)) return isShareable(object) ? [textNameOf(object)] : [];
  const uuid = kind.key === 'nodes' ? uuidOf(object as EdgeNode) : undefined;
  return [...refsTo(kind, object as KindObject), ...(uuid === undefined ? [] : [uuid])];
}
