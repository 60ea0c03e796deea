import type { Findings } from './conditions.ts';
import { namesShown } from './kind-status.ts';

/** The kinds of rules of the message bus. */
export type BusRuleKind = 'BusAccountRule' | 'BusUserRule';

/** A rule of the message bus that is named and does not exist. */
export interface MissingRule {
  /** the member that names it */
  field: string;
  kind: BusRuleKind;
  name: string;
}

/** Says which rules an object names that do not exist. Their built-in rules limit: a deletion takes no access away, and may give some. */
export function missingRules(missing: readonly MissingRule[]): Findings {
  if (missing.length === 0) return {};
  const named = missing.map(({ field, kind, name }) => `${field}: there is no ${kind} ${JSON.stringify(name)}`);
  const [them, others] = missing.length === 1 ? ['it', 'another rule'] : ['them', 'other rules'];
  const message = `${namesShown(named)}; a built-in rule limits instead. Create ${them}, or name ${others}`;
  return { RuleMissing: { status: 'True', reason: 'BusRuleNotFound', message } };
}
