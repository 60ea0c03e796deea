import type { Application } from '../../../../api/v3/index.ts';
import { hasBusAccess } from '../../../../rules/bus-access.ts';
import type { BusRuleKind, MissingRule } from '../../../../rules/missing-rules.ts';

/** Key of a rule of the message bus in the index `busRule` of applications. */
export const busRuleKey = (kind: BusRuleKind, name: string): string => `${kind}/${name}`;

interface NamedRule extends Omit<MissingRule, 'field'> {
  /** the microservices that name it; absent: the application does */
  by?: string[];
}

/** The rules of the message bus that an application with access names, each once. */
function rulesNamedBy(application: Application): readonly NamedRule[] {
  const { busConfig, microservices = [] } = application.spec;
  const rules = new Map<string, NamedRule>();
  if (!busConfig?.busAccess) return [];
  if (busConfig.busRule !== undefined)
    // No name of a rule is empty.
    rules.set('', { kind: 'BusAccountRule', name: busConfig.busRule });
  for (const entry of microservices) {
    const name = entry.busConfig?.busRule;
    if (name === undefined || !hasBusAccess(application, entry)) continue;
    const known = rules.get(name);
    if (known) known.by?.push(entry.name);
    else rules.set(name, { kind: 'BusUserRule', name, by: [entry.name] });
  }
  return [...rules.values()];
}

/** Keys of the rules of the message bus that an application names. */
export const busRuleKeysOf = (application: Application): readonly string[] =>
  rulesNamedBy(application).map(({ kind, name }) => busRuleKey(kind, name));

/** The rules of the message bus that an application names and that do not exist. */
export const missingRulesOf = (
  application: Application,
  hasRule: (kind: BusRuleKind, name: string) => boolean,
): MissingRule[] =>
  rulesNamedBy(application)
    .filter(({ kind, name }) => !hasRule(kind, name))
    .map(({ kind, name, by }) => ({ kind, name, field: `busConfig.busRule${by ? ` of ${by.join(', ')}` : ''}` }));
