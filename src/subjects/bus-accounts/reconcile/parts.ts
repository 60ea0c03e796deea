import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { onceEach } from '../../../rules/once-each.ts';
import { createAccountTokens } from './account-tokens.ts';
import { createHandOver } from './hand-over.ts';
import { createOperatorKeys } from './operator-keys.ts';
import { createBusRules } from './rules.ts';
import { createBusSecrets } from './secrets.ts';

/** What the reconcilers of the bus share in one term, made once for its dependencies. */
export const busPartsOf = onceEach(createBusParts);

function createBusParts(deps: ControllerDependencies) {
  const secrets = createBusSecrets(deps);
  const operator = createOperatorKeys(secrets);
  const rules = createBusRules(deps);
  return {
    secrets,
    operator,
    rules,
    handOver: createHandOver(deps),
    tokens: createAccountTokens(deps, { secrets, operator, rules }),
  };
}

export type BusParts = ReturnType<typeof createBusParts>;
