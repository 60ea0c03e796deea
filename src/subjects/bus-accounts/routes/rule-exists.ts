import type { RestErrorCode } from '../../../api/error-codes.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { notFound } from '../../../rest/contract/errors.ts';
import { findObject } from '../../../rest/objects/lookup.ts';

/** 404 for a rule that does not exist. */
export async function requireRule(
  deps: RestDependencies,
  key: 'busAccountRules' | 'busUserRules',
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const kind = deps.kinds[key];
  if (!kind || kind.builtIns?.some((one) => one.name === name) || (await findObject(deps, kind, name, signal))) return;
  throw notFound(kind.rest.notFound as RestErrorCode<404>, `busRule: there is no ${kind.noun} ${JSON.stringify(name)}`);
}
