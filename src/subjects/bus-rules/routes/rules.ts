import type { BusAccountRule } from '../../../api/v3/index.ts';
import type { Write } from '../../../kinds/rest.ts';
import { type CrudHooks, crudRoutes } from '../../../rest/crud/crud.ts';
import { verdictError } from '../../../rules/errors.ts';
import { busAccountRuleCrud, busAccountRuleKind } from '../kinds/bus-account-rule.ts';
import { unknownExporter } from '../rules/rule-verdict.ts';

/** of a read of the accounts */
const REFRESH_MS = 5_000;

const hooks: CrudHooks<BusAccountRule, Write<BusAccountRule>> = {
  /** Refuses imports from accounts that do not exist; an account that another replica has just made is read. */
  async permit(_caller, { spec }, _before, { busAccounts }) {
    const judge = () => unknownExporter(spec, (key) => busAccounts.find('publicKey', key).length > 0);
    if (!judge()) return;
    await busAccounts.refresh(AbortSignal.timeout(REFRESH_MS));
    const verdict = judge();
    if (verdict) throw verdictError(verdict);
  },
};

export const busAccountRuleRoutes = crudRoutes(busAccountRuleKind, busAccountRuleCrud, hooks);
