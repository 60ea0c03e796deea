import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createAccountTokens } from './account-tokens.ts';
import { createOperatorKeys } from './operator-keys.ts';
import { createBusRules } from './rules.ts';
import { createBusSecrets } from './secrets.ts';

/** What the reconcilers of the bus share in one term. */
export function createBusParts(deps: ControllerDependencies) {
  const secrets = createBusSecrets(deps);
  const operator = createOperatorKeys(secrets);
  const rules = createBusRules(deps);
  return { secrets, operator, rules, tokens: createAccountTokens(deps, { secrets, operator, rules }) };
}

export type BusParts = ReturnType<typeof createBusParts>;
