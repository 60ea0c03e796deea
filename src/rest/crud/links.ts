import { z } from 'zod';
import { BOUNDS } from '../../api/bounds.ts';
import type { Application, EdgeNode, MicroserviceEntry } from '../../api/v3/index.ts';
import { type Kind, type KindLinks, refsTo } from '../../kinds/definition.ts';
import type { KindObject } from '../../kinds/object.ts';
import type { KindCrud, Write } from '../../kinds/rest.ts';
import { DomainError } from '../../rules/errors.ts';
import { nodeUuid } from '../../rules/identity.ts';
import { v3Name } from '../../rules/names.ts';
import { holder } from '../../rules/precedence.ts';
import { KINDS } from '../../subjects/kinds.ts';
import { placedOn } from '../../subjects/nodes/rules/placement/entries.ts';
import { reach } from '../../subjects/nodes/rules/placement/reach.ts';
import { requireMayChange } from '../access/system.ts';
import type { Caller } from '../contract/access.ts';
import { objectsOf, type RestDependencies } from '../contract/dependencies.ts';
import { notFound } from '../contract/errors.ts';
import { type AnyRoute, route } from '../contract/route.ts';
import { isPresent } from '../objects/deletion.ts';
import { edit, withChanges } from '../objects/edit.ts';
import { accessByKey, presentObject } from '../objects/lookup.ts';
import { applicationsReferringTo, presentNodes } from '../objects/present.ts';
import { nameParam } from './shapes.ts';

const nodesReply = z.object({ fogUuids: z.array(z.string()) }).meta({ id: 'LinkedNodes' });
const nodesBody = z.object({
  fogUuids: z.array(z.string().min(1).max(BOUNDS.anyName)).min(1, 'must name a node').max(BOUNDS.linkedNodes),
});

type Read = (
  deps: RestDependencies,
  name: string,
  caller: Caller,
  signal: AbortSignal,
) => Promise<Record<string, unknown>>;

/** The routes that link the objects of a kind to nodes. */
export function linkRoutes<T extends KindObject, W extends Write<T>>(
  kind: Kind<T>,
  { reply, refusal, inUse }: KindLinks<T>,
  crud: KindCrud<T, W>,
  read: Read,
): AnyRoute[] {
  const { definition, noun, rest } = kind;
  const path = `${crud.path}/{${rest.key}}/link`;
  const common = { path, params: nameParam };
  const access = { resource: definition.plural, ...accessByKey(kind) };
  const schema = reply === 'nodes' ? nodesReply : crud.shapes.read;

  /** The object with other links. */
  async function relink(
    { deps, params: { name }, body, caller, signal }: LinkCall,
    change: (object: T, nodes: readonly EdgeNode[], present: (node: EdgeNode) => EdgeNode) => readonly string[],
    { allowsGone = false } = {},
  ) {
    const linked = allowsGone ? ((await presentObject(deps, kind, name, signal)).spec.nodes ?? []) : [];
    const named = body.fogUuids.filter((one) => !linked.includes(one) || findNode(deps, one));
    const nodes = await nodesNamed(deps, named, signal);
    const present = await presentNodes(deps, refusal ? nodes : [], signal);
    await edit(
      objectsOf(deps, kind),
      () => presentObject(deps, kind, name, signal),
      async (object) => {
        await requireMayChange({ deps, caller }, kind, object);
        const changed = change(object, nodes, present);
        if (changed.length === object.spec.nodes?.length) return object;
        return withChanges(object as T & { spec: object }, { spec: { ...object.spec, nodes: changed } });
      },
      signal,
    );
    return reply === 'nodes' ? { fogUuids: nodes.map(nodeUuid) } : read(deps, name, caller, signal);
  }

  return [
    route({
      method: 'GET',
      ...common,
      operation: `get${definition.kind}Links`,
      summary: `The nodes of a ${noun}`,
      description: `The nodes that it is linked to, and those where an entry uses it.`,
      access: { ...access, verb: 'get' },
      reply: { status: 200, schema: nodesReply },
      async handler({ deps, params: { name }, signal }) {
        return { fogUuids: linkedNodes(deps, kind, await presentObject(deps, kind, name, signal)) };
      },
    }),
    route({
      method: 'POST',
      ...common,
      operation: `link${definition.kind}`,
      summary: `Link a ${noun} to nodes`,
      access: { ...access, verb: 'patch' },
      body: { kind: 'json', schema: nodesBody },
      reply: { status: 200, schema },
      handler: (call) =>
        relink(call, (object, nodes, present) => {
          const linked = object.spec.nodes ?? [];
          const added = nodes.filter((node) => !namesOf(node).some((name) => linked.includes(name)));
          for (const node of added) {
            const refused = refusal?.of(object, present(node));
            if (refused) throw refused;
          }
          return [...linked, ...added.map(nodeUuid)];
        }),
    }),
    route({
      method: 'DELETE',
      ...common,
      operation: `unlink${definition.kind}`,
      summary: `Unlink a ${noun} from nodes`,
      description: 'Refused while an entry on one of the nodes uses it.',
      access: { ...access, verb: 'patch' },
      body: { kind: 'json', schema: nodesBody },
      reply: { status: 200, schema },
      handler: (call) => {
        const unlinked = (object: T, nodes: readonly EdgeNode[]) => {
          for (const node of nodes) {
            const users = usersOn(call.deps, kind, object, node);
            if (users.length === 0) continue;
            throw new DomainError(
              409,
              inUse,
              `${noun} ${v3Name(object)} is used on the node ${v3Name(node)} by ${users.join(', ')}`,
            );
          }
          const names = new Set([...nodes.flatMap(namesOf), ...call.body.fogUuids]);
          return (object.spec.nodes ?? []).filter((linked) => !names.has(linked));
        };
        // A node that was deleted meanwhile may still be named by the object: a later node of that name must not inherit it.
        return relink(call, unlinked, { allowsGone: true });
      },
    }),
  ];
}

interface LinkCall {
  deps: RestDependencies;
  params: z.output<typeof nameParam>;
  body: z.output<typeof nodesBody>;
  caller: Caller;
  signal: AbortSignal;
}

const namesOf = (node: EdgeNode) => [nodeUuid(node), v3Name(node)];

const findNode = ({ nodes }: RestDependencies, name: string) =>
  holder(nodes.find('uuid', name).filter(isPresent), { uuid: name }) ??
  holder(nodes.find('name', name).filter(isPresent));

/** Refuses a write that links an object to a node that does not exist or does not fit. */
export async function requireLinkable<T extends KindObject>(
  deps: RestDependencies,
  { links }: Kind<T>,
  { before, after }: { before?: T; after: T },
  signal: AbortSignal,
): Promise<void> {
  const added = (after.spec.nodes ?? []).filter((name) => !before?.spec.nodes?.includes(name));
  if (!links || added.length === 0) return;
  const nodes = await nodesNamed(deps, added, signal, 'nodes');
  const { refusal } = links;
  if (!refusal) return;
  const present = await presentNodes(deps, nodes, signal);
  for (const node of nodes) {
    const refused = refusal.of(after, present(node));
    if (refused) throw refused;
  }
}

/** The nodes of a body, by uuid or name, each once; 404 names the first that does not exist. */
async function nodesNamed(
  deps: RestDependencies,
  names: readonly string[],
  signal: AbortSignal,
  field = 'fogUuids',
): Promise<readonly EdgeNode[]> {
  if (names.some((name) => !findNode(deps, name))) await deps.nodes.refresh(signal);
  const nodes = names.map((name) => {
    const node = findNode(deps, name);
    if (!node) throw notFound('NOT_FOUND_AGENT_NAME', `${field}: there is no node "${name}"`);
    return node;
  });
  return [...new Set(nodes)];
}

/** The entries of an application that refer to an object, in an application of their own. */
const usersIn = <T extends KindObject>(
  kind: Kind<T>,
  object: T,
  application: Application,
  microservices: readonly MicroserviceEntry[] = application.spec.microservices ?? [],
): readonly string[] =>
  KINDS.applications.referrers?.(
    { ...application, spec: { ...application.spec, microservices: [...microservices] } },
    kind.key,
    refsTo(kind, object),
  ) ?? [];

/** Names of the entries on a node that use an object. */
function usersOn<T extends KindObject>(deps: RestDependencies, kind: Kind<T>, object: T, node: EdgeNode): string[] {
  const entriesOf = placedOn(node, deps.lookups);
  return [...applicationsReferringTo(deps, kind, object)]
    .flatMap((application) => usersIn(kind, object, application, entriesOf(application)))
    .sort();
}

/** uuids of the nodes of an object, sorted. */
function linkedNodes<T extends KindObject>(deps: RestDependencies, kind: Kind<T>, object: T): string[] {
  const uses = [...applicationsReferringTo(deps, kind, object)].flatMap((application) =>
    (application.spec.microservices ?? [])
      .filter((entry) => usersIn(kind, object, application, [entry]).length > 0)
      .map((entry) => ({ application, entry })),
  );
  const reached = [...reach(object, uses, deps.lookups, (name) => findNode(deps, name))];
  const nodes = reached.flatMap(({ node, by }) => (by === 'link' || (by === 'entry' && isPresent(node)) ? node : []));
  return [...new Set(nodes.map(nodeUuid))].sort();
}
