import { BOUNDS } from '../../../../api/bounds.ts';
import { ANNOTATIONS, LABELS } from '../../../../api/names.ts';
import { quoted } from '../../../../rules/document.ts';
import { type DomainError, invalid } from '../../../../rules/errors.ts';
import { bytesOfBase64 } from './base64.ts';
import { keysAnnotation, LEGAL_KEY, storedKey } from './keys.ts';

/**
 * What a Secret or ConfigMap of the v3 API may have (docs/spec/rest-v3.md#secrets-and-config-maps). Most of it the API server demands of
 * core objects, in these words; what it does not demand, an admission policy demands of kubectl. REST obeys the whole table, so that
 * a document has one verdict.
 */
export const SECRET_TYPES = ['Opaque', 'tls'] as const;
export type SecretType = (typeof SECRET_TYPES)[number];
/** v3 types of the types of core Secrets. */
export const CORE_TYPES: Readonly<Record<string, SecretType>> = { Opaque: 'Opaque', 'kubernetes.io/tls': 'tls' };

type Texts = Readonly<Record<string, string>>;
/** What a body or a stored object has. */
export interface CoreContent {
  type?: SecretType;
  /** text by key; base64 by key of type tls */
  data: Texts;
  /** base64 by key */
  binaryData?: Texts | undefined;
}

interface Rule {
  /** absent for what no body of REST can have */
  violation?(content: CoreContent): DomainError | undefined;
  /** demanded of kubectl by an admission policy, since the API server does not */
  policy?: Omit<CorePolicy, 'message'>;
  /** the violation in the policy; that of REST may name the key */
  message: string;
}

export interface CorePolicy {
  /** CEL: whether an object, which has the label, keeps the rule */
  keeps(object: string): string;
  resources: readonly ('secrets' | 'configmaps')[];
  message: string;
}

const BOTH = ['secrets', 'configmaps'] as const;
const TLS_KEYS = ['tls.crt', 'tls.key'] as const;
/** Bytes of all annotations of an object; half of them is for the spellings of keys. */
const KEY_SPELLINGS = 128 * 1024;

const isLabelledTls = (object: string) =>
  `has(${object}.metadata.labels) && '${LABELS.secretType}' in ${object}.metadata.labels && ${object}.metadata.labels['${LABELS.secretType}'] == 'tls'`;
const countOf = (object: string, member: string) => `(has(${object}.${member}) ? ${object}.${member}.size() : 0)`;

const RULES: readonly Rule[] = [
  {
    message: `data: must have at most ${BOUNDS.coreObjectBytes} bytes`,
    violation: (content) =>
      bytesOf(content) > BOUNDS.coreObjectBytes
        ? invalid(
            `data: must have at most ${BOUNDS.coreObjectBytes} bytes, has ${bytesOf(content)}`,
            'data',
            'OBJECT_TOO_LARGE',
          )
        : undefined,
  },
  {
    message: 'data[key]: duplicate of key present in binaryData',
    violation({ data, binaryData = {} }) {
      const twice = Object.keys(binaryData).find((key) => Object.hasOwn(data, key));
      return twice === undefined ? undefined : violationAt(twice, 'duplicate of key present in binaryData');
    },
  },
  ...TLS_KEYS.map(
    (key): Rule => ({
      message: `data[${key}]: is required`,
      violation: ({ type, data }) =>
        type === 'tls' && !Object.hasOwn(data, key) ? violationAt(key, 'is required') : undefined,
      policy: {
        resources: ['secrets'],
        keeps: (object) => `!(${isLabelledTls(object)}) || (has(${object}.data) && '${key}' in ${object}.data)`,
      },
    }),
  ),
  {
    message: `type: must be one of ${Object.keys(CORE_TYPES).join(', ')}`,
    policy: {
      resources: ['secrets'],
      keeps: (object) =>
        `has(${object}.type) && ${object}.type in [${Object.keys(CORE_TYPES)
          .map((type) => `'${type}'`)
          .join(', ')}]`,
    },
  },
  {
    message: `data: must have at most ${BOUNDS.coreObjectKeys} keys`,
    violation: ({ data, binaryData = {} }) =>
      Object.keys(data).length + Object.keys(binaryData).length > BOUNDS.coreObjectKeys
        ? invalid(`data: must have at most ${BOUNDS.coreObjectKeys} keys`, 'data')
        : undefined,
    policy: {
      resources: BOTH,
      keeps: (object) => `${countOf(object, 'data')} + ${countOf(object, 'binaryData')} <= ${BOUNDS.coreObjectKeys}`,
    },
  },
  {
    message: `metadata.annotations[${ANNOTATIONS.name}]: must have 1 to ${BOUNDS.anyName} characters`,
    policy: {
      resources: BOTH,
      keeps: (object) =>
        `!(has(${object}.metadata.annotations) && '${ANNOTATIONS.name}' in ${object}.metadata.annotations) || [${object}.metadata.annotations['${ANNOTATIONS.name}'].size()].all(size, size >= 1 && size <= ${BOUNDS.anyName})`,
    },
  },
  {
    message: `data[key]: must have 1 to ${BOUNDS.path} characters`,
    violation(content) {
      const wrong = keysOf(content).find((key) => key === '' || [...key].length > BOUNDS.path);
      return wrong === undefined ? undefined : violationAt(wrong, `must have 1 to ${BOUNDS.path} characters`);
    },
  },
  {
    message: 'data[key]: is stored under the same name as another key',
    violation(content) {
      const known = new Map<string, string>();
      for (const key of keysOf(content)) {
        const other = known.get(storedKey(key));
        if (other !== undefined) return violationAt(key, `is stored under the same name as the key ${quoted(other)}`);
        known.set(storedKey(key), key);
      }
      return undefined;
    },
  },
  {
    message: 'data: keys that core objects refuse take too much',
    violation: (content) =>
      Buffer.byteLength(keysAnnotation(keysOf(content)) ?? '') > KEY_SPELLINGS
        ? invalid(
            `data: its keys with characters other than letters, digits, ".", "_" and "-" must take at most ${KEY_SPELLINGS} bytes`,
            'data',
          )
        : undefined,
  },
];

/** Refuses content that breaks a rule; the message names the key and never a value. */
export function requireKept(content: CoreContent): void {
  for (const { violation } of RULES) {
    const broken = violation?.(content);
    if (broken) throw broken;
  }
}

/** What an admission policy demands of kubectl. */
export const CORE_POLICIES: readonly CorePolicy[] = RULES.flatMap(({ policy, message }) =>
  policy ? [{ ...policy, message }] : [],
);

/** A refusal about the value of a key. */
export function violationAt(key: string, demand: string, member = 'data'): DomainError {
  const field = `${member}[${SHORT.test(key) ? key : quoted(key)}]`;
  return invalid(`${field}: ${demand}`, field);
}
const SHORT = /^[^\p{C}\]:]{0,255}$/u;

/** Refuses a key in the form of core objects that the API server refuses, in its words. */
export function requireLegalKey(key: string, member: string): void {
  if (LEGAL_KEY.test(key)) return;
  if (key.length > BOUNDS.name) throw violationAt(key, `must be no more than ${BOUNDS.name} characters`, member);
  if (key === '.' || key === '..') throw violationAt(key, `must not be '${key}'`, member);
  if (/^\.\.[-._a-zA-Z0-9]+$/.test(key)) throw violationAt(key, "must not start with '..'", member);
  throw violationAt(key, "a valid config key must consist of alphanumeric characters, '-', '_' or '.'", member);
}

const keysOf = ({ data, binaryData = {} }: CoreContent) => [...Object.keys(data), ...Object.keys(binaryData)];

function bytesOf({ type, data, binaryData = {} }: CoreContent): number {
  const sizeOf = type === 'tls' ? bytesOfBase64 : Buffer.byteLength;
  const sum = (values: Texts, size: (value: string) => number) =>
    Object.values(values).reduce((total, value) => total + size(value), 0);
  return sum(data, (value) => sizeOf(value)) + sum(binaryData, bytesOfBase64);
}
