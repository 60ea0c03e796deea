import { LABELS } from '../../../../api/names.ts';
import type { MicroserviceEntry } from '../../../../api/v3/index.ts';
import type { KeyedText, Lookups } from '../../../../rules/inputs.ts';
import type { Verdict } from '../../../../rules/verdict.ts';

/** A variable of an entry. */
export type EnvItem = NonNullable<NonNullable<MicroserviceEntry['container']>['env']>[number];

/** A resolved variable. */
export interface EnvValue {
  key: string;
  value: string;
  /** the value comes from a Secret */
  secret?: true;
}

/** The value of a variable, or why it has none. Values of Secrets never enter a verdict. */
export function resolveEnv(
  item: EnvItem,
  lookups: Pick<Lookups, 'secret' | 'configMap'>,
): { env: EnvValue } | { verdict: Verdict } {
  const { key, value, valueFromSecret, valueFromConfigMap } = item;
  if (valueFromSecret !== undefined) {
    const found = lookUp(item, valueFromSecret, SECRET, lookups.secret);
    return 'verdict' in found ? found : { env: { key, value: found.value, secret: true } };
  }
  if (valueFromConfigMap !== undefined) {
    const found = lookUp(item, valueFromConfigMap, CONFIG_MAP, lookups.configMap);
    return 'verdict' in found ? found : { env: { key, value: found.value } };
  }
  return { env: { key, value: value ?? '' } };
}

/** The terms for a source in messages. */
interface Source {
  kind: 'Secret' | 'ConfigMap';
  missing: Pick<Verdict, 'reason' | 'code'>;
  noKey: Pick<Verdict, 'reason' | 'code'>;
}
const SECRET: Source = {
  kind: 'Secret',
  missing: { reason: 'SecretNotFound', code: 'SECRET_NOT_FOUND' },
  noKey: { reason: 'SecretKeyNotFound', code: 'SECRET_KEY_NOT_FOUND' },
};
const CONFIG_MAP: Source = {
  kind: 'ConfigMap',
  missing: { reason: 'ConfigMapNotFound', code: 'CONFIGMAP_NOT_FOUND' },
  noKey: { reason: 'ConfigMapKeyNotFound', code: 'CONFIGMAP_KEY_NOT_FOUND' },
};

/** `name/key`: the name ends at the first slash, keys may contain more. */
function lookUp(
  item: EnvItem,
  reference: string,
  { kind, missing, noKey }: Source,
  find: (name: string) => KeyedText | undefined,
): { value: string } | { verdict: Verdict } {
  const slash = reference.indexOf('/');
  const name = reference.slice(0, slash);
  const key = reference.slice(slash + 1);
  const source = find(name);
  const field = 'container.env';
  if (!source)
    return {
      verdict: {
        ...missing,
        status: 404,
        field,
        message: `env ${item.key}: no ${kind} "${name}" with the label ${LABELS.shareable}=true`,
      },
    };
  if (!Object.hasOwn(source.data, key))
    return {
      verdict: { ...noKey, status: 400, field, message: `env ${item.key}: the ${kind} "${name}" has no key "${key}"` },
    };
  return { value: source.data[key] as string };
}
