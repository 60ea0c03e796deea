import { applicationRead } from '../domain/application/read.ts';
import { nodeRead } from '../domain/edge-node/read.ts';
import { DomainError } from '../domain/errors.ts';
import { findExpression } from '../domain/expressions.ts';
import { lookUps } from '../domain/templates/look-ups.ts';
import type { LookUp } from '../domain/templates/renderer.ts';
import { isObject } from '../domain/upload/document.ts';
import { oldest } from '../stores/oldest.ts';
import { isPresent } from './deletion.ts';
import type { RestDependencies } from './dependencies.ts';
import { liveNodes, readContext } from './reads.ts';
import type { Caller, Templated } from './route.ts';

/** A request: whose rights its expressions have, and how long it waits for them. */
export interface Requester {
  deps: RestDependencies;
  caller: Caller;
  signal: AbortSignal;
}

/** The body of a request with its expressions replaced. `place` is where a file has the members of a JSON body. */
export async function renderBody(
  requester: Requester,
  body: unknown,
  templated: Templated | undefined,
  place: readonly string[] = [],
): Promise<unknown> {
  if (!templated || !isObject(body)) return body;
  const only = templated === true ? undefined : [[...place, templated.only]];
  if (!(only ?? [[]]).some((path) => findExpression(path.reduce<unknown>(member, body)))) return body;
  const { deps, caller, signal } = requester;
  const options = { lookUp: lookUpAs(deps, caller), caller: caller.identity?.name ?? '', signal };
  return deps.templates.render({ document: body, ...(only && { only }) }, options);
}

const member = (value: unknown, key: string) => (isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined);

/** The look-ups of expressions, with the rights of the caller. */
function lookUpAs(deps: RestDependencies, caller: Caller): LookUp {
  const mayList = async (resource: string) => {
    if (!(await caller.may({ resource, verb: 'list' })))
      throw new DomainError(403, 'FORBIDDEN', `${caller.identity?.name ?? ''} may not list ${resource}`);
  };
  return lookUps({
    async nodes() {
      await mayList('edgenodes');
      return deps.nodes.list().filter(isPresent);
    },
    async nodeBy(key, value) {
      await mayList('edgenodes');
      return oldest(deps.nodes.find(key, value).filter(isPresent));
    },
    async applicationByName(name) {
      const found = oldest(deps.applications.find('name', name).filter(isPresent));
      await mayList(found?.spec.isSystem ? 'systemapplications' : 'applications');
      return found;
    },
    async readNodes(nodes, signal) {
      const live = await liveNodes(deps, nodes, signal);
      return nodes.map((node) => nodeRead(node, live(node), { platformStatus: false }));
    },
    async readApplication(application, signal) {
      return applicationRead(application, await readContext(deps, [application], signal));
    },
  });
}
