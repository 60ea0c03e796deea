import { BOUNDS } from '../../../../api/bounds.ts';
import { NAME_PATTERN, type ObjectMeta } from '../../../../api/meta.ts';
import { ANNOTATIONS } from '../../../../api/names.ts';
import { isObject, quoted } from '../../../../rules/document.ts';
import { invalid } from '../../../../rules/errors.ts';
import { base64OfText } from './base64.ts';
import { base64Of, isNullish, readTexts } from './body.ts';
import { configMapForm, secretForm, textNameOf } from './form.ts';
import { CORE_TYPES, requireLegalKey, violationAt } from './rules.ts';

/** Files of Secrets and ConfigMaps, in the form of v3 or in that of kubectl (docs/spec/rest-v3.md#secrets-and-config-maps). */

type Fields = Record<string, unknown>;

/** The members of a document of each kind: at the top level, in the form of v3 (or inside `spec`), and in that of kubectl. */
const FORMS = {
  Secret: { v3: ['type', 'data', 'binaryData', 'immutable'], core: ['type', 'data', 'stringData', 'immutable'] },
  ConfigMap: { v3: ['data', 'binaryData', 'immutable', 'useVault'], core: ['data', 'binaryData', 'immutable'] },
} as const;

/** The JSON body that is equivalent to an uploaded document. */
export function bodyOfDocument(document: unknown, kind: keyof typeof FORMS): Fields {
  if (!isObject(document)) throw invalid(`the file must hold one YAML object of kind ${kind}`);
  const { apiVersion, kind: given, metadata, spec, ...top } = document;
  if (given !== kind) throw invalid(`kind: ${quoted(given)}; must be ${kind}`, 'kind');
  if (!isObject(metadata)) throw invalid('metadata: is required', 'metadata');
  const { name } = metadata;
  if (typeof name !== 'string' || name === '') throw invalid('metadata.name: is required', 'metadata.name');
  if (apiVersion === 'v1') {
    requireKnown(document, [...FORMS[kind].core, 'apiVersion', 'kind', 'metadata']);
    return kind === 'Secret'
      ? bodyOfCoreSecret(coreMetadata({ ...metadata, name }), document)
      : bodyOfCoreConfigMap(coreMetadata({ ...metadata, name }), document);
  }
  if (!isNullish(spec) && !isObject(spec)) throw invalid('spec: must be an object', 'spec');
  const fields: Fields = { ...top, ...spec };
  const twice = Object.keys(spec ?? {}).find((field) => field in top && top[field] !== fields[field]);
  if (twice) throw invalid(`${twice}: is given at the top level and in spec, with different values`, twice);
  requireKnown(fields, FORMS[kind].v3);
  return { name, ...fields };
}

function requireKnown(fields: Fields, known: readonly string[]): void {
  const unknown = Object.keys(fields).find((field) => !known.includes(field));
  if (unknown !== undefined) throw invalid(`unknown field ${quoted(unknown)}`, unknown);
}

const NAME = new RegExp(NAME_PATTERN);

/** The metadata of a core object that concern the v3 API: its name and what spells names, keys and type. */
function coreMetadata({ name, labels, annotations }: Fields & { name: string }): ObjectMeta {
  if (name.length > BOUNDS.name || !NAME.test(name))
    throw invalid(
      `metadata.name: ${quoted(name)} is not valid: ${name.length > BOUNDS.name ? `must be no more than ${BOUNDS.name} characters` : "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"}`,
      'metadata.name',
    );
  const given = isObject(annotations) ? annotations[ANNOTATIONS.name] : undefined;
  if (typeof given === 'string' && (given === '' || [...given].length > BOUNDS.anyName))
    throw violationAt(ANNOTATIONS.name, `must have 1 to ${BOUNDS.anyName} characters`, 'metadata.annotations');
  const texts = (member: string, value: unknown) =>
    isNullish(value) ? {} : { [member]: readTexts(value, `metadata.${member}`) };
  return { name, ...texts('labels', labels), ...texts('annotations', annotations) };
}

/** A document in the form of kubectl is judged as the API server judges it, and names the whole content. */
function bodyOfCoreSecret(metadata: ObjectMeta, { type: given, data, stringData, immutable }: Fields): Fields {
  const type = isNullish(given) || given === '' ? 'Opaque' : given;
  if (typeof type !== 'string') throw invalid(`type: ${quoted(type)} is not valid: must be text`, 'type');
  if (!Object.hasOwn(CORE_TYPES, type))
    throw invalid(`type: ${quoted(type)} is not valid: must be one of ${Object.keys(CORE_TYPES).join(', ')}`, 'type');
  const encoded = legal(isNullish(data) ? {} : base64Of(readTexts(data, 'data'), 'data'), 'data');
  const texts = legal(isNullish(stringData) ? {} : readTexts(stringData, 'stringData'), 'data');
  const fromText = Object.entries(texts).map(([key, value]) => [key, base64OfText(value)]);
  const { spec } = secretForm({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata,
    type,
    data: { ...encoded, ...Object.fromEntries(fromText) },
  });
  return bodyOf(metadata, { type: spec.type, data: spec.data, binaryData: spec.binaryData }, immutable);
}

function bodyOfCoreConfigMap(metadata: ObjectMeta, { data, binaryData, immutable }: Fields): Fields {
  const { spec } = configMapForm({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata,
    data: legal(isNullish(data) ? {} : readTexts(data, 'data'), 'data'),
    binaryData: legal(
      isNullish(binaryData) ? {} : base64Of(readTexts(binaryData, 'binaryData'), 'binaryData'),
      'binaryData',
    ),
  });
  return bodyOf(metadata, { data: spec.data, binaryData: spec.binaryData }, immutable);
}

const bodyOf = (metadata: ObjectMeta, { binaryData = {}, ...content }: Fields, immutable: unknown): Fields => ({
  name: textNameOf({ metadata }),
  ...content,
  binaryData,
  ...(!isNullish(immutable) && { immutable }),
});

function legal<T extends object>(data: T, member: string): T {
  for (const key of Object.keys(data)) requireLegalKey(key, member);
  return data;
}
