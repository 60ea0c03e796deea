/**
 * What a refusal says, whoever says it. The API server has words of its own for what an OpenAPI schema demands, which cannot be chosen;
 * rules in CEL have one text for both. Two refusals agree when field and demand are the same.
 */
export interface Demand {
  /** path in the spec */
  field: string;
  demand: string;
}

type Words = readonly (readonly [RegExp, (...groups: string[]) => string])[];

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'an integer',
  int32: 'an integer',
  int64: 'an integer',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  'integer,string': 'a number or text',
};

/** Of the API server. */
const KUBE: Words = [
  [/ in body must be of type ([a-z0-9,]+): /, (type = '') => `must be ${TYPES[type] ?? type}`],
  [/^Required value/, () => 'is required'],
  [/ should be less than or equal to (\S+)$/, (max) => `must be at most ${Number(max)}`],
  [/ should be less than (\S+)$/, (max) => `must be less than ${max}`],
  [/ should be greater than or equal to (\S+)$/, (min) => `must be at least ${Number(min)}`],
  [/ should be greater than (\S+)$/, (min) => `must be greater than ${min}`],
  [/^Too long: may not be more than (\d+) bytes$/, (max) => `must have at most ${max} characters`],
  [/^(.*) \(e\.g\. 'key\.name'.*\)$/s, (text = '') => text],
  [/^(a lowercase RFC 1123 subdomain must .*) \(e\.g\. .*\)$/s, (text = '') => text],
  [/ should be at least 1 chars long$/, () => 'must not be empty'],
  // Of a text with a form, REST says the form alone, which has the least length in it.
  [/ should be at least \d+ chars long$/, () => 'must match'],
  [/ should match '.*'$/s, () => 'must match'],
  [/^Unsupported value: .*: supported values: (.*)$/s, (words = '') => `must be one of ${words.replaceAll('"', '')}`],
  [/^Too many: \d+: must have at most (\d+) items$/, (max) => `must have at most ${max} items`],
  [/ should have at least (\d+) items$/, (min) => `must have at least ${min} items`],
  [/^Duplicate value/, () => 'duplicate'],
  [/^strict decoding error: unknown field/, () => 'unknown field'],
];

/** Of REST, without the value. */
const REST: Words = [
  [/^must have at most (\d+) (items|keys)$/, (max) => `must have at most ${max} items`],
  [/^(must have at most \d+ characters), has \d+$/, (text = '') => text],
  [/^must not be empty: servers /, () => 'must have at least 1 items'],
  [/^duplicate: /, () => 'duplicate'],
  [/^unknown field /, () => 'unknown field'],
  [/^(must have at most \d+) bytes, has \d+$/, (text = '') => `${text} characters`],
  [/^must be text; in YAML put it in quotes$/, () => 'must be text'],
  // The CRD cannot name the item (messageOf in src/api/rules.ts).
  [
    /^(two ports have the same external port and protocol|a port of the container is mapped once for each protocol): \d+\/\w+$/,
    (text = '') => text,
  ],
  // The words of a core Secret; a v3 body has types of its own.
  [/^must be one of Opaque, tls$/, () => 'must be one of Opaque, kubernetes.io/tls'],
  [/^is required/, () => 'is required'],
  // Of annotations, which existing clients may send as text.
  [/^must be an object with text values, or its JSON text$/, () => 'must be an object'],
];

const spoken = (text: string, words: Words): string => {
  for (const [pattern, demand] of words) {
    const [, ...groups] = pattern.exec(text) ?? [undefined];
    if (pattern.test(text)) return demand(...(groups as string[]));
  }
  return text;
};

/** `spec.cpuLimit: Invalid value: 401: spec.cpuLimit in body should be ...`, as one cause of a refusal of the API server. */
export function demandOfKube(cause: string): Demand {
  const [, denied] = /denied request: (.*)$/s.exec(cause) ?? [];
  if (denied !== undefined) return demandOfRest(denied);
  const [, member = '', type = ''] =
    /cannot unmarshal \w+ into Go struct field \w+\.(\S+) of type (\S+)$/.exec(cause) ?? [];
  if (member) return { field: member, demand: `must be ${GO_TYPES[type] ?? type}` };
  // One message, without causes.
  if (/illegal base64 data/.test(cause)) return { field: '', demand: 'must be base64' };
  const [, top = ''] = /handled as a \w+: strict decoding error: unknown field "([^"]+)"/.exec(cause) ?? [];
  if (top && !top.startsWith('spec.')) return { field: '', demand: 'unknown field' };
  const unknown = /unknown field "spec\.?([^"]*?)\.?([^".]+)"/.exec(cause);
  if (unknown) return { field: unknown[1] ?? '', demand: 'unknown field' };
  const [field = ''] = /^[^:]*/.exec(cause) ?? [];
  const text = cause.slice(field.length + 2);
  return { field: inSpec(field), demand: spoken(afterValue(text), KUBE) };
}

/** Types of core objects, which the API server decodes by their Go types. */
const GO_TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  'v1.SecretType': 'text',
  '[]uint8': 'text',
  bool: 'true or false',
  'map[string]string': 'an object with text values',
  'map[string][]uint8': 'an object with text values',
};

/** The rule of CEL after the value, where there is one; it may be a whole object. */
const afterValue = (text: string) =>
  / in body |^(Required|Too|Unsupported|Duplicate)/.test(text)
    ? text
    : text.replace(/^Invalid value: /, '').replace(/^("(?:[^"\\]|\\.)*"|\d\S*|true|false|\{.*\}|\[.*\]): /s, '');

/** `cpuLimit: 401 is not valid: must be at most 400`. */
export function demandOfRest(message: string): Demand {
  const [, field = '', text = message] = /^((?:[A-Za-z0-9_./-]|\[[^\]]*\])+): (.*)$/s.exec(message) ?? [];
  const demand = text.replace(/^.*? is not valid: /s, '');
  return { field: inSpec(field), demand: spoken(demand, REST) };
}

const inSpec = (field: string) => field.replace(/^spec(\.|$)/, '').replace(/^<nil>$/, '');
