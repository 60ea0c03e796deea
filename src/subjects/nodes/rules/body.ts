import type { ControlPlane } from '../../../api/names.ts';
import { type EdgeNode, type EdgeNodeSpec, edgeNodeSpecSchema } from '../../../api/v3/index.ts';
import { quoted, requireUnchanged } from '../../../rules/document.ts';
import { invalid } from '../../../rules/errors.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import { validateSpec } from '../../../rules/validate.ts';
import { canonicalEngine, modesNotOfSystem, settingShown } from './settings.ts';

type Fields = Record<string, unknown>;

/** The spec of a create body; throws DomainError. Unknown fields are dropped. */
export function nodeFromBody(body: unknown, controlPlane: ControlPlane): { name: string; spec: EdgeNodeSpec } {
  const { name, isSystem, ...fields } = knownFields(body);
  if (isAbsent(name)) throw invalid('name: is required', 'name');
  const asksForSystem = !isAbsent(isSystem) && isSystem !== false;
  const spec = checked({ ...fields, name, archId: fields.archId ?? 0, ...(asksForSystem && { isSystem }) });
  if (spec.isSystem && controlPlane !== 'remote')
    throw invalid(
      'isSystem: true; must be false or left out: nodes of the system exist on control plane remote alone (CONTROL_PLANE of the controller)',
      'isSystem',
    );
  requireModesOfSystem(spec);
  requireAddress(spec, fields);
  const { name: checkedName = '', ...rest } = spec;
  return { name: checkedName, spec: withGpsMode(rest, fields) };
}

/**
 * The spec after a PATCH body: absent fields stay, null removes. A field that is shown as it is sent and was never set
 * stays unset, so that sending back a read does not set every default. Throws DomainError.
 */
export function patchNode(node: EdgeNode, body: unknown, isBusOn: boolean): EdgeNodeSpec {
  const { name, isSystem, ...fields } = knownFields(body);
  requireUnchanged('uuid', (body as Fields).uuid, nodeUuid(node));
  requireUnchanged('name', name, v3Name(node));
  const isOfSystem = node.spec.isSystem ?? false;
  if (!isAbsent(isSystem) && isSystem !== isOfSystem)
    throw invalid(`isSystem: ${quoted(isSystem)}; is immutable and is ${isOfSystem}`, 'isSystem');
  const spec: Fields = withoutHalf(node.spec);
  const changed: Fields = {};
  for (const [field, value] of Object.entries(fields)) {
    if (spec[field] === undefined && isShown(node, field, value, isBusOn) && !isHalf(node, field, fields)) continue;
    changed[field] = value;
    if (value === null) delete spec[field];
    else spec[field] = value;
  }
  const patched = checked(spec);
  if (Object.keys(changed).length > 0) requireModesOfSystem(patched);
  requireAddress(patched, changed, fields);
  return withGpsMode(patched, changed);
}

/** Fields that identify a node, or that the controller alone sets. */
const NOT_SETTINGS = new Set(['uuid', 'id']);

function knownFields(body: unknown): Fields {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw invalid('body: must be an object');
  const known = Object.entries(body).filter(
    ([field, value]) =>
      Object.hasOwn(edgeNodeSpecSchema.shape, field) && !NOT_SETTINGS.has(field) && value !== undefined,
  );
  return Object.fromEntries(
    known.map(([field, value]) => [field, value === '' && MAY_BE_EMPTY.has(field) ? null : normal(field, value)]),
  );
}

/** Fields whose empty text means "not set"; for other fields the schema decides on empty text. */
const MAY_BE_EMPTY = new Set([
  'containerEngine',
  'containerEngineUrl',
  'deploymentType',
  'description',
  'diskDirectory',
  'gpsDevice',
  'gpsMode',
  'host',
  'jsMemoryStoreSize',
  'jsStorageSize',
  'location',
  'logDirectory',
  'logLevel',
  'networkInterface',
  'networkRouter',
  'routerMode',
  'busMode',
  'timeZone',
]);

function normal(field: string, value: unknown): unknown {
  return field === 'containerEngine' && typeof value === 'string' ? canonicalEngine(value) : value;
}

const checked = (fields: Fields): EdgeNodeSpec => validateSpec(edgeNodeSpecSchema, fields, { tolerant: true });

function requireModesOfSystem(spec: EdgeNodeSpec): void {
  const [other] = modesNotOfSystem(spec);
  if (other)
    throw invalid(
      `${other.field}: ${quoted(other.asked)}; must be "${other.has}", or left out, for a node of the system (isSystem)`,
      other.field,
    );
}

/** Applies only when the mode is sent: a router that other routers connect to needs a known address. */
function requireAddress(spec: EdgeNodeSpec, sent: Fields, given: Fields = sent): void {
  const mode = sent.routerMode;
  if (mode !== 'edge' && mode !== 'interior') return;
  const needs = mode === 'interior' ? (['host', 'interRouterPort', 'edgeRouterPort'] as const) : (['host'] as const);
  // A port that is given as it is shown stays unset.
  for (const field of needs)
    if (isAbsent(spec[field]) && isAbsent(given[field]))
      throw invalid(`${field}: is required with routerMode ${mode}`, field);
}

/** Coordinates without a mode have the mode manual (docs/spec/rest-v3.md#node-body). */
function withGpsMode(spec: EdgeNodeSpec, sent: Fields): EdgeNodeSpec {
  if (spec.gpsMode === 'dynamic' && isAbsent(spec.gpsDevice))
    throw invalid('gpsDevice: is required with gpsMode dynamic', 'gpsDevice');
  const given = !isAbsent(sent.latitude) && !isAbsent(sent.longitude);
  return given && isAbsent(sent.gpsMode) && spec.gpsMode !== 'dynamic' && spec.gpsMode !== 'off'
    ? { ...spec, gpsMode: 'manual' }
    : spec;
}

const COORDINATES = ['latitude', 'longitude'];

/** Drops a lone coordinate, which older versions stored without effect, so that it cannot block other edits. */
const withoutHalf = (spec: Fields): Fields => {
  const { latitude, longitude, ...rest } = spec;
  return isAbsent(latitude) === isAbsent(longitude) ? { ...spec } : rest;
};

/** One coordinate that is sent as it is shown counts when the other one is sent as well and is another. */
const isHalf = (node: EdgeNode, field: string, fields: Fields): boolean =>
  COORDINATES.includes(field) &&
  COORDINATES.some((other) => !isAbsent(fields[other]) && !isShown(node, other, fields[other], false));

function isShown(node: EdgeNode, field: string, value: unknown, isBusOn: boolean): boolean {
  return JSON.stringify(settingShown(node, field as keyof EdgeNodeSpec, isBusOn) ?? null) === JSON.stringify(value);
}

const isAbsent = (value: unknown): boolean => value === undefined || value === null || value === '';
