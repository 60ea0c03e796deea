import { isIP, isIPv4 } from 'node:net';
import { BOUNDS } from '../../../api/bounds.ts';
import type { BusAccountRuleSpec, BusUserRuleSpec } from '../../../api/v3/index.ts';
import { quoted } from '../../../rules/document.ts';
import { isPublicKey } from '../../../rules/nkey-text.ts';
import type { Verdict } from '../../../rules/verdict.ts';
import { hasWildcards, isWithin, localSubject, overlapOf, renamingError } from './subjects.ts';
import { readActivation } from './tokens/activation.ts';
import { STORE_FIELDS } from './tokens/claims.ts';

/**
 * What a rule may say, where that is more than the form of one member. A bus server refuses a token as a whole for each of these,
 * and keeps the former one.
 */

const wrong = (field: string, problem: string): Verdict => ({
  status: 400,
  reason: 'BusRuleInvalid',
  code: 'BUS_RULE_INVALID',
  message: `${field}: ${problem}`,
  field,
});

/** A check of a rule: the field and the problem, or undefined. */
type Problem = readonly [field: string, problem: string] | undefined;
const first = (problems: Iterable<Problem>): Verdict | undefined => {
  for (const problem of problems) if (problem) return wrong(...problem);
  return undefined;
};

/** Verdicts on specs of stored rules, which nobody modifies: each account with a rule asks for its verdict, which verifies signatures. */
const judged = new WeakMap<BusAccountRuleSpec, { verdict: Verdict | undefined }>();

export function accountRuleVerdict(spec: BusAccountRuleSpec): Verdict | undefined {
  const known = judged.get(spec);
  if (known) return known.verdict;
  const verdict = first(problemsOfAccount(spec));
  judged.set(spec, { verdict });
  return verdict;
}

function* problemsOfAccount(spec: BusAccountRuleSpec): Iterable<Problem> {
  yield sizeProblem(spec);
  yield urlProblem('infoUrl', spec.infoUrl);
  yield* storeProblems(spec);
  const { imports = [], exports = [] } = spec;
  yield tooMany('imports', imports.length, spec.maxImports, 'maxImports');
  yield tooMany('exports', exports.length, spec.maxExports, 'maxExports');
  for (const [index, one] of exports.entries())
    yield* exportProblems(`exports[${index}]`, one, spec.exportsAllowWildcards ?? true);
  for (const type of ['stream', 'service'])
    yield overlapProblem(
      'exports',
      type,
      exports.filter((one) => one.type === type).map(({ subject }) => subject),
    );
  for (const [index, one] of imports.entries()) yield* importProblems(`imports[${index}]`, one);
  const services = imports.filter(({ type }) => type === 'service');
  for (const account of new Set(services.map((one) => one.account))) {
    const local = services.filter((one) => one.account === account);
    yield overlapProblem(
      'imports',
      'service',
      local.map((one) => localSubject(one.subject, one.local_subject)),
    );
  }
}

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '');

/** Names the member that takes most. A token that its Secret has no room for would keep every later revocation from servers. */
function sizeProblem(spec: BusAccountRuleSpec): Problem {
  const [bytes, most] = [bytesOf(spec), BOUNDS.busAccountRuleBytes];
  if (bytes <= most) return undefined;
  const sizes = Object.entries(spec).map(([field, value]) => [field, bytesOf(value)] as const);
  const [largest, of] = sizes.reduce((a, b) => (b[1] > a[1] ? b : a));
  return [largest, `has ${of} of the ${bytes} bytes of the rule as JSON; a rule has at most ${most}`];
}

function* storeProblems(spec: BusAccountRuleSpec): Iterable<Problem> {
  if (!spec.tieredLimits) return;
  const beside = STORE_FIELDS.find((field) => spec[field] !== undefined);
  if (beside) yield ['tieredLimits', `cannot stand beside ${beside}: tiers take the place of all store limits`];
  const tier = Object.keys(spec.tieredLimits).find((name) => !/^R[1-5]$/.test(name));
  if (tier !== undefined)
    yield ['tieredLimits', `${quoted(tier)} is no tier; tiers are named R1 to R5, by the replicas of a stream`];
}

/** Why a rule cannot import what it says: the exporting account does not exist. */
export function unknownExporter(
  { imports = [] }: BusAccountRuleSpec,
  isKnown: (publicKey: string) => boolean,
): Verdict | undefined {
  const index = imports.findIndex(({ account }) => !isKnown(account));
  return index < 0
    ? undefined
    : wrong(`imports[${index}].account`, `${quoted(imports[index]?.account)}; no account has this public key`);
}

type Export = NonNullable<BusAccountRuleSpec['exports']>[number];
type Import = NonNullable<BusAccountRuleSpec['imports']>[number];

function* exportProblems(path: string, one: Export, mayHaveWildcards: boolean): Iterable<Problem> {
  const { subject, type, response_type, account_token_position: position } = one;
  yield urlProblem(`${path}.info_url`, one.info_url);
  if (!mayHaveWildcards && hasWildcards(subject))
    yield [`${path}.subject`, `${quoted(subject)} has wildcards, and exportsAllowWildcards is false`];
  if (type === 'stream' && response_type !== undefined)
    yield [`${path}.response_type`, `${quoted(response_type)}; only an export of type service has replies`];
  if (position !== undefined && subject.split('.')[position - 1] !== '*')
    yield [`${path}.account_token_position`, `${position}; the token ${position} of ${quoted(subject)} must be "*"`];
}

function* importProblems(path: string, one: Import): Iterable<Problem> {
  const { subject, type, account, token, local_subject, share } = one;
  if (!isPublicKey(account, 'account'))
    yield [`${path}.account`, `${quoted(account)} is not the public key of an account: its checksum is wrong`];
  if (share && type !== 'service') yield [`${path}.share`, 'is for imports of type service'];
  const renaming = local_subject === undefined ? undefined : renamingError(subject, local_subject);
  if (renaming) yield [`${path}.local_subject`, `${quoted(local_subject)} ${renaming}`];
  if (!token) return;
  const activation = readActivation(token);
  if (!activation) yield [`${path}.token`, 'is not an activation token with a valid signature'];
  else if (activation.exporter !== account) yield [`${path}.token`, `is of another account than ${account}`];
  else if (activation.type !== type) yield [`${path}.token`, `is for an import of type ${quoted(activation.type)}`];
  else if (!isWithin(subject, activation.subject))
    yield [`${path}.token`, `is for ${quoted(activation.subject)}, which ${quoted(subject)} is not within`];
}

const tooMany = (field: string, count: number, most: number | undefined, limit: string): Problem =>
  most !== undefined && most >= 0 && count > most ? [field, `has ${count} items, and ${limit} is ${most}`] : undefined;

function overlapProblem(field: string, type: string, subjects: readonly string[]): Problem {
  const overlap = overlapOf(subjects);
  return overlap && [field, `two items of type ${type} overlap: ${quoted(overlap[0])} and ${quoted(overlap[1])}`];
}

/** Servers parse it as Go does: with a scheme and a host, and no unfinished escape. */
function urlProblem(field: string, url: string | undefined): Problem {
  if (!url) return undefined;
  const isUrl =
    /^[a-zA-Z][a-zA-Z0-9+.-]*:\/\/[^\s@]+$/.test(url) &&
    !/%(?![0-9a-fA-F]{2})/.test(url) &&
    URL.canParse(url) &&
    new URL(url).hostname !== '';
  return isUrl ? undefined : [field, `${quoted(url)} is no URL with a scheme and a host, such as https://example.com`];
}

export const userRuleVerdict = (spec: BusUserRuleSpec): Verdict | undefined => first(problemsOfUser(spec));

function* problemsOfUser({ src = [], timesLocation }: BusUserRuleSpec): Iterable<Problem> {
  for (const [index, source] of src.entries())
    if (!isNetwork(source))
      yield [`src[${index}]`, `${quoted(source)} is neither an IP address nor a CIDR, such as 10.0.0.7 or 10.0.0.0/8`];
  yield zoneProblem(timesLocation);
}

function isNetwork(source: string): boolean {
  const [address = '', bits, more] = source.split('/');
  if (more !== undefined || isIP(address) === 0) return false;
  return bits === undefined || (/^(0|[1-9][0-9]{0,2})$/.test(bits) && Number(bits) <= (isIPv4(address) ? 32 : 128));
}

/** Zones by their name: servers know no offsets, and their files have each name in one spelling. */
function zoneProblem(zone: string | undefined): Problem {
  if (zone === undefined) return undefined;
  const known = knownZone(zone);
  if (known === undefined) return ['timesLocation', `${quoted(zone)} is no name of a time zone, such as Europe/Berlin`];
  const isOtherCase = known !== zone && known.toLowerCase() === zone.toLowerCase();
  return isOtherCase ? ['timesLocation', `${quoted(zone)} must be spelled ${known}`] : undefined;
}

/** The zone that a name means; it has another name where it is an alias. */
function knownZone(zone: string): string | undefined {
  if (!/^[A-Za-z][A-Za-z0-9_+\-/]*$/.test(zone)) return undefined;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}
